package lock

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"tgbridge/internal/secret"
)

// MaxTerm is the highest term there can be. Terms rise by one, so none comes
// near it; it is far below 2^53, up to which every JSON reader is exact. What
// claims to be higher is damage, and must not use up the numbers: as a lease's
// term it makes the registry a damaged one for that lease (ErrDamaged), in a
// member's file and from Options.Floor it is not counted.
//
// That no lower term is given twice by this rests on the other places where a
// term stands: that of a lease is in the registry, in its owner's file, in those
// of all that followed it, and in what Floor reads. Damage to one of these is
// like its loss.
const MaxTerm = 1 << 52

// An Entry is a lease as it stands in the registry. The zero Entry is a lease
// that nobody ever held.
type Entry struct {
	// PID, Cwd, InstanceID, Epoch and Generation together name the owner.
	PID        int
	Cwd        string
	InstanceID string
	// HeartbeatMs is when the entry was written, wall clock, for people; it
	// decides nothing.
	HeartbeatMs int64
	// Epoch is the term. 0: the entry has none.
	Epoch uint64
	// ForeignEpoch is the term as it stood, where it is no whole number. Such an
	// entry is some other owner's.
	ForeignEpoch string
	// Generation tells runtimes of one process apart; later ones are higher.
	// 0: the entry has none.
	Generation int64
	// BusSocketPath is where the owner listens; if relative, to the directory of
	// the registry. BusSecret is what it wants to hear.
	BusSocketPath string
	BusSecret     secret.Secret
	// Name, Host and Version are for people; Host, BootID, PIDNamespace and
	// BornAt are as in type Host.
	Name         string
	Host         string
	BootID       string
	PIDNamespace string
	BornAt       string
	// AcquiredMs and ReleasedMs are wall clock, for people. A released lease
	// has Epoch and ReleasedMs alone.
	AcquiredMs int64
	ReleasedMs int64
	Version    string
}

// Held reports whether the lease has an owner. A released one has none, nor has
// the zero Entry.
func (e Entry) Held() bool { return e.PID > 0 }

// SameOwner reports whether both entries are held, and by the same owner under
// the same term: pid, cwd, instance id, epoch and runtime generation are equal.
// An entry without an owner is the same as none, not even as itself.
func (e Entry) SameOwner(o Entry) bool {
	return e.Held() && o.Held() &&
		e.PID == o.PID && e.Cwd == o.Cwd && e.InstanceID == o.InstanceID &&
		e.Epoch == o.Epoch && e.ForeignEpoch == o.ForeignEpoch && e.Generation == o.Generation
}

// wireEntry is an Entry as it is written.
type wireEntry struct {
	PID           int    `json:"pid"`
	Cwd           string `json:"cwd"`
	InstanceID    string `json:"instanceId"`
	HeartbeatMs   int64  `json:"heartbeatMs"`
	Epoch         uint64 `json:"leaderEpoch"`
	Generation    int64  `json:"runtimeGeneration"`
	BusSocketPath string `json:"busSocketPath,omitempty"`
	BusSecret     string `json:"busSecret,omitempty"`
	Name          string `json:"name,omitempty"`
	Host          string `json:"host,omitempty"`
	BootID        string `json:"bootId,omitempty"`
	PIDNamespace  string `json:"pidNamespace,omitempty"`
	BornAt        string `json:"bornAt,omitempty"`
	AcquiredMs    int64  `json:"acquiredMs,omitempty"`
	Version       string `json:"version,omitempty"`
}

// encode returns the entry as it stands in the registry. This is the one place
// where the secret is revealed.
func (e Entry) encode() ([]byte, error) {
	raw, err := json.Marshal(wireEntry{
		PID: e.PID, Cwd: e.Cwd, InstanceID: e.InstanceID, HeartbeatMs: e.HeartbeatMs,
		Epoch: e.Epoch, Generation: e.Generation,
		BusSocketPath: e.BusSocketPath, BusSecret: e.BusSecret.Reveal(),
		Name: e.Name, Host: e.Host, BootID: e.BootID, PIDNamespace: e.PIDNamespace, BornAt: e.BornAt,
		AcquiredMs: e.AcquiredMs, Version: e.Version,
	})
	if err != nil {
		return nil, fmt.Errorf("encode lease: %w", err)
	}
	return raw, nil
}

// encodeReleased returns a lease that nobody holds. Without a pid every reader,
// also one that does not know releasedMs, takes it as free; the term stays.
func encodeReleased(term uint64, nowMs int64) []byte {
	return fmt.Appendf(nil, `{"leaderEpoch":%d,"releasedMs":%d}`, term, nowMs)
}

// looseEntry takes any type in any field: what decides nothing must not make a
// live owner of a newer version look like none.
type looseEntry struct {
	PID           json.RawMessage `json:"pid"`
	Cwd           json.RawMessage `json:"cwd"`
	InstanceID    json.RawMessage `json:"instanceId"`
	HeartbeatMs   json.RawMessage `json:"heartbeatMs"`
	Epoch         json.RawMessage `json:"leaderEpoch"`
	Generation    json.RawMessage `json:"runtimeGeneration"`
	BusSocketPath json.RawMessage `json:"busSocketPath"`
	BusSecret     json.RawMessage `json:"busSecret"`
	Name          json.RawMessage `json:"name"`
	Host          json.RawMessage `json:"host"`
	BootID        json.RawMessage `json:"bootId"`
	PIDNamespace  json.RawMessage `json:"pidNamespace"`
	BornAt        json.RawMessage `json:"bornAt"`
	AcquiredMs    json.RawMessage `json:"acquiredMs"`
	ReleasedMs    json.RawMessage `json:"releasedMs"`
	Version       json.RawMessage `json:"version"`
}

// decodeEntry reads one value of the registry. It returns false if that is not
// an entry: no object, with a pid that is none, or with a term that is none
// (implausible). What else cannot be read is left zero; the term is kept even
// then, so that the next one is higher.
func decodeEntry(raw []byte) (Entry, bool) {
	var l looseEntry
	if len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &l) != nil {
		return Entry{}, false
	}
	epoch, foreign := decodeTerm(l.Epoch)
	pid, ok := decodePID(l.PID)
	if damaged := (Entry{Epoch: epoch, ForeignEpoch: foreign}); !ok || damaged.implausible() {
		return damaged, false
	}
	return Entry{
		PID: pid, Cwd: text(l.Cwd), InstanceID: text(l.InstanceID), HeartbeatMs: number(l.HeartbeatMs),
		Epoch: epoch, ForeignEpoch: foreign, Generation: number(l.Generation),
		BusSocketPath: text(l.BusSocketPath), BusSecret: secret.New(text(l.BusSecret)),
		Name: text(l.Name), Host: text(l.Host), BootID: text(l.BootID),
		PIDNamespace: text(l.PIDNamespace), BornAt: text(l.BornAt),
		AcquiredMs: number(l.AcquiredMs), ReleasedMs: number(l.ReleasedMs), Version: text(l.Version),
	}, true
}

// decodePID returns 0 for none. Only positive numbers of a pid's size are one:
// others would mean something else to kill(2).
func decodePID(raw json.RawMessage) (int, bool) {
	if absent(raw) {
		return 0, true
	}
	pid, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || pid <= 0 || pid > math.MaxInt32 {
		return 0, false
	}
	return int(pid), true
}

// implausible reports whether the term is a whole number above MaxTerm.
func (e Entry) implausible() bool {
	return e.ForeignEpoch != "" && strings.Trim(e.ForeignEpoch, "0123456789") == ""
}

// decodeTerm returns a whole number up to MaxTerm, or else the text that stood
// there.
func decodeTerm(raw json.RawMessage) (term uint64, foreign string) {
	if absent(raw) {
		return 0, ""
	}
	term, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil || term > MaxTerm {
		return 0, string(raw)
	}
	return term, ""
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// text returns a JSON string's text, "" for anything else.
func text(raw json.RawMessage) string {
	var s string
	if len(raw) < 2 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// number returns a JSON number without its fraction, 0 for anything else.
func number(raw json.RawMessage) int64 {
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.Abs(f) > 1<<53 {
		return 0
	}
	return int64(f)
}
