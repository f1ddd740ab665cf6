package bot

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tgbridge/bus"
	"tgbridge/internal/journal"
	"tgbridge/lock"
)

// term is one leadership: the hub and the journal beside the poller. The hub
// outlives the lease by a moment, to say goodbye.
type term struct {
	b      *Bridge
	number uint64
	hub    *bus.Hub
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	handover chan bus.HeirChoice // asked of the role loop
	failed   chan error          // has the reason why the term cannot go on
	opened   chan struct{}       // closed when the journal was taken over and the hub is open, or refused is set
	refused  error               // why there is no journal, once opened is closed
	journal  *journal.Journal    // once opened is closed, unless refused
	trouble  trouble             // of the journal

	mu   sync.Mutex // guards room
	room chan struct{}
}

// beginTerm prepares a leadership: it is what the poller waits for before its
// first request, so it takes no time. The journal is taken over beside that
// request.
func (b *Bridge) beginTerm(_ context.Context, r lock.Result) error {
	if err := b.member.SetRole(lock.RoleLeader, r.Term); err != nil {
		return fmt.Errorf("tell the leader's term in the member file: %w", err)
	}
	if r.DamagedCopy != "" {
		b.log.Warn().Str("path", r.DamagedCopy).Msg("the registry was damaged: this copy of it is kept, and a new one was published")
	}
	t := &term{
		b: b, number: r.Term,
		handover: make(chan bus.HeirChoice, 1),
		failed:   make(chan error, 1),
		opened:   make(chan struct{}),
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.hub = bus.NewHub(bus.HubOptions{
		Term: r.Term,
		Dispatch: bus.DispatchOptions{
			Self: b.member.Instance(), Route: b.o.Route, Attempts: b.o.Attempts, RedeliverAfter: b.o.RedeliverAfter,
		},
		Settings: b.o.settings(), PingEvery: b.o.StaleAfter,
		Store: store{t}, Leadership: b.lease, Calls: b.calls,
		Probe:     b.observer.DeadAfterEOF,
		SendReply: t.sendReply,
		HigherTerm: func(higher uint64) {
			b.member.NoteTerm(higher)
			t.fail(errHigherTerm)
		},
		Handover: func(to bus.HeirChoice) {
			select {
			case t.handover <- to:
			default: // one is under way
			}
		},
		Logger: b.log,
	})
	t.tasks.Go(func() {
		if err := t.hub.Run(t.ctx); t.ctx.Err() == nil {
			t.fail(fmt.Errorf("serve members: %w", err))
		}
	})
	t.tasks.Go(t.open)
	b.term.Store(t)
	b.server.Lead(t.hub)
	return nil
}

// errHigherTerm: a member has seen a term above this leader's.
var errHigherTerm = errors.New("a higher term was seen")

// fail tells the role loop that the term cannot go on.
func (t *term) fail(err error) {
	select {
	case t.failed <- err:
	default:
	}
}

// open takes the journal over and opens the hub, then watches both.
func (t *term) open() {
	if highest, err := journal.HighestTerm(t.b.journalDir()); t.number > 1 && highest == 0 && err == nil {
		t.b.log.Warn().Str("path", t.b.journalDir()).
			Msg("there is no journal of an earlier term: if there was one, what was pending in it is lost")
	}
	j, err := journal.TakeOver(t.b.journalDir(), t.number, journal.Options{Logger: t.b.log})
	if err != nil {
		t.refused = fmt.Errorf("take over journal: %w", err)
		close(t.opened)
		t.fail(t.refused)
		return
	}
	defer func() {
		if err := j.Close(); err != nil && t.ctx.Err() == nil {
			t.b.log.Warn().Err(err).Msg("journal not closed")
		}
	}()
	t.journal = j
	t.b.calls.Lead(store{t}, callRecords(j.Calls()))
	defer t.b.calls.Follow()
	readings, err := t.b.observer.Members()
	if err != nil {
		t.fail(fmt.Errorf("look at members: %w", err))
		return
	}
	if err := t.hub.Begin(restored(j.Entries()), t.b.present(readings)); err != nil {
		return // closed meanwhile
	}
	close(t.opened)
	t.watch()
}

// restored returns what the hub has to know of the journal's entries.
func restored(entries []journal.Entry) []bus.Restored {
	var out []bus.Restored
	for _, e := range entries {
		r := bus.Restored{Item: bus.Item{Seq: e.Seq, ID: e.Delivery, Lane: e.Lane, Attempt: e.Attempt}}
		switch e.State {
		case journal.Pending:
			r.Attempt = e.Attempt + 1
		case journal.Assigned:
			r.Member = e.Member
		case journal.Outcome:
			r.Replying = true
		default: // Done, Dead
			continue
		}
		out = append(out, r)
	}
	return out
}

func callRecords(calls []journal.CallEntry) []bus.CallRecord {
	out := make([]bus.CallRecord, len(calls))
	for i, c := range calls {
		out[i] = bus.CallRecord{Request: c.Request, Seq: c.Seq, Lane: c.Lane, By: c.By, Hash: c.Hash, Done: c.Done}
	}
	return out
}

// present returns the members that live and may join.
func (b *Bridge) present(readings []lock.Reading) []bus.Present {
	var out []bus.Present
	for _, r := range readings {
		switch {
		case r.Torn, r.Dead(), r.Hung(b.o.StaleAfter):
		case r.Info.Role == lock.RoleCommand, r.Info.Role == lock.RoleLeaving:
		default:
			out = append(out, bus.Present{Instance: r.Info.Instance, Name: r.Info.Name})
		}
	}
	return out
}

// isReady reports whether the journal is there.
func (t *term) isReady() bool {
	select {
	case <-t.opened:
		return t.refused == nil
	default:
		return false
	}
}

// readyTerm returns the present term once its journal is there.
func (b *Bridge) readyTerm(ctx context.Context) (*term, error) {
	t := b.term.Load()
	if t == nil {
		return nil, errNoTerm
	}
	select {
	case <-t.opened:
		return t, t.refused
	case <-t.ctx.Done():
		return nil, errNoTerm
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// stopDispatch is called between the last poll and the release of the lease.
func (b *Bridge) stopDispatch(context.Context) {
	if t := b.term.Load(); t != nil {
		t.hub.StopDispatch()
	}
}

// close ends the term and waits for all of it. Calls in flight go on.
func (t *term) close() {
	t.b.server.Lead(nil)
	t.cancel()
	t.tasks.Wait()
	t.b.term.Store(nil)
}

// full reports whether enough is pending; the channel is closed when there is
// room.
func (t *term) full() (<-chan struct{}, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.journal.Full() {
		return nil, false
	}
	if t.room == nil {
		t.room = make(chan struct{})
	}
	return t.room, true
}

// madeRoom is called after each write.
func (t *term) madeRoom() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.room != nil && !t.journal.Full() {
		close(t.room)
		t.room = nil
	}
}

const (
	sweepFirst  = time.Second // when a term has other things to do than at its beginning
	sweepEvery  = time.Minute
	forgetEvery = 10 * time.Minute
)

// watch looks at the members and the journal until the term ends.
func (t *term) watch() {
	t.lookAtMembers()
	look := time.NewTicker(t.b.o.Heartbeat / 2)
	defer look.Stop()
	check := time.NewTicker(t.b.o.OwnershipCheck)
	defer check.Stop()
	sweep := time.NewTimer(sweepFirst)
	defer sweep.Stop()
	forget := time.NewTicker(forgetEvery)
	defer forget.Stop()
	var old map[string]bool
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-t.journal.Failed():
			t.fail(fmt.Errorf("journal failed: %w", t.journal.Err()))
			<-t.ctx.Done()
			return
		case <-look.C:
			t.lookAtMembers()
		case <-check.C:
			if err := t.journal.Check(); err != nil && t.trouble.note(err) {
				t.b.log.Warn().Err(err).Msg("journal is in trouble: what needs it waits")
			}
		case <-sweep.C:
			t.sweep()
			sweep.Reset(sweepEvery)
		case <-forget.C:
			old = t.forgetCalls(old)
		}
	}
}

// lookAtMembers tells the hub which members are dead, hung or awake. Only those
// that have work or a call in hand, or are joined, matter.
func (t *term) lookAtMembers() {
	seen := map[string]bool{t.b.member.Instance(): true}
	for _, instance := range append(t.hub.Instances(), t.b.calls.Makers()...) {
		if seen[instance] {
			continue
		}
		seen[instance] = true
		r, err := t.b.observer.Look(instance)
		switch {
		case err != nil: // no answer
		case r.Dead():
			t.hub.Died(instance)
			t.b.calls.Lost(instance)
		case r.Hung(t.b.o.StaleAfter):
			t.hub.Hung(instance)
			t.b.calls.Lost(instance)
		default:
			t.hub.Awake(instance)
		}
	}
}
