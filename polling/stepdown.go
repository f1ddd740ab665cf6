package polling

import (
	"context"
	"fmt"
	"time"

	"tgbridge/lock"
)

const (
	// closeWait bounds each wait of a step-down for goroutines that were told
	// to return: twice that for requests, with new connections in between.
	closeWait = 500 * time.Millisecond
	// closedFor is how long after the return of the last request a successor
	// may poll: that a client has closed does not mean that the server has
	// seen it (1 ms was enough in all of 300 runs).
	closedFor = 5 * time.Millisecond
	// urgentWait bounds BeforeRelease once the own deadline has passed.
	urgentWait = time.Second
)

// stepDown carries out the leadership's end, in this order: the last request's
// connection is closed, dispatching is stopped, the leadership's context ends,
// the lease is released. It always ends: what does not return in time is left
// behind, outside the gate that it cannot pass again (S10).
func (l *leadership) stepDown() {
	l.mu.Lock()
	o := *l.order
	l.mu.Unlock()

	// Told only at the end: a log that blocks must not hold up the release.
	closed := l.closeRequests(o)
	waitFor(l.prepared, closeWait)
	if o.how != byLoss {
		l.beforeRelease(o)
	}
	l.cancel(o.cause)
	l.unwatched.Store(true)
	l.leave(o)
	looped := waitFor(l.looped, closeWait)
	if !closed || !looped {
		l.p.o.Logger.Error().Uint64("term", l.won.Term).Bool("requests_closed", closed).Bool("loop_ended", looped).
			Msg("something of this leadership hangs and was left behind; what it brings will be dropped")
	}
	l.p.o.Logger.Info().Uint64("term", l.won.Term).Str("cause", printable(o.cause.Error())).
		Bool("released", l.left.Released).Msg("polling ended")
}

// closeRequests waits until nothing is under way any more, and reports whether
// that came about.
func (l *leadership) closeRequests(o order) bool {
	closed := waitFor(l.gate.idle, closeWait)
	if !closed {
		l.p.o.Source.Reset()
		closed = waitFor(l.gate.idle, closeWait)
	}
	if o.how != byLoss {
		time.Sleep(time.Until(l.gate.lastLeft().Add(closedFor)))
	}
	return closed
}

// beforeRelease lets the owner of the Poller stop what it began in OnAcquired.
func (l *leadership) beforeRelease(o order) {
	l.mu.Lock()
	ready := l.ready
	l.mu.Unlock()
	if !ready {
		return
	}
	ctx := o.ctx
	if ctx == nil {
		limit := l.p.o.StaleAfter
		if o.how == byDeadline {
			limit = urgentWait
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.Background(), limit)
		defer cancel()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.p.o.BeforeRelease(ctx)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// leave gives the lease back, as far as it is to be.
func (l *leadership) leave(o order) {
	var (
		left     StopResult
		err      error
		standing bool
	)
	switch o.how {
	case byLoss:
	case bySuspend:
		l.mu.Lock()
		standing = !l.lost
		l.mu.Unlock()
	default:
		// Also when nobody waits any more for the stop that asked for it.
		ctx, cancel := context.WithTimeout(context.Background(), 3*l.p.o.StaleAfter)
		left, err = l.p.release(ctx)
		cancel()
		standing = err != nil
	}
	l.left = left // read by others once ended is closed
	l.p.setStanding(standing)
	if err != nil && (o.how == byItself || o.how == byDeadline) {
		l.p.keepReleasing()
	}
}

// release makes one attempt to release the lease.
func (p *Poller) release(ctx context.Context) (StopResult, error) {
	state, released, err := p.o.Lock.Release(ctx)
	if err != nil {
		return StopResult{}, fmt.Errorf("release the lease: %w", err)
	}
	return StopResult{Released: released, State: state}, nil
}

// StopResult is what a stop found.
type StopResult struct {
	// Released says that the lease was ours and has been given back.
	Released bool
	// State of the lease as found, meaningful if not Released: nothing was
	// changed.
	State lock.State
}

// keepReleasing tries to release again at every ownership check, until that
// succeeds or a start or stop takes over (endReleasing). Meanwhile the member
// does not beat, so that others can take the lease.
func (p *Poller) keepReleasing() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	p.mu.Lock()
	p.releasing = &background{cancel: cancel, done: done}
	p.mu.Unlock()
	go func() {
		defer close(done)
		tick := time.NewTicker(p.o.OwnershipCheck)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, err := p.release(ctx); err != nil {
				p.board.failed(unreleased, err, p.o.OwnershipCheck)
				continue
			}
			p.setStanding(false)
			p.board.resolved(unreleased)
			p.o.Logger.Info().Msg("the lease was released at last")
			return
		}
	}()
}

// A background is a goroutine that can be ended and waited for.
type background struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// endReleasing ends keepReleasing and waits for it.
func (p *Poller) endReleasing() {
	p.mu.Lock()
	b := p.releasing
	p.releasing = nil
	p.mu.Unlock()
	if b != nil {
		b.cancel()
		<-b.done
	}
}

// waitFor reports whether the channel was closed within the time.
func waitFor(c <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}
