package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

// Store keeps what the hub decides, before the hub acts on it.
type Store interface {
	// Record writes the decisions in order and calls done once they are written
	// and, if durable, on disk. It does not block, and done must not block.
	Record(actions []Action, durable bool, done func(error))
	// Body returns the bytes of a delivery.
	Body(seq uint64) ([]byte, error)
}

// Leadership is what the hub asks about the lease it serves under.
type Leadership interface {
	// Owns reads the registry afresh.
	Owns() (bool, error)
}

// HubOptions make a Hub. All are required but those with a default.
type HubOptions struct {
	Term       uint64
	Dispatch   DispatchOptions
	Settings   Settings
	Heartbeat  time.Duration // between pings
	Store      Store
	Leadership Leadership
	Calls      *Calls
	// Probe reports whether the process of a member whose stream ended is dead.
	Probe func(ctx context.Context, instance string) bool
	// SendReply sends the reply of a finished delivery, all that is left of it,
	// and returns nil when nothing of it is left to do. Its context ends with
	// the hub. Dead is the reason if the delivery ends as a dead letter.
	SendReply func(ctx context.Context, it Item, dead string) error
	// HigherTerm is told of a member that has seen a higher term than this one.
	HigherTerm func(term uint64)
	// Handover starts to hand over to the member with that name, or to any.
	Handover func(to HeirChoice)
	Logger   zerolog.Logger
}

// HeirChoice is the member that shall lead next: empty for any.
type HeirChoice struct{ Instance, Name string }

// ErrHubClosed says that the leadership which the hub served has ended.
var ErrHubClosed = errors.New("the leader stepped down")

// Hub is the leader's half of the bus for one term. All methods are safe for
// concurrent use. One goroutine (Run) owns the dispatcher and the streams.
type Hub struct {
	o      HubOptions
	start  time.Time
	events chan event
	ready  chan struct{} // closed by Begin: joins are admitted
	done   chan struct{} // closed when Run ends
	mu     sync.Mutex    // guards ended, and tasks against growing after it
	ended  bool
	tasks  sync.WaitGroup
	sendCh chan struct{} // limits replies under way

	// owned by Run
	dispatch *Dispatcher
	streams  map[string]*stream // by instance
	stopped  bool               // no more assignments
}

// event is something that happened, told to the goroutine that owns the
// dispatcher; recorded, if not nil, is called with the outcome of writing what
// was decided, and must not block.
type event struct {
	apply    func(d *Dispatcher, now Now)
	recorded func(error)
}

// NewHub returns a hub that admits nobody before Begin.
func NewHub(o HubOptions) *Hub {
	o.Heartbeat = cmp.Or(o.Heartbeat, time.Second)
	o.Dispatch.MaxReplying = cmp.Or(o.Dispatch.MaxReplying, 1024)
	return &Hub{
		o:        o,
		start:    time.Now().Add(-time.Second), // so that no instant is zero
		events:   make(chan event, 256),
		ready:    make(chan struct{}),
		done:     make(chan struct{}),
		sendCh:   make(chan struct{}, o.Dispatch.MaxReplying),
		dispatch: NewDispatcher(o.Dispatch),
		streams:  map[string]*stream{},
	}
}

// Term returns the term the hub serves.
func (h *Hub) Term() uint64 { return h.o.Term }

// A Present member is one that lives when a term begins.
type Present struct{ Instance, Name string }

// Begin hands the hub what the journal held and the members that are alive, and
// opens it for joins. It is called once.
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

// Add takes in new deliveries, in the order of Seq, once they are durable.
func (h *Hub) Add(items []Item) error {
	return h.post(event{apply: func(d *Dispatcher, now Now) { d.Add(now, items) }})
}

// Died, Hung and Awake tell what was observed of a member.
func (h *Hub) Died(instance string) {
	h.tell(func(d *Dispatcher, now Now) {
		d.Died(now, instance)
		h.dropStream(instance)
	})
}

// Hung: see Died.
func (h *Hub) Hung(instance string) {
	h.tell(func(d *Dispatcher, now Now) { d.Hung(now, instance) })
}

// Awake: see Died.
func (h *Hub) Awake(instance string) {
	h.tell(func(d *Dispatcher, now Now) { d.Awake(now, instance) })
}

// StopDispatch ends assignments: the leader is about to step down.
func (h *Hub) StopDispatch() {
	_ = h.do(func(*Dispatcher, Now) { h.stopped = true })
}

// Bye tells all members that the leader has stepped down, and who shall lead.
func (h *Hub) Bye(heir string) {
	_ = h.do(func(*Dispatcher, Now) {
		for _, s := range h.streams {
			s.push(outgoing{msg: Message{Type: MsgBye, Heir: heir}})
			s.close()
		}
	})
}

// Instances returns the members that the hub knows.
func (h *Hub) Instances() []string {
	var out []string
	_ = h.do(func(d *Dispatcher, _ Now) { out = d.Instances() })
	return out
}

// Run serves until ctx ends, then closes the streams and waits for everything
// it started. Requests that it was serving are answered "not the leader".
func (h *Hub) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer h.finish()
	defer cancel()
	defer close(h.done)
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
			for _, s := range h.streams {
				s.close()
			}
			return context.Cause(ctx)
		case e := <-h.events:
			h.step(ctx, e)
		case <-timer.C:
			h.step(ctx, event{apply: func(d *Dispatcher, now Now) { d.Tick(now) }})
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

// step applies an event and carries out what was decided.
func (h *Hub) step(ctx context.Context, e event) {
	e.apply(h.dispatch, h.now())
	actions := h.dispatch.Take()
	var plain, durable, rest []Action
	for _, a := range actions {
		switch a.Kind {
		case Finish:
			durable = append(durable, a)
		case Assign:
			if h.stopped {
				continue // stays pending for the successor
			}
			plain = append(plain, a)
		case Adopt, TakeBack:
			plain = append(plain, a)
		default:
			rest = append(rest, a)
		}
	}
	// An outcome is written before the next delivery of its lane is assigned, so
	// that no takeover finds the second begun and the first not finished. Only
	// the outcome waits for the disk.
	after := h.effect(ctx, rest, e.recorded)
	if len(durable) > 0 {
		h.o.Store.Record(durable, true, after)
	}
	if len(plain) > 0 {
		h.o.Store.Record(plain, false, h.effect(ctx, plain, nil))
	}
	if len(durable) == 0 {
		after(nil)
	}
}

// effect returns what happens once the records are written. It runs on the
// store's goroutine, or the hub's.
func (h *Hub) effect(ctx context.Context, actions []Action, recorded func(error)) func(error) {
	// Streams are looked up now: an assignment belongs to the stream for which
	// it was decided, not to a later one of the same member.
	targets := make([]*stream, len(actions))
	for i, a := range actions {
		targets[i] = h.streams[a.Member]
	}
	return func(err error) {
		if recorded != nil {
			defer recorded(err)
		}
		if err != nil {
			h.o.Logger.Error().Err(err).Msg("decision not recorded")
			return
		}
		for i, a := range actions {
			h.carryOut(ctx, a, targets[i])
		}
	}
}

func (h *Hub) carryOut(ctx context.Context, a Action, s *stream) {
	switch a.Kind {
	case Reply:
		h.spawn(func() { h.sendReply(ctx, a) })
	case Assign, Supersede, CloseStream:
		if s == nil {
			return
		}
		switch a.Kind {
		case Assign:
			s.push(outgoing{seq: a.Item.Seq, msg: Message{
				Type: MsgUpdate, Delivery: a.Item.ID, Attempt: a.Item.Attempt, Lane: a.Item.Lane,
			}})
		case Supersede:
			s.push(outgoing{msg: Message{Type: MsgSupersede, Delivery: a.Item.ID, Attempt: a.Item.Attempt}})
		default:
			s.close()
		}
	}
}

func (h *Hub) sendReply(ctx context.Context, a Action) {
	select {
	case h.sendCh <- struct{}{}:
		defer func() { <-h.sendCh }()
	case <-ctx.Done():
		return
	}
	if err := h.o.SendReply(ctx, a.Item, a.Dead); err != nil {
		// The delivery stays as it is: the successor sends what is left.
		h.o.Logger.Debug().Err(err).Str("delivery", a.Item.ID).Msg("reply left to the successor")
		return
	}
	h.tell(func(d *Dispatcher, now Now) { d.ReplyDone(now, a.Item.ID) })
}

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

// do posts an event and waits until it was applied and what it decided is
// recorded.
func (h *Hub) do(apply func(d *Dispatcher, now Now)) error {
	recorded := make(chan error, 1)
	if err := h.post(event{apply: apply, recorded: func(err error) { recorded <- err }}); err != nil {
		return err
	}
	select {
	case err := <-recorded:
		return err
	case <-h.done:
		return ErrHubClosed
	}
}

// join admits a member and returns its stream.
func (h *Hub) join(ctx context.Context, j JoinRequest, notices []string) (*stream, error) {
	select {
	case <-h.ready:
	case <-h.done:
		return nil, ErrHubClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var s *stream
	err := h.do(func(d *Dispatcher, now Now) {
		h.dropStream(j.Instance)
		name := UniqueName(j.Name, func(name string) bool { return d.nameTaken(name, j.Instance) })
		s = newStream(j, uuid.NewString(), name, now)
		h.streams[j.Instance] = s
		superseded, verdicts := d.Join(now, Joining{
			Instance: j.Instance, Name: name, Slots: j.Concurrency, Leaving: j.Leaving,
			InHand: j.InHand, Finished: j.Finished,
		})
		s.push(outgoing{msg: Message{
			Type: MsgWelcome, Protocol: Protocol, Term: h.o.Term, Registration: s.registration, Name: name,
			Superseded: superseded, Verdicts: verdicts, Notices: notices,
		}})
		h.pushRoster()
	})
	return s, err
}

// leave ends a stream. If it was the member's present one, the member is gone
// for the time being; whether it is dead is looked at right away.
func (h *Hub) leave(s *stream) {
	gone := false
	_ = h.do(func(d *Dispatcher, now Now) {
		if h.streams[s.instance] == s {
			delete(h.streams, s.instance)
			d.StreamEnded(now, s.instance)
			h.pushRoster()
			gone = true
		}
	})
	if !gone {
		return
	}
	h.spawn(func() {
		if h.o.Probe(context.Background(), s.instance) { // takes some ms at most
			h.Died(s.instance)
		}
	})
}

// dropStream closes the present stream of a member, if there is one. Only the
// owner calls it.
func (h *Hub) dropStream(instance string) {
	if s := h.streams[instance]; s != nil {
		s.close()
		delete(h.streams, instance)
	}
}

// pushRoster tells every member who may lead next: those longest here first.
func (h *Hub) pushRoster() {
	heirs := h.heirs()
	for _, s := range h.streams {
		s.push(outgoing{msg: Message{Type: MsgRoster, Heirs: heirs}})
	}
}

func (h *Hub) heirs() []string {
	var may []*stream
	for _, s := range h.streams {
		if !s.leaving && s.instance != h.o.Dispatch.Self {
			may = append(may, s)
		}
	}
	slices.SortFunc(may, func(a, b *stream) int {
		return cmp.Or(cmp.Compare(a.joinedAt, b.joinedAt), cmp.Compare(a.instance, b.instance))
	})
	out := make([]string, len(may))
	for i, s := range may {
		out[i] = s.instance
	}
	return out
}

// registered reports whether a registration is the member's present one.
func (h *Hub) registered(instance, registration string) error {
	ok := false
	err := h.do(func(*Dispatcher, Now) {
		s := h.streams[instance]
		ok = s != nil && s.registration == registration
	})
	if err == nil && !ok {
		err = refuse(http.StatusConflict, CodeRegistration, "this registration is not the present one; join anew")
	}
	return err
}

// ack records acknowledgements; when it returns nil they are durable and the
// leader was found to lead still.
func (h *Hub) ack(instance, registration string, acks []Ack) ([]Verdict, error) {
	var verdicts []Verdict
	ok := false
	err := h.do(func(d *Dispatcher, now Now) {
		s := h.streams[instance]
		if ok = s != nil && s.registration == registration; !ok {
			return
		}
		for _, a := range acks {
			verdicts = append(verdicts, d.Ack(now, instance, a))
		}
	})
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, refuse(http.StatusConflict, CodeRegistration, "this registration is not the present one; join anew")
	}
	return verdicts, h.stillLeads()
}

// stillLeads checks exact ownership with a fresh read.
func (h *Hub) stillLeads() error {
	owns, err := h.o.Leadership.Owns()
	if err != nil {
		return fmt.Errorf("check ownership: %w", err)
	}
	if !owns {
		return ErrHubClosed
	}
	return nil
}

// holds reports whether the member has the delivery in hand in that attempt.
func (h *Hub) holds(instance string, held Held) (Item, bool, error) {
	var it Item
	ok := false
	err := h.do(func(d *Dispatcher, _ Now) { it, ok = d.Holds(instance, held) })
	return it, ok, err
}

// handover picks the heir and starts the hand-over.
func (h *Hub) handover(to string) error {
	var choice HeirChoice
	err := h.do(func(*Dispatcher, Now) {
		for _, instance := range h.heirs() {
			if s := h.streams[instance]; to == "" || s.name == to {
				choice = HeirChoice{Instance: instance, Name: s.name}
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if choice.Instance == "" {
		what := "no other member is there to take over"
		if to != "" {
			what = fmt.Sprintf("no member named %q is there to take over", to)
		}
		return refuse(http.StatusConflict, CodeNobody, what+"; start one, or stop this one instead")
	}
	if to == "" {
		choice = HeirChoice{}
	}
	h.o.Handover(choice)
	return nil
}

// HasHeirs reports whether a member is joined that may take over.
func (h *Hub) HasHeirs() bool {
	has := false
	_ = h.do(func(*Dispatcher, Now) { has = len(h.heirs()) > 0 })
	return has
}

// Idle reports whether no delivery is with a member and no reply under way.
func (h *Hub) Idle() bool {
	idle := true
	_ = h.do(func(d *Dispatcher, _ Now) { idle = d.Idle() })
	return idle
}

// Counts returns what each member has, and how many deliveries are pending.
func (h *Hub) Counts() (members map[string]MemberCount, pending int) {
	_ = h.do(func(d *Dispatcher, _ Now) { members, pending = d.Counts() })
	return members, pending
}
