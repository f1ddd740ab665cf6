package polling

import (
	"context"
	"errors"
	"fmt"

	"tgbridge/lock"
)

// A StartRequest says how the lease is asked for.
type StartRequest struct {
	Mode lock.Mode
	// Expected owner: of an election the one whose loss it is about, of a
	// forced start the one to take over from. A forced start without one uses
	// the owner that the last refused start met.
	Expected *lock.Entry
}

// An Outcome is what became of a start.
type Outcome string

// The outcomes of a start.
const (
	// Leading: the lease is held and polling has begun, or was under way.
	Leading Outcome = "leading"
	// Following: another leads, and this member is registered with it.
	Following Outcome = "following"
	// Refused: another leads; see Owner, Reason and Takeover.
	Refused Outcome = "refused"
	// Changed: the lease was acquired and lost again during the start. Nothing
	// was rolled back or released.
	Changed Outcome = "changed"
	// NotStarted: an auto-start found no reason to start (P10), or was
	// superseded.
	NotStarted Outcome = "not started"
)

// A StartResult is what became of a start.
type StartResult struct {
	Outcome Outcome
	// Lease is what the lock answered; the zero Result if it was not asked.
	Lease lock.Result
	// Owner is who leads, if Following or Refused. Nil if not known.
	Owner *lock.Entry
	// Reason is why the registration with Owner failed (Refused, P5).
	Reason error
	// Takeover says that a takeover, a forced start, may be offered to people.
	Takeover bool
}

// Start asks for the lease. If it gets it, it verifies it, lets OnAcquired
// prepare and begins to poll (P2); ctx bounds the start, not the leadership.
// If another holds it, it registers as a follower (P5), except in an election
// (P6). A Poller that leads already goes on, and says so (A3).
//
// Start waits for the start or stop in progress. It ends pending auto-starts,
// and is itself ended by Stop and Suspend. On an error (ErrNotAllowed,
// ErrStopped, ErrSuspended, ctx's, or one of Lock or OnAcquired) it does not
// lead, and what it had acquired has been released again; if that failed too,
// it goes on being tried, and Progress says so (P3).
func (p *Poller) Start(ctx context.Context, r StartRequest) (StartResult, error) {
	ctx, leave, err := p.enter(ctx, false)
	if err != nil {
		return StartResult{}, fmt.Errorf("start polling: %w", err)
	}
	defer leave()
	result, err := p.start(ctx, r)
	if err == nil && result.Outcome == Refused {
		result, err = p.refused(ctx, r.Mode, result)
	}
	if err != nil {
		return result, fmt.Errorf("start polling: %w", err)
	}
	return result, nil
}

// start is Start up to a refusal, with the operation held.
func (p *Poller) start(ctx context.Context, r StartRequest) (StartResult, error) {
	if err := p.o.Allowed(); err != nil {
		return StartResult{}, fmt.Errorf("%w: %w", ErrNotAllowed, err) // P1
	}
	if leads, result, err := p.goOn(ctx); leads || err != nil {
		return result, err
	}
	p.endReleasing()
	won, err := p.acquire(ctx, r)
	switch {
	case err != nil:
		err = startError(ctx, err)
		p.giveUp(errors.Is(err, ErrSuspended))
		return StartResult{}, err
	case !won.Acquired:
		p.setStanding(false)
		return StartResult{Outcome: Refused, Lease: won, Owner: won.Owner}, nil
	}
	p.mu.Lock()
	p.candidate = nil
	p.lead = newLeadership(ctx, p, won)
	l := p.lead
	p.mu.Unlock()
	return l.start(ctx)
}

// goOn reports whether a leadership is under way and still owns the lease;
// one that does not, or that is stepping down, is waited for.
func (p *Poller) goOn(ctx context.Context) (bool, StartResult, error) {
	l := p.leadership()
	if l == nil {
		return false, StartResult{}, nil
	}
	if l.live() {
		owned, err := p.o.Lock.Owns()
		if err != nil {
			return false, StartResult{}, fmt.Errorf("verify the lease: %w", err)
		}
		if owned && l.live() {
			return true, StartResult{Outcome: Leading, Lease: lock.Result{
				Acquired: true, Term: l.won.Term, State: lock.ActiveHere,
			}}, nil
		}
		if !owned {
			l.end(order{cause: ErrLost, how: byLoss})
		}
	}
	select {
	case <-l.ended:
		return false, StartResult{}, nil
	case <-ctx.Done():
		return false, StartResult{}, context.Cause(ctx)
	}
}

// acquire asks for the lease, and asks again by force if a runtime of this
// process that is closed left it behind (P2). An election never replaces a
// live owner, and a runtime of a live process is one.
func (p *Poller) acquire(ctx context.Context, r StartRequest) (lock.Result, error) {
	if r.Mode == lock.Force && r.Expected == nil {
		p.mu.Lock()
		r.Expected = p.candidate
		p.mu.Unlock()
	}
	won, err := p.ask(ctx, r.Mode, r.Expected)
	if err != nil || won.Acquired || r.Mode == lock.Election ||
		won.State != lock.ActiveHere || won.Owner == nil || !p.o.RuntimeClosed(*won.Owner) {
		return won, err
	}
	_, stands, err := p.o.Lock.State()
	if err != nil {
		return lock.Result{}, fmt.Errorf("read the lease: %w", err)
	}
	if !stands.SameOwner(*won.Owner) {
		return won, nil
	}
	return p.ask(ctx, lock.Force, won.Owner)
}

// ask asks for the lease once, and remembers who refused.
func (p *Poller) ask(ctx context.Context, mode lock.Mode, expected *lock.Entry) (lock.Result, error) {
	if ctx.Err() != nil {
		return lock.Result{}, context.Cause(ctx)
	}
	won, err := p.o.Lock.Acquire(ctx, mode, expected)
	if err != nil {
		return lock.Result{}, fmt.Errorf("acquire the lease: %w", err)
	}
	if !won.Acquired && won.Owner != nil {
		owner := *won.Owner
		p.mu.Lock()
		p.candidate = &owner
		p.mu.Unlock()
	}
	return won, nil
}

// giveUp releases what may stand in the registry although Acquire failed, or
// from before; keep leaves it, unexercised.
func (p *Poller) giveUp(keep bool) {
	if keep {
		owned, err := p.o.Lock.Owns()
		p.setStanding(owned || err != nil)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.o.StaleAfter)
	defer cancel()
	_, err := p.release(ctx)
	p.setStanding(err != nil)
	if err != nil {
		p.keepReleasing()
	}
}

// refused is what comes after the lease was refused (P5, P6).
func (p *Poller) refused(ctx context.Context, mode lock.Mode, result StartResult) (StartResult, error) {
	switch {
	case mode == lock.Election || result.Owner == nil:
		return result, nil
	case p.o.Registrar == nil:
		result.Takeover = true
		return result, nil
	}
	if err := p.o.Registrar.Follow(ctx, *result.Owner); err != nil {
		if ctx.Err() != nil {
			return result, context.Cause(ctx)
		}
		result.Reason = err
		return result, nil
	}
	p.mu.Lock()
	p.following = true
	p.mu.Unlock()
	result.Outcome = Following
	return result, nil
}

// start prepares the leadership and begins to poll. Whatever ends it before
// that ends the start, and start returns once the step-down is done (P3, P4).
func (l *leadership) start(ctx context.Context) (StartResult, error) {
	rollBack := func(cause error) {
		how := byItself
		if errors.Is(cause, ErrSuspended) {
			how = bySuspend
		}
		l.end(order{cause: cause, how: how})
	}
	stop := context.AfterFunc(ctx, func() { rollBack(context.Cause(ctx)) })
	err := l.prepare(ctx)
	if stop() && err == nil && l.beginPolling() {
		l.p.o.Logger.Info().Uint64("term", l.won.Term).Bool("replaced_stale", l.won.ReplacedStale).
			Msg("polling begins")
		return StartResult{Outcome: Leading, Lease: l.won}, nil
	}
	if err != nil {
		rollBack(startError(ctx, err))
	}
	<-l.ended
	if errors.Is(l.cause(), ErrLost) {
		return StartResult{Outcome: Changed, Lease: l.won}, nil
	}
	return StartResult{Lease: l.won}, l.cause()
}

// startError prefers the reason why a start was ended to what came of it.
func startError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// AutoStart resumes what this member or its working directory had: it starts
// only if this member owns the lease; or if a stale lease has the same working
// directory; or if another runtime of this process with no or the same working
// directory holds it, then by force with that one as the expected owner (P10).
// Else, and if it is superseded by another start, a stop or a suspend, at
// whatever step, the outcome is NotStarted without an error. It never
// registers as a follower.
func (p *Poller) AutoStart(ctx context.Context) (StartResult, error) {
	result, err := p.autoStart(ctx)
	switch {
	case errors.Is(err, errSuperseded), errors.Is(err, ErrStopped), errors.Is(err, ErrSuspended):
		return StartResult{Outcome: NotStarted}, nil
	case err != nil:
		return result, fmt.Errorf("auto-start polling: %w", err)
	}
	return result, nil
}

func (p *Poller) autoStart(ctx context.Context) (StartResult, error) {
	ctx, leave, err := p.enter(ctx, true)
	if err != nil {
		return StartResult{}, err
	}
	defer leave()
	if err := p.o.Allowed(); err != nil {
		return StartResult{}, fmt.Errorf("%w: %w", ErrNotAllowed, err)
	}
	owned, err := p.o.Lock.Owns()
	if err != nil {
		return StartResult{}, fmt.Errorf("verify the lease: %w", err)
	}
	if owned {
		return quiet(p.start(ctx, StartRequest{Mode: lock.Plain}))
	}
	state, stands, err := p.o.Lock.State()
	if err != nil {
		return StartResult{}, fmt.Errorf("read the lease: %w", err)
	}
	r := StartRequest{Expected: &stands}
	switch {
	case state == lock.Stale && stands.Cwd == p.o.Cwd:
		r.Mode = lock.Election // from exactly the stale owner (A8)
	case state == lock.ActiveHere && (stands.Cwd == "" || stands.Cwd == p.o.Cwd):
		r.Mode = lock.Force
	default:
		return StartResult{Outcome: NotStarted}, nil
	}
	return quiet(p.start(ctx, r))
}

// quiet is a refused auto-start: nothing is told and nobody followed.
func quiet(r StartResult, err error) (StartResult, error) {
	if r.Outcome == Refused {
		r.Outcome = NotStarted
	}
	return r, err
}
