package bus

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
)

// A Call is a request to the far side, made once for its id.
type Call struct {
	Request     string // id: the same id is the same call
	Method      string // one segment of a path, escaped on its way from a member
	ContentType string
	Body        []byte
	Seq         uint64 // of the delivery whose handler or reply makes it; 0: none
	Lane        string
	// Again: a reply, sent again when its sender died or hung in mid-call.
	// Otherwise the outcome of such a call is unknown.
	Again bool
}

// hash tells calls with the same id apart.
func (c Call) hash() uint64 {
	h := sha256.New()
	h.Write([]byte(c.Method + "\x00" + c.ContentType + "\x00"))
	h.Write(c.Body)
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// A CallRecord is what is kept of a call beside its result.
type CallRecord struct {
	Request string
	Seq     uint64
	Lane    string
	By      string // instance of the leader that performs it
	Hash    uint64
	Done    bool
}

// CallLog keeps intents and results of calls. It belongs to one term. Its
// methods wait until the record is written, and may be called on many goroutines.
type CallLog interface {
	// Intend records that a call is about to be made. After an error it is not.
	Intend(CallRecord) error
	// Conclude records a result. It returns nil only if the leader was found to
	// lead still after the record was written: otherwise a successor may have
	// read the log before, and has to be told by this member.
	Conclude(request string, r CallResult) error
	// Withdraw records that a call was not made after all.
	Withdraw(request string) error
	// Result returns a recorded result.
	Result(request string) (CallResult, error)
}

// ErrNotBegun says that a call was not made, because the leader had lost the
// lease before anything of it was sent. It may be repeated to the successor.
var ErrNotBegun = errors.New("the leader lost the lease before the call was made")

// ErrOutcomeUnknown says that a call may or may not have had its effect.
var ErrOutcomeUnknown = errors.New("the outcome of the call is unknown")

// ErrOtherRequest says that the id of a call was used before with other bytes.
var ErrOtherRequest = errors.New("this request id was used before with other bytes")

// How much is remembered of ended calls: of the latest, the result; of more
// that a delivery made, that the log has it.
const (
	keepResults = 1024
	keepRecords = 64 << 10
)

// Calls performs calls and remembers their results. It belongs to the member,
// not to a term: a call in flight when leadership ends goes on, and its result
// is told to the successor. It is safe for concurrent use; no lock is held
// while a call is made.
//
// Where a request id stands, and what Do makes of it, first match first:
//
//	own, not done       this member makes it: Do waits
//	own, done           this member made it: its result, from memory
//	foreign, in flight  a former leader may be making it: Do waits for its fate
//	foreign, ended      that member told the result
//	foreign, not begun  that member did not make it: it is made here
//	foreign, lost       that member died or hung: ErrOutcomeUnknown, but a reply
//	                    is made here
//	recorded            it has ended: its result, from the log
//	none of these       it is made here
//
// Own calls are the member's. The others are a term's: between Follow and the
// next Lead nothing but own calls is answered.
//
// Goroutines: one for each call that this member makes; Wait waits for them.
type Calls struct {
	ctx      context.Context // ends every call: the member's last resort
	instance string
	perform  func(ctx context.Context, c Call) (CallResult, error)

	mu       sync.Mutex // guards what follows; held for no I/O
	log      CallLog    // nil while the member does not lead
	term     int        // counts Lead and Follow
	own      map[string]*ownCall
	ended    []string // requests of own that ended, oldest first
	recorded map[string]CallRecord
	older    []string // requests that forget moved to recorded, oldest first
	foreign  map[string]*foreignCall
	notMade  map[string]bool // named in flight, perhaps, to the leader of a later term, but not begun
	changed  chan struct{}   // closed and made anew when a call of own ends
	running  sync.WaitGroup
}

// ownCall is a call that this member makes or made.
type ownCall struct {
	record CallRecord
	done   chan struct{} // closed when result or err is set
	result CallResult
	err    error
	told   bool // its result is with a leader that leads
}

func (o *ownCall) isDone() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// foreignCall is a call that another member, once leader, may have in flight.
type foreignCall struct {
	by     string
	hash   uint64
	settle chan struct{} // closed when fate is set
	fate   fate
	result CallResult
}

type fate int

const (
	inFlight fate = iota
	ended         // result is known
	notBegun      // its member does not have it in flight and has no result
	lost          // its member died or hung
)

// NewCalls returns the calls of a member. Perform makes one call and returns its
// result, of which Body is JSON, or ErrNotBegun if surely nothing of it was sent.
// With any other error the outcome is unknown: the result is a refusal with
// CodeUnknown and the error's text. ctx ends all calls, when the member's time to
// stop is over.
func NewCalls(ctx context.Context, instance string, perform func(ctx context.Context, c Call) (CallResult, error)) *Calls {
	return &Calls{
		ctx:      ctx,
		instance: instance,
		perform:  perform,
		own:      map[string]*ownCall{},
		recorded: map[string]CallRecord{},
		foreign:  map[string]*foreignCall{},
		notMade:  map[string]bool{},
		changed:  make(chan struct{}),
	}
}

// Lead begins a term: what its journal holds of calls. The hub of the term may
// admit members only afterwards.
func (c *Calls) Lead(log CallLog, records []CallRecord) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = log
	c.term++
	c.recorded = map[string]CallRecord{}
	c.older = nil
	c.foreign = map[string]*foreignCall{}
	for _, r := range records {
		switch {
		case r.Done:
			c.recorded[r.Request] = r
		case r.By != c.instance:
			c.foreign[r.Request] = &foreignCall{by: r.By, hash: r.Hash, settle: make(chan struct{})}
		}
	}
}

// Follow ends the term. Calls in flight go on; those that wait for others'
// calls end with ErrNotBegun.
func (c *Calls) Follow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = nil
	c.term++
	for _, f := range c.foreign {
		f.end(lost, CallResult{})
	}
	c.foreign = map[string]*foreignCall{}
}

func (f *foreignCall) end(fate fate, r CallResult) {
	if f.fate == inFlight {
		f.fate, f.result = fate, r
		close(f.settle)
	}
}

// Do makes a call, or returns the result that its id has already. A call that a
// former leader may have in flight is waited for until that member tells of it,
// or is lost.
//
// Errors: ErrNotBegun, also while the member does not lead; ErrOutcomeUnknown if
// a former leader was lost in mid-call; ErrOtherRequest; the error of the log;
// the cause of ctx, and the call goes on then.
func (c *Calls) Do(ctx context.Context, call Call) (CallResult, error) {
	hash := call.hash()
	for {
		f, err := c.find(call, hash)
		switch {
		case err != nil:
			return CallResult{}, err
		case f.own != nil:
			select {
			case <-f.own.done:
				return f.own.result, f.own.err
			case <-ctx.Done():
				return CallResult{}, context.Cause(ctx)
			}
		case f.foreign == nil:
			return f.log.Result(call.Request)
		}
		select {
		case <-f.foreign.settle:
		case <-ctx.Done():
			return CallResult{}, context.Cause(ctx)
		}
		if r, err, settled := c.settle(call, f.foreign, f.term); settled {
			return r, err
		}
	}
}

// found is where the result of a call comes from: own, or foreign, or else log.
type found struct {
	own     *ownCall
	foreign *foreignCall
	log     CallLog
	term    int
}

// find says where the result of a call comes from. It starts a new one.
func (c *Calls) find(call Call, hash uint64) (found, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if own := c.own[call.Request]; own != nil {
		return found{own: own}, sameBytes(own.record.Hash, hash)
	}
	if c.log == nil {
		return found{}, ErrNotBegun
	}
	f := found{log: c.log, term: c.term}
	if f.foreign = c.foreign[call.Request]; f.foreign != nil {
		return f, sameBytes(f.foreign.hash, hash)
	}
	if r, ok := c.recorded[call.Request]; ok {
		return f, sameBytes(r.Hash, hash)
	}
	f.own = &ownCall{done: make(chan struct{}), record: CallRecord{
		Request: call.Request, Seq: call.Seq, Lane: call.Lane, By: c.instance, Hash: hash,
	}}
	c.own[call.Request] = f.own
	delete(c.notMade, call.Request)
	c.running.Go(func() { c.run(call, f.own, f.log, f.term) })
	return f, nil
}

func sameBytes(a, b uint64) error {
	if a != b {
		return ErrOtherRequest
	}
	return nil
}

// settle decides what the end of a foreign call means for the same call here.
func (c *Calls) settle(call Call, f *foreignCall, term int) (CallResult, error, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.term != term {
		return CallResult{}, ErrNotBegun, true
	}
	switch {
	case f.fate == ended:
		return f.result, nil, true
	case f.fate == lost && !call.Again:
		return CallResult{}, ErrOutcomeUnknown, true
	}
	if c.foreign[call.Request] == f {
		delete(c.foreign, call.Request) // make it here
	}
	return CallResult{}, nil, false
}

// run makes a call: intent, call, result.
func (c *Calls) run(call Call, own *ownCall, log CallLog, term int) {
	var r CallResult
	err := log.Intend(own.record)
	if err != nil {
		err = errors.Join(ErrNotBegun, err)
	} else {
		// The context is the member's, not the caller's: who began a call waits
		// for its outcome, whatever becomes of the one who asked.
		r, err = c.perform(c.ctx, call)
		if err == nil {
			err = r.check()
		}
	}
	told := false
	if errors.Is(err, ErrNotBegun) || err == nil && r.Passing {
		_ = log.Withdraw(call.Request) // a successor asks this member in any case
	} else {
		if err != nil {
			r, err = unknownResult(err), nil
		}
		told = log.Conclude(call.Request, r) == nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	own.result, own.err, own.told = r, err, told
	close(own.done)
	if err != nil || r.Passing {
		delete(c.own, call.Request)
		if c.term != term {
			c.notMade[call.Request] = true
		}
	} else {
		c.ended = append(c.ended, call.Request)
		c.forget()
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// check reports why a result cannot be kept.
func (r CallResult) check() error {
	switch {
	case len(r.Body) > MaxResult:
		return fmt.Errorf("the answer has %d bytes, at most %d are kept", len(r.Body), MaxResult)
	case !json.Valid(r.Body):
		return errors.New("the answer is not JSON")
	}
	return nil
}

// unknownResult is what is kept of a call that may have had its effect, so that
// nobody makes it again.
func unknownResult(err error) CallResult {
	body, _ := encodeJSON(ErrorAnswer{Error: err.Error(), Code: CodeUnknown}) // strings always encode
	return CallResult{Status: http.StatusBadGateway, Body: body}
}

// forget drops the oldest results that a leader has. Of those that a delivery
// made, this leader's log has the result for as long as the delivery is pending.
func (c *Calls) forget() {
	for len(c.ended) > keepResults {
		oldest := c.ended[0]
		own := c.own[oldest]
		if !own.told && len(c.ended) < 4*keepResults {
			return
		}
		delete(c.own, oldest)
		c.ended = c.ended[1:]
		if own.told && own.record.Seq != 0 && c.log != nil {
			c.recorded[oldest] = own.record
			c.older = append(c.older, oldest)
		}
	}
	for len(c.older) > keepRecords {
		delete(c.recorded, c.older[0])
		c.older = c.older[1:]
	}
}

// Wait waits for the calls in flight. Follow has to be called before, so that
// none is begun meanwhile.
func (c *Calls) Wait() { c.running.Wait() }
