package bot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tgbridge/bus"
	"tgbridge/internal/journal"
	"tgbridge/lock"
	"tgbridge/polling"
)

// role is the loop that leads or follows: the one goroutine that changes what
// the member is.
type role struct {
	b    *Bridge
	ctx  context.Context // ends when the member shall stop
	life context.Context // ends when the member is gone
	self string
	past past      // of the last turn
	told time.Time // when it was told to stop; zero: it was not

	warned   time.Time
	troubles int // leaderships in a row that failed
}

// play leads and follows until ctx ends, then stops.
func (b *Bridge) play(ctx, life context.Context) error {
	r := &role{b: b, ctx: ctx, life: life, self: b.member.Instance()}
	for ctx.Err() == nil {
		if err := r.turn(); err != nil {
			return err
		}
	}
	return r.leave()
}

// turn does one thing: join whoever leads, or try to lead.
func (r *role) turn() error {
	state, present, err := r.b.lease.State()
	if err != nil {
		return r.badRegistry(err)
	}
	p := decide(situation{self: r.self, past: r.past, present: present, judged: state})
	if p.join {
		// Each turn looks at the leader. Looks that are further apart than
		// heartbeats do not add up to one that hangs.
		p.delay = min(p.delay, r.b.o.Heartbeat)
	}
	if p.delay > 0 && !r.wait(p, present) {
		return nil
	}
	if p.join {
		r.past, err = r.follow(present)
		return err
	}
	if p.watch { // patience is over
		r.past.ended, r.past.heir = leaderLeft, ""
	}
	r.past, err = r.lead(r.ctx, p)
	return err
}

// wait lets the plan's delay pass; it returns false if the situation is another
// meanwhile: the lease is not the present one any more, or the member shall stop.
func (r *role) wait(p plan, present lock.Entry) bool {
	delay := time.NewTimer(p.delay)
	defer delay.Stop()
	if !p.watch {
		select {
		case <-delay.C:
			return true
		case <-r.ctx.Done():
			return false
		}
	}
	// Nothing wakes a process when a file changes on every system that this
	// runs on; a read each millisecond for as long as an election takes is
	// cheap and late by no more than that.
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return false
		case <-delay.C:
			return true
		case <-tick.C:
			if e, err := r.b.lease.Current(); err == nil && e.Held() && !e.SameOwner(present) {
				return false
			}
		}
	}
}

// lead tries to lead for as long as ctx lasts; if it succeeds it returns when the
// leadership is over.
func (r *role) lead(ctx context.Context, p plan) (past, error) {
	result, err := r.b.poller.Start(ctx, polling.StartRequest{Mode: p.mode, Expected: p.expected})
	if err == nil && result.Outcome == polling.Leading {
		return r.reign(result.Lease.Term)
	}
	r.endTerm("")
	switch {
	case r.ctx.Err() != nil:
		r.b.log.Debug().Err(err).Msg("does not lead any more before it stops")
		return r.past, nil
	case lock.IsUnusable(err), errors.Is(err, journal.ErrUnusable):
		return r.past, fmt.Errorf("%w: %w", ErrState, err)
	case err != nil:
		r.b.log.Warn().Err(err).Dur("delay", time.Second).Msg("cannot lead; trying again")
		r.pause(time.Second)
		return r.past, nil
	default:
		// Another leads, or did for a moment: look again.
		next := r.past
		next.ended, next.lost = streamLost, lock.Entry{}
		return next, nil
	}
}

// reign leads until the leadership ends. The error tells why the member cannot go
// on, if so.
func (r *role) reign(number uint64) (past, error) {
	t := r.b.term.Load()
	r.b.log.Info().Uint64("term", number).Msg("leading")
	began := time.Now()
	own, stopOwn := context.WithCancel(r.life)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.followSelf(own, number)
	}()
	defer func() {
		stopOwn()
		<-ended
	}()
	select {
	case <-r.ctx.Done():
		r.abdicate(t)
		return past{ended: ledBefore}, nil
	case choice := <-t.handover:
		r.b.log.Info().Str("heir", choice.Name).Msg("handing over")
		r.giveUp(choice.Instance)
		return past{ended: ledBefore, heir: choice.Instance}, nil
	case err := <-t.failed:
		if errors.Is(err, errHigherTerm) {
			r.raise()
			return past{}, nil
		}
		r.b.log.Warn().Err(err).Msg("stepping down")
		r.giveUp("")
		if errors.Is(err, journal.ErrUnusable) {
			return past{}, fmt.Errorf("%w: %w", ErrState, err)
		}
		r.recover(time.Since(began))
		return past{}, nil
	case <-r.b.poller.Done():
		cause := r.b.poller.Cause()
		r.endTerm("")
		switch {
		case errors.Is(cause, polling.ErrWebhookSet), errors.Is(cause, polling.ErrTokenRefused):
			return past{}, cause
		case errors.Is(cause, journal.ErrUnusable):
			return past{}, fmt.Errorf("%w: %w", ErrState, cause)
		}
		r.b.log.Warn().Err(cause).Uint64("term", number).Msg("leadership ended")
		if !errors.Is(cause, polling.ErrLost) {
			r.recover(time.Since(began))
		}
		return past{ended: leaseMoved}, nil
	}
}

// giveUp steps down, for an heir or for anybody.
func (r *role) giveUp(heir string) {
	if _, err := r.b.poller.Stop(r.life); err != nil {
		r.b.log.Warn().Err(err).Msg("step-down not complete")
	}
	r.endTerm(heir)
}

// raise takes the lease over from this member itself, under a term above all that
// were seen; the next turn leads under it. Members join anew.
func (r *role) raise() {
	defer r.endTerm("")
	if err := r.b.poller.Suspend(r.life); err != nil {
		r.b.log.Warn().Err(err).Msg("polling not suspended")
		return
	}
	won, err := r.b.lease.Raise(r.life, r.b.member.HighestTerm())
	if err != nil {
		r.b.log.Warn().Err(err).Msg("term not raised")
		return
	}
	r.b.log.Warn().Uint64("term", won.Term).Msg("a member has seen a higher term: the lease is taken over from this member itself")
}

// Waits of a member whose leadership failed, before it tries again.
const (
	recoverDelay = 100 * time.Millisecond // doubled by each that fails in a row
	recoverMax   = 5 * time.Second
	recovered    = 10 * time.Second // a leadership that lasted so long has not failed
)

// recover leaves others the time to take over what this member could not go on
// with.
func (r *role) recover(led time.Duration) {
	if led >= recovered {
		r.troubles = 0
	}
	r.pause(min(recoverMax, recoverDelay<<min(r.troubles, 10)))
	r.troubles++
}

// endTerm says goodbye to the members and ends the term, if there is one. A
// member that was told to stop is a leaving one then, and else a follower.
func (r *role) endTerm(heir string) {
	if t := r.b.term.Load(); t != nil {
		t.hub.Bye(heir)
		t.close()
	}
	next := lock.RoleFollower
	if !r.told.IsZero() {
		next = lock.RoleLeaving
	}
	r.setRole(next, 0)
}

// followSelf joins the member to its own hub for as long as it leads.
func (r *role) followSelf(ctx context.Context, number uint64) {
	for ctx.Err() == nil {
		e, err := r.b.lease.Current()
		if err == nil && e.Epoch == number {
			err = r.b.worker.Follow(ctx, Target(r.b.dir, e), func(bus.Message) {})
		}
		if ctx.Err() == nil {
			r.b.log.Debug().Err(err).Msg("own stream ended")
			pause(ctx, 20*time.Millisecond)
		}
	}
}

// follow joins the holder of the lease and works for it until it is lost.
func (r *role) follow(e lock.Entry) (past, error) {
	r.b.member.NoteTerm(e.Epoch)
	joined := false
	err := r.b.followUntilLost(r.ctx, e, func(m bus.Message) {
		joined = true
		r.b.joinedLeader(e, m)
	})
	if r.ctx.Err() != nil {
		return r.past, nil
	}
	if bus.IsRefused(err, bus.CodeSettings) {
		return r.past, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	next := past{lost: e, heirs: r.b.worker.Heirs()}
	if !joined {
		next.fails = r.past.fails + 1
		r.complain(e, next.fails, err)
	}
	next.ended, next.heir = endingOf(err)
	if joined && next.ended == streamLost && r.b.observer.DeadAfterEOF(r.ctx, e.InstanceID) {
		next.ended = leaderDead
	}
	return next, nil
}

// complain tells once a minute that the leader cannot be joined. That is no
// reason to take its place (S7).
func (r *role) complain(e lock.Entry, fails int, err error) {
	if fails < 20 || time.Since(r.warned) < time.Minute {
		return
	}
	r.warned = time.Now()
	r.b.log.Warn().Err(err).Str("leader", e.Name).Int("pid", e.PID).Msg("the leader cannot be joined; trying on")
}

// joinedLeader is told of each welcome.
func (b *Bridge) joinedLeader(e lock.Entry, m bus.Message) {
	b.proven.Store(true)
	if err := b.member.SetName(m.Name); err != nil {
		b.log.Warn().Err(err).Msg("name not written")
	}
	if err := b.member.SetRole(lock.RoleFollower, m.Term); err != nil {
		b.log.Warn().Err(err).Msg("role not written")
	}
	for _, n := range m.Notices {
		b.log.Warn().Msg(n)
	}
	b.log.Info().Uint64("term", m.Term).Str("leader", e.Name).Str("name", m.Name).Msg("following")
	// What dead members left is known then, and not to be read in an election.
	b.tasks.Go(func() { _, _ = b.observer.Members() })
}

// followUntilLost joins a leader, and watches its beat and the lease beside the
// stream, which tells nothing of a leader that hangs.
func (b *Bridge) followUntilLost(ctx context.Context, e lock.Entry, onJoin func(bus.Message)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &watch{b: b, ctx: ctx, lost: cancel, lease: e}
	b.watched.Store(w)
	defer b.watched.Store(nil)
	select {
	case b.rewatch <- struct{}{}:
	default:
	}
	err := b.worker.Follow(ctx, Target(b.dir, e), onJoin)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return err
}

// badRegistry tells of a registry that cannot be read: unusable ends the
// member, anything else is tried again.
func (r *role) badRegistry(err error) error {
	if lock.IsUnusable(err) {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	r.b.log.Warn().Err(err).Dur("delay", time.Second).Msg("registry not read; trying again")
	r.pause(time.Second)
	return nil
}

func (r *role) pause(d time.Duration) { pause(r.ctx, d) }

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
