package journal

import "fmt"

// A State is how far an entry has come.
type State uint8

// The states of an entry. Pending, Assigned and Outcome are live.
const (
	Pending  State = iota // nobody has it
	Assigned              // a member has it, or had it when the last record was written
	Outcome               // the handler is done, its reply not fully sent
	Done                  // finished, kept until Telegram answered a poll that confirms it
	Dead                  // a dead letter
)

var stateNames = [...]string{"pending", "assigned", "outcome", "done", "dead"}

// String returns the state's name in lower case.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// live reports whether there is still something to do.
func (s State) live() bool { return s <= Outcome }

// MarshalText encodes the state as its name.
func (s State) MarshalText() ([]byte, error) {
	if int(s) >= len(stateNames) {
		return nil, fmt.Errorf("no such state: %d", uint8(s))
	}
	return []byte(stateNames[s]), nil
}

// UnmarshalText accepts what MarshalText makes, and nothing else.
func (s *State) UnmarshalText(text []byte) error {
	for i, name := range stateNames {
		if name == string(text) {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("no such state: %q", text)
}

// An Entry is an update as the records so far made it. Its body and its reply
// stay on disk; see [Journal.Body] and [Journal.Reply].
type Entry struct {
	Seq      uint64 // the number of the delivery: rises with every update, in order of arrival
	Delivery string // the delivery's stable id, chosen by the caller
	ID       int64  // the source's id of the update; 0: it had none that could be read
	Hash     uint64 // of the body, chosen by the caller
	Lane     string
	Size     int // of the body, in bytes
	State    State
	Attempt  int    // number of the last attempt begun and not given back; 0: none
	Member   string // instance that the last assignment went to
	Name     string // and its name
	Term     uint64 // and the term of the leader that assigned
	Reason   string // of a dead letter
}

// A CallEntry is a call that was begun. Its result stays on disk; see
// [Journal.Result].
type CallEntry struct {
	Request string // the request's id
	Seq     uint64 // the entry whose handler calls; 0: none
	Lane    string
	By      string // instance of the leader that performs it
	Hash    uint64 // of what is called
	Done    bool   // there is a result
}
