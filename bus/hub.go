package bus

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Store keeps what the hub decides, before the hub acts on it.
type Store interface {
	// Record writes the decisions in order and calls done once they are written
	// and, if durable, on disk. Records of a later call count after those of an
	// earlier one. It must not block, and done, which does not block either, may
	// be called on any goroutine, also before Record returns. An error ends the
	// hub: what was decided cannot be undone, so the next term begins with what
	// is recorded.
	Record(actions []Action, durable bool, done func(error))
	// Body returns the bytes of a delivery, which the hub does not change. It is
	// called on many goroutines. After ErrBodyLost the delivery is a dead letter,
	// of which the error's text is the reason; after others it is asked again each
	// second.
	Body(seq uint64) ([]byte, error)
}

// ErrBodyLost says that the bytes of a delivery will never be there again.
var ErrBodyLost = errors.New("its text was lost")

// Leadership is what the hub asks about the lease it serves under.
type Leadership interface {
	// Owns reads the registry afresh. It is called on many goroutines.
	Owns() (bool, error)
}

// HubOptions make a Hub. All are required but those with a default.
type HubOptions struct {
	Term       uint64
	Dispatch   DispatchOptions
	Settings   Settings      // that members are compared with
	PingEvery  time.Duration // how often an idle stream gets a line; default 5 s; 1 s if zero
	Store      Store
	Leadership Leadership
	Calls      *Calls // on which Lead was called before Begin
	// Probe reports whether the process of a member whose stream ended is dead.
	// Its context ends with the hub.
	Probe func(ctx context.Context, instance string) bool
	// SendReply sends the reply of a finished delivery, all that is left of it,
	// or the notice of a dead letter, and returns nil when nothing of it is left
	// to do. Its context ends with the hub. After an error the delivery, and with
	// it its lane, waits for the next term.
	SendReply func(ctx context.Context, it Item) error
	// HigherTerm is told of a member that has seen a higher term than this one.
	// It must not block.
	HigherTerm func(term uint64)
	// Handover starts to hand over to the member with that name, or to any. It
	// must not block.
	Handover func(to HeirChoice)
	Logger   zerolog.Logger
}

// HeirChoice is the member that shall lead next: empty for any.
type HeirChoice struct{ Instance, Name string }

// ErrHubClosed says that the leadership which the hub served has ended.
var ErrHubClosed = errors.New("the leader stepped down")

// Hub is the leader's half of the bus for one term. All methods are safe for
// concurrent use, and all but Add and Term wait for Run to serve them: they do
// nothing, or return ErrHubClosed, once it has ended.
//
// Goroutines: Run owns the dispatcher and the streams; it never waits for disk,
// network or members. Beside it there is one for each reply under way and for
// each probe, which Run waits for, and the server's for each request and stream.
type Hub struct {
	o      HubOptions
	start  time.Time
	events chan event
	ready  chan struct{}           // closed by Begin: joins are admitted
	done   chan struct{}           // closed when Run ends
	ctx    context.Context         // of replies and probes
	cancel context.CancelCauseFunc // ends ctx
	writes ledger
	sendCh chan struct{} // limits replies under way

	mu    sync.Mutex // guards ended, and tasks against growing after it
	ended bool
	tasks sync.WaitGroup

	// owned by Run
	dispatch *Dispatcher
	streams  map[string]*stream // by instance
	left     bool               // goodbye was said: nobody is admitted any more
}

// event is something that happened, told to the goroutine that owns the
// dispatcher.
type event struct {
	apply func(d *Dispatcher, now Now)
	// recorded, if not nil, is called with the outcome of writing what was
	// decided, and must not block.
	recorded func(error)
	// settles: recorded waits also for what earlier events decided, because it
	// may rest on that.
	settles bool
}

// NewHub returns a hub that admits nobody before Begin.
func NewHub(o HubOptions) *Hub {
	o.PingEvery = cmp.Or(o.PingEvery, 5*time.Second)
	o.Dispatch.MaxReplying = cmp.Or(o.Dispatch.MaxReplying, defaultMaxReplying)
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Hub{
		o:        o,
		start:    time.Now().Add(-time.Second), // so that no instant is zero
		events:   make(chan event, 256),
		ready:    make(chan struct{}),
		done:     make(chan struct{}),
		ctx:      ctx,
		cancel:   cancel,
		writes:   ledger{failed: make(chan struct{})},
		sendCh:   make(chan struct{}, o.Dispatch.MaxReplying),
		dispatch: NewDispatcher(o.Dispatch),
		streams:  map[string]*stream{},
	}
}

// Term returns the term the hub serves.
func (h *Hub) Term() uint64 { return h.o.Term }

// A Present member is one that lives when a term begins.
type Present struct{ Instance, Name string }

// Begin hands the hub what the journal held, in the order of Seq, and the members
// that are alive, and opens it for joins. It is called once, before Add, and
// returns when what follows from it is written. Members that items name and that
// are not alive should be reported by Died afterwards. It returns ErrHubClosed or
// the error of the store.
func (h *Hub) Begin(items []Restored, alive []Present) error {
	err := h.do(func(d *Dispatcher, now Now) {
		for _, p := range alive {
			d.Expect(now, p.Instance, p.Name)
		}
		d.Restore(now, items)
	})
	if err == nil {
		close(h.ready)
	}
	return err
}

// Add takes in new deliveries, in the order of Seq, once they are durable. It
// does not wait for anything to become of them. It returns ErrHubClosed.
func (h *Hub) Add(items []Item) error {
	return h.post(event{apply: func(d *Dispatcher, now Now) { d.Add(now, items) }})
}

// Died tells that a member's process is dead: what it had in hand goes to
// others, as a new attempt.
func (h *Hub) Died(instance string) {
	h.tell(func(d *Dispatcher, now Now) {
		d.Died(now, instance)
		h.dropStream(instance)
	})
}

// Hung tells that a member makes no progress: it gets nothing new and is no heir,
// and what it has in hand goes to others RedeliverAfter later.
func (h *Hub) Hung(instance string) {
	h.tell(func(d *Dispatcher, now Now) {
		if d.Hung(now, instance) {
			h.pushRoster()
		}
	})
}

// Awake tells that a member that hung makes progress again.
func (h *Hub) Awake(instance string) {
	h.tell(func(d *Dispatcher, now Now) {
		if d.Awake(now, instance) {
			h.pushRoster()
		}
	})
}

// StopDispatch ends assignments: the leader is about to step down. When it
// returns nothing more is decided; what was decided before may still be on its
// way, and is not begun by a member that reads another term in the registry.
func (h *Hub) StopDispatch() {
	_ = h.do(func(d *Dispatcher, _ Now) { d.Stop() })
}

// Bye tells all members that the leader has stepped down, and who shall lead
// (an instance; empty: any), and admits nobody any more.
func (h *Hub) Bye(heir string) {
	_ = h.do(func(*Dispatcher, Now) {
		h.left = true
		for _, s := range h.streams {
			s.push(outgoing{msg: Message{Type: MsgBye, Heir: heir}})
			s.close()
		}
	})
}

// Run serves until ctx ends, or a decision could not be recorded; then it closes
// the streams after what is queued in them, waits for the replies and probes
// under way and returns the cause. Requests that it was serving are answered
// "not the leader".
func (h *Hub) Run(ctx context.Context) (err error) {
	defer h.finish()
	defer func() { h.cancel(err) }()
	defer close(h.done)
	defer func() {
		for _, s := range h.streams {
			s.close()
		}
	}()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if at, ok := h.dispatch.Wake(); ok {
			timer.Reset(max(0, at-h.now()))
		} else {
			timer.Reset(time.Hour)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.writes.failed:
			return h.writes.failure()
		case e := <-h.events:
			h.step(e)
		case <-timer.C:
			h.step(event{apply: func(d *Dispatcher, now Now) { d.Tick(now) }})
		}
	}
}

// spawn runs f in a goroutine that Run waits for; not at all once Run ends.
func (h *Hub) spawn(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.tasks.Go(f)
	}
}

func (h *Hub) finish() {
	h.mu.Lock()
	h.ended = true
	h.mu.Unlock()
	h.tasks.Wait()
}

func (h *Hub) now() Now { return time.Since(h.start) }

// post hands an event to the owner.
func (h *Hub) post(e event) error {
	select {
	case h.events <- e:
		return nil
	case <-h.done:
		return ErrHubClosed
	}
}

// tell posts an event whose outcome nobody waits for.
func (h *Hub) tell(apply func(d *Dispatcher, now Now)) { _ = h.post(event{apply: apply}) }

// do posts an event and waits until it was applied and the outcomes it decided
// are recorded.
func (h *Hub) do(apply func(d *Dispatcher, now Now)) error { return h.await(event{apply: apply}) }

// settle is do for an event whose answer may rest on what earlier ones decided:
// it waits for those records too.
func (h *Hub) settle(apply func(d *Dispatcher, now Now)) error {
	return h.await(event{apply: apply, settles: true})
}

func (h *Hub) await(e event) error {
	recorded := make(chan error, 1)
	e.recorded = func(err error) { recorded <- err }
	if err := h.post(e); err != nil {
		return err
	}
	select {
	case err := <-recorded:
		return err
	case <-h.done:
		return ErrHubClosed
	}
}
