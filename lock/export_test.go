package lock

import (
	"errors"
	"os"
	"time"
)

// What the tests may replace or look at, without any change to the code that
// runs.

// Flock is a kernel lock as tests make it up.
type Flock func(f *os.File, exclusive bool) error

// ErrHeld is what a Flock returns for a lock that another one holds.
var ErrHeld = errHeld

// SystemFlock is the real one.
func SystemFlock(f *os.File, exclusive bool) error {
	if exclusive {
		return systemFlock(f, lockExclusive)
	}
	return systemFlock(f, lockShared)
}

func (f Flock) internal() flockFunc {
	return func(file *os.File, mode lockMode) error { return f(file, mode == lockExclusive) }
}

// OpenMemberAs opens a member on another host, or with other locks.
func OpenMemberAs(o MemberOptions, h Host, f Flock) (*Member, error) {
	return openMember(o, h, f.internal())
}

// NewObserverWith returns an observer with other locks.
func NewObserverWith(o ObserverOptions, f Flock) *Observer { return newObserver(o, f.internal()) }

// Decide is the table of Acquire: "take", "keep" or "refuse".
func Decide(m Mode, state State, exact, expected, supersedes bool) string {
	switch decide(m, situation{state: state, exact: exact, expected: expected, supersedes: supersedes}) {
	case take:
		return "take"
	case keep:
		return "keep"
	}
	return "refuse"
}

// Runtime is an identity that judges.
type Runtime struct {
	Host       Host
	Instance   string
	Cwd        string
	Generation int64
}

func (r Runtime) internal() identity {
	return identity{host: r.Host, instance: r.Instance, cwd: r.Cwd, generation: r.Generation}
}

func (r Runtime) Judge(e Entry, dead, hung bool) State {
	return judge(r.internal(), e, finding{dead: dead, hung: hung})
}
func (r Runtime) Adoptable(e Entry) bool  { return r.internal().adoptable(e) }
func (r Runtime) Supersedes(e Entry) bool { return r.internal().supersedes(e) }

// MayReclaim is D4 and D7.
func MayReclaim(dead, stuck bool, stood, staleAfter time.Duration) bool {
	return mayReclaim(guardFacts{dead: dead, stuck: stuck, stood: stood}, staleAfter)
}

// MayBegin is R9.
func MayBegin(lost, fresh bool, leaders int, waited, wait time.Duration) bool {
	return mayBegin(proof{lost: lost, fresh: fresh, leaders: leaders, waited: waited, wait: wait})
}

// ClassifyGuard says what a guard's directory with these names is.
func ClassifyGuard(names []string) (kind string, generations []string) {
	v := classifyGuard(names)
	return map[guardKind]string{guardEmpty: "empty", guardOurs: "ours", guardForeign: "foreign"}[v.kind], v.generations
}

// ParseGuardFile, ParseStaged and ParseHidden read names of files.
var (
	ParseGuardFile = parseGuardFile
	ParseStaged    = parseStaged
	ParseHidden    = parseHidden
	ValidInstance  = validInstance
)

// DecodeEntry and Encode are the codec of entries.
var DecodeEntry = decodeEntry

func (e Entry) Encode() ([]byte, error) { return e.encode() }

// EditRegistry puts value under key; an error if doc is no registry.
func EditRegistry(doc []byte, key string, value []byte) ([]byte, error) {
	r := parseRegistry(doc)
	if r.damaged {
		return nil, errors.New("damaged")
	}
	return r.with(key, value)
}

// LookUp returns the bytes of the value under key.
func LookUp(doc []byte, key string) (value []byte, ok bool) {
	r := parseRegistry(doc)
	i := r.find(key)
	if i < 0 {
		return nil, false
	}
	return r.value(i), true
}

// Damaged reports whether doc is no registry.
func Damaged(doc []byte) bool { return parseRegistry(doc).damaged }

// DecodeMember and EncodeMember are the codec of members' files.
var DecodeMember = decodeMember

func EncodeMember(beat uint64, info MemberInfo) ([]byte, error) {
	line, err := encodeLine(info)
	return append(encodeBeat(beat), line...), err
}

// Patiently is R12's and D4's way of trying again.
var Patiently = patiently
