package polling

import (
	"context"
	"fmt"
)

// Stop ends polling and gives the lease back (P8): the registration as a
// follower ends, pending starts end (auto-starts silently, others with
// ErrStopped), polling ends in the order of a voluntary step-down, then the
// lease is released. A step-down in progress is waited for (P7). The result
// tells what was found. Stopping twice, or what does not run, is no error.
//
// ctx bounds the wait, and BeforeRelease. If it ends first, so does Stop, with
// its error; nothing new begins nevertheless, and the step-down goes on.
// Another error means that the lease could not be released: the member does
// not lead, Progress says that it must not beat, and Stop may be called again.
func (p *Poller) Stop(ctx context.Context) (StopResult, error) {
	result, err := p.halt(ctx, order{cause: ErrStopped, how: byStop, ctx: ctx})
	if err != nil {
		return StopResult{}, fmt.Errorf("stop polling: %w", err)
	}
	return result, nil
}

// Suspend ends polling as Stop does, but leaves the lease (P9), so that a
// restart of the same session resumes it under the same term. Until then the
// member does not exercise the lease, and Progress says that it must not beat:
// others take over after stale-after.
func (p *Poller) Suspend(ctx context.Context) error {
	if _, err := p.halt(ctx, order{cause: ErrSuspended, how: bySuspend, ctx: ctx}); err != nil {
		return fmt.Errorf("suspend polling: %w", err)
	}
	return nil
}

// halt is Stop and Suspend.
func (p *Poller) halt(ctx context.Context, o order) (StopResult, error) {
	earlier := p.leadership()
	if earlier != nil && !isClosed(earlier.ended) {
		earlier = nil
	}
	p.unfollow()
	p.cancelPending(o.cause)
	select {
	case p.operation <- struct{}{}:
	case <-ctx.Done():
		return StopResult{}, ctx.Err()
	}
	defer func() { <-p.operation }()
	p.unfollow() // what a pending start has registered

	l := p.leadership()
	if l != nil {
		l.end(o)
		select {
		case <-l.ended:
		case <-ctx.Done():
			return StopResult{}, ctx.Err()
		}
	}
	p.endReleasing()
	if o.how == bySuspend {
		return StopResult{}, nil
	}
	if l != nil && l != earlier && l.left.Released {
		return l.left, nil // by the step-down that this stop began or waited for
	}
	result, err := p.release(ctx)
	p.setStanding(err != nil)
	return result, err
}

// unfollow ends the registration as a follower, if there is one.
func (p *Poller) unfollow() {
	p.mu.Lock()
	following := p.following
	p.following = false
	p.mu.Unlock()
	if following {
		p.o.Registrar.Unfollow()
	}
}
