package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

// A Delivery is what a handler gets.
type Delivery struct {
	ID      string
	Attempt int // from 1
	Lane    string
	Body    []byte // owned by the handler
}

// WorkerOptions make a Worker.
type WorkerOptions struct {
	Instance       string
	PID            int
	Host           string
	Version        string
	Concurrency    int
	Settings       Settings
	HandlerTimeout time.Duration
	// Term reads the registry afresh: the term of the lease that stands there.
	Term func() (uint64, error)
	// HighestTerm is the highest term this member has seen.
	HighestTerm func() uint64
	// Handle makes the outcome of a delivery. Its context is cancelled when the
	// attempt is superseded, its time is over, or the member's is.
	Handle func(ctx context.Context, d Delivery) Outcome
	Calls  *Calls
	Logger zerolog.Logger
}

// Worker is the member's half of the bus for as long as the member lives. It
// follows one leader after another; what it has in hand goes on meanwhile. All
// methods are safe for concurrent use; Follow runs once at a time.
type Worker struct {
	o    WorkerOptions
	base context.Context // of handlers

	mu       sync.Mutex // guards what follows; held for no I/O
	name     string
	leaving  bool
	hand     map[string]*job // by delivery id
	finished map[string]Ack  // outcomes that no leader has confirmed
	session  *session        // nil: not joined
	joined   chan struct{}   // closed while joined, open while not
	heirs    []string
	changed  chan struct{} // closed and made anew when hand or finished changes
	jobs     sync.WaitGroup
}

type job struct {
	held   Held
	cancel context.CancelCauseFunc
}

// session is the time with one leader.
type session struct {
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

// A ByeError says that the leader stepped down of its own will.
type ByeError struct{ Heir string }

func (e *ByeError) Error() string { return "the leader stepped down" }

// NewWorker returns a worker that offers name at every join. Handlers run under
// base.
func NewWorker(base context.Context, name string, o WorkerOptions) *Worker {
	return &Worker{
		o: o, base: base, name: name,
		hand:     map[string]*job{},
		finished: map[string]Ack{},
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

// Heirs returns who may lead next, as the last roster said.
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

// Changed returns a channel that is closed when InHand changes.
func (w *Worker) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// CancelAll cancels every handler with that cause; ErrStopping gives the work
// back unfinished.
func (w *Worker) CancelAll(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.hand {
		j.cancel(cause)
	}
}

// Wait waits for the handlers to return.
func (w *Worker) Wait() { w.jobs.Wait() }

// Follow joins the leader and works for it until the stream ends, and returns
// why: a *Refused join, a *ByeError, ErrTermPassed, or the error of the stream
// or of ctx. Onjoin is called after the welcome with its notices; it must not
// block.
func (w *Worker) Follow(ctx context.Context, t Target, onJoin func(welcome Message)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := NewClient(t, w.o.Instance)
	defer client.Close()
	join := w.joinRequest()
	sub, err := client.Join(ctx, join)
	if err != nil {
		return err
	}
	defer sub.Close()
	s := &session{client: client, registration: sub.Welcome.Registration, term: t.Term}
	w.welcome(s, join, sub.Welcome)
	defer w.part()
	onJoin(sub.Welcome)

	acks := make(chan struct{})
	go func() {
		defer close(acks)
		defer cancel()
		w.sendAcks(ctx, s)
	}()
	err = w.read(ctx, sub, s)
	cancel()
	<-acks
	return err
}

// joinRequest names all that is in hand. The old stream is closed by now, so
// nothing can be added to it.
func (w *Worker) joinRequest() JoinRequest {
	calls, _ := w.o.Calls.States()
	w.mu.Lock()
	defer w.mu.Unlock()
	j := JoinRequest{
		Instance: w.o.Instance, Name: w.name, PID: w.o.PID, Host: w.o.Host, Version: w.o.Version,
		Leaving: w.leaving, HighestTerm: w.o.HighestTerm(), Concurrency: w.o.Concurrency, Settings: w.o.Settings,
		Calls: calls,
	}
	for _, job := range w.hand {
		j.InHand = append(j.InHand, job.held)
	}
	slices.SortFunc(j.InHand, func(a, b Held) int { return cmp.Compare(a.Delivery, b.Delivery) })
	j.Finished = w.unconfirmed()
	return j
}

// unconfirmed returns the finished outcomes in a fixed order.
func (w *Worker) unconfirmed() []Ack {
	out := make([]Ack, 0, len(w.finished))
	for _, a := range w.finished {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b Ack) int { return cmp.Compare(a.Delivery, b.Delivery) })
	return out
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

func (w *Worker) supersede(h Held) {
	if j := w.hand[h.Delivery]; j != nil && j.held.Attempt == h.Attempt {
		j.cancel(ErrSuperseded)
	}
}

// settle forgets outcomes that a leader has taken, whatever its verdict.
func (w *Worker) settle(acks []Ack) {
	for _, a := range acks {
		if f, ok := w.finished[a.Delivery]; ok && f.Attempt == a.Attempt {
			delete(w.finished, a.Delivery)
		}
	}
	w.signal()
}

func (w *Worker) signal() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// read takes lines until the stream ends.
func (w *Worker) read(ctx context.Context, sub *Subscription, s *session) error {
	for {
		m, err := sub.Next()
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		switch m.Type {
		case MsgUpdate:
			if err := w.accept(s, m); err != nil {
				return err
			}
		case MsgSupersede:
			w.mu.Lock()
			w.supersede(Held{Delivery: m.Delivery, Attempt: m.Attempt})
			w.mu.Unlock()
		case MsgRoster:
			w.mu.Lock()
			w.heirs = m.Heirs
			w.mu.Unlock()
		case MsgBye:
			return &ByeError{Heir: m.Heir}
		case MsgPing, MsgWelcome:
		default: // of a newer leader
		}
	}
}

// accept takes a delivery in hand and begins it, if the registry shows the
// leader's term still: whoever takes over later has read the record of this
// assignment.
func (w *Worker) accept(s *session, m Message) error {
	term, err := w.o.Term()
	if err != nil {
		return err
	}
	if term != s.term {
		return ErrTermPassed
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hand[m.Delivery] != nil {
		w.o.Logger.Warn().Str("delivery", m.Delivery).Msg("delivery is in hand already")
		return nil
	}
	held := Held{Delivery: m.Delivery, Attempt: m.Attempt}
	ctx, cancel := context.WithCancelCause(context.WithValue(w.base, heldKey{}, held))
	w.hand[m.Delivery] = &job{held: held, cancel: cancel}
	delivery := Delivery{ID: m.Delivery, Attempt: m.Attempt, Lane: m.Lane, Body: m.Update}
	w.jobs.Go(func() { w.work(ctx, cancel, delivery) })
	return nil
}

// heldKey is the key under which a handler's context holds its delivery.
type heldKey struct{}

// work runs the handler and keeps its outcome until a leader has it.
func (w *Worker) work(ctx context.Context, cancel context.CancelCauseFunc, d Delivery) {
	defer cancel(nil)
	ctx, stop := context.WithTimeout(ctx, w.o.HandlerTimeout)
	defer stop()
	outcome := w.o.Handle(ctx, d)
	cause := context.Cause(ctx)
	if outcome.Status == Failed {
		switch {
		case errors.Is(cause, ErrStopping):
			outcome = Outcome{Status: Returned}
		case errors.Is(cause, context.DeadlineExceeded):
			outcome.Status = TimedOut
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.hand, d.ID)
	if !errors.Is(cause, ErrSuperseded) {
		w.finished[d.ID] = Ack{Delivery: d.ID, Attempt: d.Attempt, Outcome: outcome}
	}
	w.signal()
}

// sendAcks tells the leader what is finished, as long as the session lasts: all
// that came together in one request, one request at a time. It returns when ctx
// ends, or when the leader no longer takes them and the stream, which has more
// to say (who the heir is), had time to end by itself.
func (w *Worker) sendAcks(ctx context.Context, s *session) {
	for {
		w.mu.Lock()
		acks, changed := w.unconfirmed(), w.changed
		w.mu.Unlock()
		calls, callsChanged := w.o.Calls.States()
		calls = slices.DeleteFunc(calls, func(c CallState) bool { return c.Result == nil })
		if len(acks) == 0 && len(calls) == 0 {
			select {
			case <-changed:
			case <-callsChanged:
			case <-ctx.Done():
				return
			}
			continue
		}
		_, err := s.client.Ack(ctx, s.registration, AckRequest{Acks: acks, Calls: calls})
		switch {
		case err == nil:
			w.o.Calls.Told(calls)
			w.mu.Lock()
			w.settle(acks)
			w.mu.Unlock()
		case IsRefused(err, CodeBusy):
			if pause(ctx, 100*time.Millisecond) != nil {
				return
			}
		default: // the next join names them again
			w.o.Logger.Debug().Err(err).Msg("acknowledgements not taken")
			_ = pause(ctx, 100*time.Millisecond)
			return
		}
	}
}

// Call makes a call through whoever leads, under one request id: it waits for a
// leader and repeats what a change of leader cut off. In a handler's context it
// belongs to the delivery. It returns the far side's answer, ErrOutcomeUnknown,
// a *Refused, or the error of ctx.
func (w *Worker) Call(ctx context.Context, method, contentType string, body []byte) (json.RawMessage, error) {
	call := Call{Request: uuid.NewString(), Method: method, ContentType: contentType, Body: body}
	held, _ := ctx.Value(heldKey{}).(Held)
	for {
		s, err := w.current(ctx)
		if err != nil {
			return nil, err
		}
		answer, err := s.client.Call(ctx, s.registration, call, held)
		switch {
		case err == nil:
			return answer, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case IsRefused(err, CodeUnknown):
			return nil, ErrOutcomeUnknown
		case IsRefused(err, CodeSuperseded):
			return nil, ErrSuperseded
		}
		if refused := (*Refused)(nil); errors.As(err, &refused) &&
			!IsRefused(err, CodeNotLeader, CodeTerm, CodeRegistration, CodeBusy) {
			return nil, refused
		}
		// Cut off, or no longer the leader. The same leader is asked again after
		// a moment, another one at once.
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
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
