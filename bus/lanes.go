package bus

import (
	"bytes"
	"crypto/sha256"
	"strconv"
)

// score is how well a member fits a lane: the SHA-256 of the lane, a NUL and
// the member's name. The highest wins, so that every leader chooses alike and a
// member that comes or goes moves no lanes but its own (rendezvous hashing).
type score [sha256.Size]byte

func scoreOf(lane, name string) score {
	buf := make([]byte, 0, 128)
	buf = append(buf, lane...)
	buf = append(buf, 0)
	buf = append(buf, name...)
	return sha256.Sum256(buf)
}

func (s score) above(o score) bool { return bytes.Compare(s[:], o[:]) > 0 }

// UniqueName returns the first of name, name-2, name-3, ... that is not taken.
func UniqueName(name string, taken func(string) bool) string {
	unique := name
	for n := 2; taken(unique); n++ {
		unique = name + "-" + strconv.Itoa(n)
	}
	return unique
}
