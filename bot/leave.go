package bot

import (
	"context"
	"time"

	"tgbridge/bus"
	"tgbridge/lock"
)

// abdicate ends a leadership because the member stops. With others there the
// lease is given up at once, and what is in hand is ended as a member of the
// successor's. With nobody there the member keeps the lease, without polling, to
// take in the outcomes of its own work, until somebody comes.
func (r *role) abdicate(t *term) {
	r.told = time.Now()
	ctx, cancel := context.WithDeadline(r.life, r.told.Add(stopWithin))
	defer cancel()
	r.setRole(lock.RoleLeaving, t.number)
	if err := r.b.poller.Suspend(ctx); err != nil {
		r.b.log.Warn().Err(err).Msg("polling not suspended in time")
	}
	if !r.heirsStay(t) {
		r.drain(r.told.Add(drainWithin), func() bool { return t.hub.HasHeirs() || r.nothingInHand() && t.hub.Idle() })
	}
	// A release that comes late is better than none.
	release, cancelRelease := context.WithTimeout(r.life, releaseWithin)
	defer cancelRelease()
	if _, err := r.b.poller.Stop(release); err != nil {
		r.b.log.Warn().Err(err).Msg("lease not released")
	}
	t.hub.Bye("")
	t.close()
	r.setRole(lock.RoleLeaving, 0)
}

// releaseWithin bounds the release of the lease, which takes some milliseconds.
const releaseWithin = time.Second

// settleFor is how long a leader that stops with work in hand looks whether its
// heirs stop too.
const settleFor = 5 * time.Millisecond

// heirsStay reports whether a member is there that may take over. Where all are
// told to stop at once, the others say so some milliseconds later; the lease
// would go to nobody, and what is finished meanwhile would be handled again.
func (r *role) heirsStay(t *term) bool {
	if t.hub.Idle() {
		return t.hub.HasHeirs()
	}
	for until := time.Now().Add(settleFor); t.hub.HasHeirs(); pause(r.life, time.Millisecond) {
		if time.Now().After(until) {
			return true
		}
	}
	return false
}

func (r *role) setRole(role lock.Role, number uint64) {
	if err := r.b.member.SetRole(role, number); err != nil {
		r.b.log.Warn().Err(err).Msg("role not written")
	}
}

// drain waits until done says so, but not beyond an instant. It cancels the
// handlers when their time is over.
func (r *role) drain(until time.Time, done func() bool) {
	end := time.NewTimer(time.Until(until))
	defer end.Stop()
	cancelAt := time.NewTimer(time.Until(r.told.Add(cancelWithin)))
	defer cancelAt.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if done() {
			return
		}
		select {
		case <-r.b.worker.Changed():
		case <-tick.C:
		case <-cancelAt.C:
			r.b.worker.CancelAll(bus.ErrStopping)
		case <-end.C:
			return
		}
	}
}

func (r *role) nothingInHand() bool {
	running, unconfirmed := r.b.worker.InHand()
	calls, _ := r.b.calls.States()
	return running == 0 && unconfirmed == 0 && len(calls) == 0
}

// How long a member with nothing in hand takes to tell the leader that it goes.
const goodbyeWithin = time.Second

// leave ends the member: it joins whoever leads as one that only ends what it
// has in hand, so that the leader knows at once what was never begun, and goes
// when that is done or its time is over.
func (r *role) leave() error {
	if r.told.IsZero() {
		r.told = time.Now()
	}
	deadline := r.told.Add(stopWithin)
	r.b.worker.Leave()
	r.setRole(lock.RoleLeaving, 0)
	ctx, cancel := context.WithDeadline(r.life, deadline)
	defer cancel()
	told := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r.sayGoodbye(ctx, told)
	}()
	if r.nothingInHand() {
		select {
		case <-told:
		case <-time.After(goodbyeWithin):
		}
	}
	r.drain(deadline, r.nothingInHand)
	r.b.worker.CancelAll(bus.ErrStopping)
	cancel()
	<-gone
	return nil
}

// sayGoodbye joins leaders as a leaving member until ctx ends. Told is closed
// at the first welcome, or when nobody is there to be told.
func (r *role) sayGoodbye(ctx context.Context, told chan struct{}) {
	first := true
	tell := func() {
		if first {
			first = false
			close(told)
		}
	}
	defer tell()
	for ctx.Err() == nil {
		state, e, err := r.b.lease.State()
		if err == nil && othersLead(state, e, r.self) {
			_ = r.b.followUntilLost(ctx, e, func(bus.Message) { tell() })
		} else if !r.othersPresent() {
			tell()
		}
		pause(ctx, 5*time.Millisecond)
	}
}

// othersPresent reports whether another member lives that may lead.
func (r *role) othersPresent() bool {
	readings, err := r.b.observer.Members()
	if err != nil {
		return false
	}
	for _, p := range r.b.present(readings) {
		if p.Instance != r.self {
			return true
		}
	}
	return false
}
