package bus

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
)

// A Call is a request to the far side, made once for its id.
type Call struct {
	Request     string // id: the same id is the same call
	Method      string
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

// CallLog keeps intents and results of calls. It belongs to one term.
type CallLog interface {
	// Intend records that a call is about to be made.
	Intend(CallRecord) error
	// Conclude records its result.
	Conclude(request string, r CallResult) error
	// Withdraw records that it was not made after all.
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

// keepResults is how many results of ended calls are remembered in memory, for
// repeated requests whose delivery is gone from the journal.
const keepResults = 1024

// Calls performs calls and remembers their results. It belongs to the member,
// not to a term: a call in flight when leadership ends goes on, and its result
// is told to the successor. It is safe for concurrent use; no lock is held
// while a call is made.
type Calls struct {
	ctx      context.Context // ends every call: the member's last resort
	instance string
	perform  func(ctx context.Context, c Call) (CallResult, error)

	mu       sync.Mutex // guards what follows; held for no I/O
	log      CallLog    // nil while the member does not lead
	own      map[string]*ownCall
	ended    []string // requests of own that ended, oldest first
	recorded map[string]CallRecord
	foreign  map[string]*foreignCall
	changed  chan struct{} // closed and made anew when a call of own ends
	running  sync.WaitGroup
}

// ownCall is a call that this member makes or made.
type ownCall struct {
	hash   uint64
	done   chan struct{} // closed when result or err is set
	result CallResult
	err    error
	told   bool // its result is with a journal
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

// NewCalls returns the calls of a member. Perform makes one call and returns
// its result, or ErrNotBegun; ctx ends all of them, when the member's time to
// stop is over.
func NewCalls(ctx context.Context, instance string, perform func(ctx context.Context, c Call) (CallResult, error)) *Calls {
	return &Calls{
		ctx:      ctx,
		instance: instance,
		perform:  perform,
		own:      map[string]*ownCall{},
		recorded: map[string]CallRecord{},
		foreign:  map[string]*foreignCall{},
		changed:  make(chan struct{}),
	}
}

// Lead begins a term: what its journal holds of calls.
func (c *Calls) Lead(log CallLog, records []CallRecord) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = log
	c.recorded = map[string]CallRecord{}
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

// Do makes a call, or returns the result that its id has already. It returns
// ErrNotBegun, ErrOutcomeUnknown or ErrOtherRequest as they say, or the error of
// ctx; the call goes on in the last case.
func (c *Calls) Do(ctx context.Context, call Call) (CallResult, error) {
	hash := call.hash()
	for {
		own, foreign, log, err := c.find(call, hash)
		switch {
		case err != nil:
			return CallResult{}, err
		case own != nil:
			select {
			case <-own.done:
				return own.result, own.err
			case <-ctx.Done():
				return CallResult{}, context.Cause(ctx)
			}
		case foreign == nil:
			return log.Result(call.Request)
		}
		select {
		case <-foreign.settle:
		case <-ctx.Done():
			return CallResult{}, context.Cause(ctx)
		}
		if r, err, settled := c.settle(call, foreign, log); settled {
			return r, err
		}
	}
}

// find returns the call of own, started if it is new; or the foreign one to
// wait for; or neither if the journal has its result.
func (c *Calls) find(call Call, hash uint64) (*ownCall, *foreignCall, CallLog, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if own := c.own[call.Request]; own != nil {
		if own.hash != hash {
			return nil, nil, nil, ErrOtherRequest
		}
		return own, nil, nil, nil
	}
	if c.log == nil {
		return nil, nil, nil, ErrNotBegun
	}
	if f := c.foreign[call.Request]; f != nil {
		if f.hash != hash {
			return nil, nil, nil, ErrOtherRequest
		}
		return nil, f, c.log, nil
	}
	if r, ok := c.recorded[call.Request]; ok {
		if r.Hash != hash {
			return nil, nil, nil, ErrOtherRequest
		}
		return nil, nil, c.log, nil
	}
	own := &ownCall{hash: hash, done: make(chan struct{})}
	c.own[call.Request] = own
	log := c.log
	c.running.Go(func() { c.run(call, own, log) })
	return own, nil, nil, nil
}

// settle decides what the end of a foreign call means for the same call here.
func (c *Calls) settle(call Call, f *foreignCall, log CallLog) (CallResult, error, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log != log {
		return CallResult{}, ErrNotBegun, true
	}
	switch {
	case f.fate == ended:
		return f.result, nil, true
	case f.fate == lost && !call.Again:
		return CallResult{}, ErrOutcomeUnknown, true
	}
	delete(c.foreign, call.Request) // make it here
	return CallResult{}, nil, false
}

// run makes a call: intent, call, result.
func (c *Calls) run(call Call, own *ownCall, log CallLog) {
	var r CallResult
	err := log.Intend(CallRecord{
		Request: call.Request, Seq: call.Seq, Lane: call.Lane, By: c.instance, Hash: own.hash,
	})
	if err != nil {
		err = errors.Join(ErrNotBegun, err)
	} else {
		// The context is the member's, not the caller's: who began a call waits
		// for its outcome, whatever becomes of the one who asked.
		r, err = c.perform(c.ctx, call)
	}
	told := false
	switch {
	case err == nil:
		told = log.Conclude(call.Request, r) == nil
	case errors.Is(err, ErrNotBegun):
		_ = log.Withdraw(call.Request) // a successor asks this member in any case
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	own.result, own.err, own.told = r, err, told
	close(own.done)
	if err != nil {
		delete(c.own, call.Request)
	} else {
		c.ended = append(c.ended, call.Request)
		c.forget()
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// forget drops the oldest results that a journal has.
func (c *Calls) forget() {
	for len(c.ended) > keepResults {
		oldest := c.ended[0]
		if own := c.own[oldest]; own != nil && !own.told && len(c.ended) < 4*keepResults {
			return
		}
		delete(c.own, oldest)
		c.ended = c.ended[1:]
	}
}

// States returns the calls that this member has in flight or whose results no
// journal has, and a channel that is closed when that changes.
func (c *Calls) States() ([]CallState, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []CallState
	for request, own := range c.own {
		select {
		case <-own.done:
			if !own.told {
				out = append(out, CallState{Request: request, Result: &own.result})
			}
		default:
			out = append(out, CallState{Request: request})
		}
	}
	return out, c.changed
}

// Told marks results as known to the leader.
func (c *Calls) Told(states []CallState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range states {
		if own := c.own[s.Request]; own != nil && s.Result != nil {
			own.told = true
		}
	}
}

// Joined settles what a member that joined says of the calls it made as leader:
// those it does not name were never begun. Complete is false for later news,
// which name only what has ended.
func (c *Calls) Joined(instance string, states []CallState, complete bool) {
	c.mu.Lock()
	named := map[string]*CallResult{}
	for _, s := range states {
		named[s.Request] = s.Result
	}
	log := c.log
	var conclude []CallState
	for request, f := range c.foreign {
		if f.by != instance {
			continue
		}
		switch r, ok := named[request]; {
		case r != nil:
			f.end(ended, *r)
			conclude = append(conclude, CallState{Request: request, Result: r})
		case !ok && complete:
			f.end(notBegun, CallResult{})
		}
	}
	c.mu.Unlock()
	for _, s := range conclude {
		if log != nil {
			_ = log.Conclude(s.Request, *s.Result) // if it fails, the member tells it to the successor again
		}
	}
}

// Lost says that a member is dead or hung: what it had in flight is unknown.
func (c *Calls) Lost(instance string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.foreign {
		if f.by == instance {
			f.end(lost, CallResult{})
		}
	}
}

// Makers returns the members whose calls are waited for.
func (c *Calls) Makers() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[string]bool{}
	var out []string
	for _, f := range c.foreign {
		if f.fate == inFlight && !seen[f.by] {
			seen[f.by] = true
			out = append(out, f.by)
		}
	}
	return out
}

// Wait waits for the calls in flight.
func (c *Calls) Wait() { c.running.Wait() }
