package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"tgbridge/internal/rawjson"
)

// A Kind says what a record is about.
type Kind string

// The kinds that are given to Write, with the fields they use beside Kind. A
// record about an entry or a call that is not there, or whose state does not
// admit it, changes nothing.
const (
	// KindUpdate adds an entry in state Pending: Seq, Delivery, ID, Hash, Lane,
	// Body, which is not empty. One with a Seq that is there already changes
	// nothing.
	KindUpdate Kind = "update"
	// KindAssign gives a Pending or Assigned entry to a member: Seq, Attempt,
	// Member, Name, Term.
	KindAssign Kind = "assign"
	// KindRelease takes an assignment back, so that the entry is Pending again:
	// Seq, Attempt: the last attempt that counts; 0: the one before the
	// assignment's.
	KindRelease Kind = "release"
	// KindOutcome says that the handler is done with a Pending or Assigned
	// entry: Seq, Attempt, Body. With an empty Body (no reply) the entry is
	// Done, else in state Outcome.
	KindOutcome Kind = "outcome"
	// KindDone finishes an entry in whichever state, also a dead letter that
	// somebody dismissed: Seq.
	KindDone Kind = "done"
	// KindDead makes an entry that is not Done a dead letter: Seq, Reason.
	KindDead Kind = "dead"
	// KindCall is the intent of a call: Request, Seq (0: of no entry), Lane, By,
	// Hash. For a call that is there without a result it changes By alone. A
	// call stays until KindForget, or goes with its entry (see KindConfirmed).
	KindCall Kind = "call"
	// KindResult is the result of a call: Request, Body.
	KindResult Kind = "result"
	// KindForget forgets a call: Request.
	KindForget Kind = "forget"
	// KindConfirmed says that Telegram answered a poll that had this offset:
	// Offset, Empty (the answer held nothing). Done entries with an ID below
	// it, or all Done ones if Empty, are forgotten, with the calls of theirs
	// that have a result. Dead letters that it covers lose such calls too, and
	// are no longer what Seen looks for.
	KindConfirmed Kind = "confirmed"
)

// The kinds that only a snapshot holds.
const (
	kindBase     Kind = "base"     // the first of a file: Version, Next
	kindState    Kind = "state"    // the state of an entry whose update came before
	kindComplete Kind = "complete" // the last of a snapshot
)

// version is the version of the format. A kind that older programs may ignore
// does not change it.
const version = 1

// A Record is one line of the journal. Kind says which fields count; the
// others are left zero. Delivery, Lane, Member, By and Request must be UTF-8;
// in Name and Reason what is not is replaced. Body is any bytes, kept as they
// are; no length and nil are the same. Attempt counts up to 65,535.
type Record struct {
	Kind     Kind   `json:"kind"`
	Seq      uint64 `json:"seq,omitempty"`
	Delivery string `json:"delivery,omitempty"`
	ID       int64  `json:"id,omitempty"`
	Hash     uint64 `json:"hash,string,omitempty"`
	Lane     string `json:"lane,omitempty"`
	Attempt  int    `json:"attempt,omitempty"`
	Member   string `json:"member,omitempty"`
	Name     string `json:"name,omitempty"`
	Term     uint64 `json:"term,omitempty"`
	By       string `json:"by,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Request  string `json:"request,omitempty"`
	Offset   int64  `json:"offset,omitempty"`
	Empty    bool   `json:"empty,omitempty"`
	Body     []byte `json:"-"`

	// Of snapshots.
	state     State
	confirmed bool
	version   int
	next      uint64
}

// wire is a record as encoding/json sees it.
type wire struct {
	Record
	State     State   `json:"state,omitempty"`
	Confirmed bool    `json:"confirmed,omitempty"`
	Version   int     `json:"version,omitempty"`
	Next      uint64  `json:"next,omitempty"`
	Encoded   *string `json:"body_base64,omitempty"`
}

// encode returns the record as a JSON object on one line.
func (r *Record) encode() ([]byte, error) {
	object, err := json.Marshal(wire{Record: *r, State: r.state, Confirmed: r.confirmed, Version: r.version, Next: r.next})
	if err == nil && len(r.Body) > 0 {
		object, err = rawjson.Append(object, "body", r.Body)
	}
	if err != nil {
		return nil, fmt.Errorf("encode %s record: %w", r.Kind, err)
	}
	return object, nil
}

// decode reads what encode wrote: an object whose checksum was right. The body is
// part of object, unless it was in base64. It is not looked into, as it may be
// long.
func decode(object []byte) (Record, error) {
	head, body := cutBody(object)
	var w wire
	if err := json.Unmarshal(head, &w); err != nil {
		return Record{}, fmt.Errorf("decode record: %w", err)
	}
	body, err := rawjson.Bytes(body, w.Encoded)
	if err != nil {
		return Record{}, fmt.Errorf("decode record: %w", err)
	}
	r := w.Record
	r.Body, r.state, r.confirmed, r.version, r.next = body, w.State, w.Confirmed, w.Version, w.Next
	return r, nil
}

// cutBody returns an object without the member body, and its value; nil if there
// is none. It is the last one, and before it there are but numbers, strings and
// such. In a string these bytes cannot stand, as it would have \" for the quote.
func cutBody(object []byte) (head, body []byte) {
	inner, ok := bytes.CutSuffix(object, []byte("}"))
	head, body, found := bytes.Cut(inner, []byte(`,"body":`))
	if !ok || !found {
		return object, nil
	}
	return append(slices.Clone(head), '}'), body
}

// prepare makes a caller's record fit to be written, or says why it is not.
func (r *Record) prepare() error {
	r.Name = strings.ToValidUTF8(r.Name, "\uFFFD")
	r.Reason = strings.ToValidUTF8(r.Reason, "\uFFFD")
	for _, s := range []string{r.Delivery, r.Lane, r.Member, r.By, r.Request} {
		if !utf8.ValidString(s) {
			return fmt.Errorf("%s record: %q is not UTF-8: %w", r.Kind, s, ErrInvalid)
		}
	}
	if len(r.Body) > MaxLine {
		return fmt.Errorf("%s record with %d bytes, the limit is %d: %w", r.Kind, len(r.Body), MaxLine, ErrInvalid)
	}
	switch r.Kind {
	case KindUpdate, KindAssign, KindRelease, KindOutcome, KindDone, KindDead:
		if r.Seq == 0 {
			return fmt.Errorf("%s record without seq: %w", r.Kind, ErrInvalid)
		}
		if r.Kind == KindUpdate && len(r.Body) == 0 { // as one whose body was lost
			return fmt.Errorf("%s record without body: %w", r.Kind, ErrInvalid)
		}
	case KindCall, KindResult, KindForget:
		if r.Request == "" {
			return fmt.Errorf("%s record without request: %w", r.Kind, ErrInvalid)
		}
	case KindConfirmed:
	default:
		return fmt.Errorf("record of kind %q: %w", r.Kind, ErrInvalid)
	}
	return nil
}
