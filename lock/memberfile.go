package lock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// A member's file, members/<instance>, is
//
//	offset 0     20 digits, the beat, and a line feed
//	offset 21    one JSON object, padded with blanks to 1 KiB, a line feed last
//
// Both parts are overwritten in place, each by one pwrite, so a reader may meet
// a line that is half old and half new: it is torn, and read again.
const (
	membersDir = "members"

	beatDigits = 20
	lineOffset = beatDigits + 1
	lineBytes  = 1024
	fileBytes  = lineOffset + lineBytes

	// Files that are not, or not yet, a member's: readers skip the leading dot.
	stagedSuffix  = ".new"
	scratchSuffix = ".flock"
)

// A Role is what a member says of itself.
type Role string

// The roles. A member that says leader leads under its joined term, from before
// its first poll of that term until its last poll has ended.
const (
	RoleStarting Role = "starting"
	RoleFollower Role = "follower"
	RoleLeader   Role = "leader"
	RoleLeaving  Role = "leaving"
	RoleCommand  Role = "command"
)

// MemberInfo is the line in a member's file.
type MemberInfo struct {
	Instance     string `json:"instance"`
	Name         string `json:"name"`
	PID          int    `json:"pid"`
	Host         string `json:"host"`
	BootID       string `json:"bootId"`
	PIDNamespace string `json:"pidNamespace"`
	BornAt       string `json:"bornAt"`
	// Locks: this member found that kernel locks exclude here, and holds one.
	Locks bool `json:"locks"`
	Role  Role `json:"role"`
	// Joined is the term that the member leads or follows, 0 for none; Term the
	// highest that it ever saw.
	Joined  uint64 `json:"joined"`
	Term    uint64 `json:"term"`
	Version string `json:"version"`
}

// encodeLine returns the padded line. It fails if the texts are too long for it.
func encodeLine(info MemberInfo) ([]byte, error) {
	raw, err := json.Marshal(info)
	if err != nil {
		return nil, fmt.Errorf("encode member: %w", err)
	}
	if len(raw) > lineBytes-1 {
		return nil, fmt.Errorf("encode member: name %.40q..., host and version need %d bytes, the limit is %d", info.Name, len(raw), lineBytes-1)
	}
	line := bytes.Repeat([]byte{' '}, lineBytes)
	copy(line, raw)
	line[lineBytes-1] = '\n'
	return line, nil
}

func encodeBeat(beat uint64) []byte { return fmt.Appendf(nil, "%020d\n", beat) }

// decodeMember reads a member's file. mark is the beat as it stood, for
// comparison: also what is no number can be seen to change. torn means that the
// line does not parse; info is zero then.
func decodeMember(content []byte) (mark string, info MemberInfo, torn bool) {
	if len(content) < lineOffset {
		return string(content), MemberInfo{}, true
	}
	mark = string(content[:beatDigits])
	line, _, _ := bytes.Cut(content[lineOffset:], []byte{'\n'})
	if err := json.Unmarshal(line, &info); err != nil {
		return mark, MemberInfo{}, true
	}
	// A term that cannot be one is damage: it says nothing, as a torn line says
	// nothing of any term. What else the line says holds.
	if info.Term > MaxTerm {
		info.Term = 0
	}
	if info.Joined > MaxTerm {
		info.Joined = 0
	}
	return mark, info, false
}

// validInstance reports whether an instance id can be the name of a file that
// readers do not skip. Ids come from the registry and from other programs, too.
func validInstance(instance string) bool {
	return instance != "" && len(instance) <= 128 && instance[0] != '.' &&
		strings.Trim(instance, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}
