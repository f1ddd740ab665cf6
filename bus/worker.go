package bus

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// A Delivery is what a handler gets.
type Delivery struct {
	ID      string
	Attempt int // from 1
	Lane    string
	Body    []byte // owned by the handler
}

// WorkerOptions make a Worker. All are required but those with a default.
type WorkerOptions struct {
	Instance       string
	PID            int
	Host           string
	Version        string
	Concurrency    int // deliveries at a time; 16 if zero
	Settings       Settings
	HandlerTimeout time.Duration // 10 min if zero
	// Term reads the registry afresh: the term of the lease that stands there.
	Term func() (uint64, error)
	// HighestTerm is the highest term this member has seen.
	HighestTerm func() uint64
	// Handle makes the outcome of a delivery. Its context is cancelled, with a
	// cause, when the attempt is superseded, its time is over, or the member's
	// is. A Failed outcome after that counts as what the cause says. What cannot
	// be told to the leader (no known status, a reply that is no JSON or longer
	// than MaxReply) counts as Failed.
	Handle func(ctx context.Context, d Delivery) Outcome
	Calls  *Calls
	Logger zerolog.Logger
}

// Worker is the member's half of the bus for as long as the member lives. It
// follows one leader after another; what it has in hand goes on meanwhile. All
// methods are safe for concurrent use; Follow runs once at a time.
//
// Goroutines: one for each handler, and one of Follow's that sends
// acknowledgements.
type Worker struct {
	o    WorkerOptions
	base context.Context // of handlers

	epoch time.Time
	busy  atomic.Int64 // since when, after epoch, it is at lines of its stream; 0: it is at none

	mu       sync.Mutex // guards what follows; held for no I/O
	name     string
	leaving  bool
	hand     map[Held]*job
	finished map[Held]Ack  // outcomes that no leader has confirmed
	session  *session      // nil: not joined
	joined   chan struct{} // closed while joined, open while not
	heirs    []string
	changed  chan struct{} // closed and made anew when hand or finished changes
	jobs     sync.WaitGroup
}

// session is the time with one leader.
type session struct {
	ctx          context.Context // ends with it
	client       *Client
	registration string
	term         uint64
}

// Causes of a handler's cancelled context.
var (
	ErrSuperseded = errors.New("another attempt of this delivery was begun")
	ErrStopping   = errors.New("the member stops")
)

// ErrTermPassed says that the registry shows another term than the leader's
// that sent a delivery.
var ErrTermPassed = errors.New("the registry shows another term than the leader's")

// A ByeError says that the leader stepped down of its own will, and which
// instance shall lead if one was asked for.
type ByeError struct{ Heir string }

func (e *ByeError) Error() string { return "the leader stepped down" }

// NewWorker returns a worker that offers name at every join. Handlers run under
// base.
func NewWorker(base context.Context, name string, o WorkerOptions) *Worker {
	o.Concurrency = cmp.Or(o.Concurrency, 16)
	o.HandlerTimeout = cmp.Or(o.HandlerTimeout, 10*time.Minute)
	return &Worker{
		o: o, base: base, name: name, epoch: time.Now(),
		hand:     map[Held]*job{},
		finished: map[Held]Ack{},
		joined:   make(chan struct{}),
		changed:  make(chan struct{}),
	}
}

// Name returns the member's name: as given, or as the last leader made it
// unique.
func (w *Worker) Name() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.name
}

// Heirs returns the instances that may lead next, first heir first, as the last
// roster said.
func (w *Worker) Heirs() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.heirs)
}

// Leave makes later joins those of a member that only ends what it has in hand.
func (w *Worker) Leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaving = true
}

// InHand returns how many deliveries run, and how many outcomes no leader has
// confirmed yet.
func (w *Worker) InHand() (running, unconfirmed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.hand), len(w.finished)
}

// Changed returns a channel that is closed when InHand changes: fetch it before
// InHand, then wait.
func (w *Worker) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// CancelAll cancels every handler that runs with that cause; ErrStopping gives
// the work back unfinished. Deliveries that come later are begun as ever.
func (w *Worker) CancelAll(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.hand {
		j.cancel(cause)
	}
}

// Wait waits for the handlers to return. It is called when Follow has returned
// and is not called again.
func (w *Worker) Wait() { w.jobs.Wait() }

// Follow joins the leader and works for it until the stream ends, and returns
// why: a *Refused join, a *ByeError, ErrTermPassed, or the error of the stream,
// of Term, of the acknowledgements, or the cause of ctx. Work goes on after it.
// OnJoin is called after the welcome with its notices; it must not block.
func (w *Worker) Follow(ctx context.Context, t Target, onJoin func(welcome Message)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	client := NewClient(t, w.o.Instance)
	defer client.Close()
	join := w.joinRequest()
	sub, err := client.Join(ctx, join)
	if err != nil {
		return err
	}
	defer sub.Close()
	s := &session{ctx: ctx, client: client, registration: sub.Welcome.Registration, term: t.Term}
	w.welcome(s, join, sub.Welcome)
	defer w.part()
	onJoin(sub.Welcome)

	var acks sync.WaitGroup
	defer acks.Wait()
	acks.Go(func() { cancel(w.sendAcks(ctx, s)) })
	err = w.read(ctx, sub, s)
	cancel(err)
	return err
}

// welcome begins a session: the leader has taken what the join named.
func (w *Worker) welcome(s *session, join JoinRequest, m Message) {
	w.o.Calls.Told(join.Calls)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.name = m.Name
	w.settle(join.Finished)
	for _, h := range m.Superseded {
		w.supersede(h)
	}
	w.session = s
	close(w.joined)
}

// part ends the session.
func (w *Worker) part() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.session = nil
	w.joined = make(chan struct{})
}

// read takes lines until the stream ends.
func (w *Worker) read(ctx context.Context, sub *Subscription, s *session) error {
	for {
		lot, err := sub.NextLot()
		w.busy.Store(int64(time.Since(w.epoch)))
		takeErr := w.take(s, lot)
		w.busy.Store(0)
		switch {
		case takeErr != nil:
			return takeErr
		case err != nil:
			return cmp.Or(context.Cause(ctx), err)
		}
	}
}

// take does what lines say that came in together. An error ends the stream.
func (w *Worker) take(s *session, lot []Message) error {
	checked := false // for all of the lot, as all of it has come in
	for _, m := range lot {
		if m.Type == MsgUpdate && !checked {
			if err := w.checkTerm(s); err != nil {
				return err
			}
			checked = true
		}
		if err := w.takeOne(m); err != nil {
			return err
		}
	}
	return nil
}

func (w *Worker) takeOne(m Message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch m.Type {
	case MsgUpdate:
		w.accept(m)
	case MsgSupersede:
		w.supersede(Held{Delivery: m.Delivery, Attempt: m.Attempt})
	case MsgRoster:
		w.heirs = m.Heirs
	case MsgBye:
		return &ByeError{Heir: m.Heir}
	case MsgPing, MsgWelcome:
	default: // of a newer leader
	}
	return nil
}

// Stuck reports whether the worker has been at lines of its stream for longer
// than limit: it does not get on.
func (w *Worker) Stuck(limit time.Duration) bool {
	since := w.busy.Load()
	return since != 0 && time.Since(w.epoch)-time.Duration(since) > limit
}

// current returns the present session, waiting for one.
func (w *Worker) current(ctx context.Context) (*session, error) {
	for {
		w.mu.Lock()
		s, joined := w.session, w.joined
		w.mu.Unlock()
		if s != nil {
			return s, nil
		}
		select {
		case <-joined:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// pause waits for a moment.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
