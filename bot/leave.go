package bot

import (
	"context"
	"errors"
	"sync"
	"time"

	"tgbridge/bus"
	"tgbridge/lock"
)

// abdicate ends a leadership because the member stops. With others there the
// lease is given up at once, and what is in hand is ended as a member of the
// successor's. With nobody there the member keeps the lease, without polling, to
// take in the outcomes of the work in hand, until somebody comes.
func (r *role) abdicate(t *term) {
	r.toldToStop()
	ctx, cancel := context.WithDeadline(r.life, r.told.Add(stopWithin))
	defer cancel()
	r.b.draining.Store(true) // the lease is exercised: the member beats
	defer r.b.draining.Store(false)
	if err := r.b.poller.Suspend(ctx); err != nil {
		r.b.log.Warn().Err(err).Msg("polling not suspended in time")
	}
	r.setRole(lock.RoleLeaving, t.number)
	r.drain(r.told.Add(drainWithin), func() bool {
		return t.hub.HasHeirs() || r.nothingInHand() && t.hub.Idle() || errors.Is(r.b.checkLeads(ctx), errNotLeading)
	})
	if _, err := r.b.poller.Stop(ctx); err != nil {
		r.b.log.Warn().Err(err).Msg("lease not released")
	}
	r.endTerm("")
}

// toldToStop notes the instant from which the times of a stop count.
func (r *role) toldToStop() {
	if !r.told.IsZero() {
		return
	}
	r.told = time.Now()
	running, unconfirmed := r.b.worker.InHand()
	r.b.log.Info().Int("in_hand", running+unconfirmed).Msg("stopping")
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
	r.toldToStop()
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

// leadWithin is until when a leaving member begins to lead: to take a journal
// over takes time, too.
const leadWithin = 4 * time.Second

// sayGoodbye joins leaders as a leaving member until ctx ends. Told is closed
// at the first welcome, or when nobody is there to be told. Where all are told
// to stop at once a leader may have gone, trusting in heirs that had not been
// told yet, or hang: a member that has something in hand and nobody to tell of
// it then leads itself, as one without heirs that stops, and takes in the
// outcomes of all.
func (r *role) sayGoodbye(ctx context.Context, told chan struct{}) {
	tell := sync.OnceFunc(func() { close(told) })
	defer tell()
	patience := time.Now().Add(heirPatience)
	for ctx.Err() == nil {
		if state, e, err := r.b.lease.State(); err == nil {
			p := decide(situation{self: r.self, present: e, judged: state})
			switch {
			case p.join:
				_ = r.b.followUntilLost(ctx, e, func(bus.Message) { tell() })
				patience = time.Now().Add(heirPatience)
			case r.othersPresent() && time.Now().Before(patience):
			case r.nothingInHand(), time.Since(r.told) >= leadWithin:
				tell()
			default:
				_, _ = r.lead(ctx, p) // it is tried again
			}
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
