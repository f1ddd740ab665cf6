package polling

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tgbridge/lock"
)

// A Poller polls Telegram while, and only while, it holds the lease. It may
// lead any number of times, one leadership after another. All methods may be
// called concurrently.
//
// After a Start or AutoStart the Poller runs goroutines until Stop, or until
// Done is closed.
type Poller struct {
	o     Options
	board *board

	// proven remembers that the token was accepted once.
	proven atomic.Bool

	// operation is held (one element in it) by the start or stop in progress;
	// taken before mu.
	operation chan struct{}

	mu        sync.Mutex // guards the rest; taken before a leadership's mu
	pending   map[*attempt]struct{}
	lead      *leadership // the present or last one
	candidate *lock.Entry // who was met at the last refused start
	following bool        // registered by Registrar
	standing  bool        // the lease may stand in our name, unexercised
	releasing *background
}

// New returns a Poller that does nothing yet. The error names every option
// that makes no sense.
func New(o Options) (*Poller, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Poller{
		o:         o,
		board:     &board{logger: o.Logger, told: map[fault]time.Time{}},
		operation: make(chan struct{}, 1),
		pending:   map[*attempt]struct{}{},
	}, nil
}

// Done returns a channel that is closed when the present leadership, or the
// last one, has ended and its step-down is done: then it polls no more and
// holds nothing but what Progress calls unexercised. It is nil before the
// first leadership. Get it anew after each Start.
func (p *Poller) Done() <-chan struct{} {
	if l := p.leadership(); l != nil {
		return l.ended
	}
	return nil
}

// Cause says why the present leadership, or the last one, was ended: one of
// this package's errors, wrapped with details. It is nil while the leadership
// has not been told to end, and before the first.
func (p *Poller) Cause() error {
	if l := p.leadership(); l != nil {
		return l.cause()
	}
	return nil
}

// Progress is what the member's beat is to be decided by. It never blocks for
// long.
func (p *Poller) Progress() Progress {
	p.mu.Lock()
	l, standing := p.lead, p.standing
	p.mu.Unlock()
	if l != nil && !isClosed(l.ended) {
		return l.currentProgress()
	}
	return Progress{Unexercised: standing}
}

// State is a snapshot for people.
func (p *Poller) State() Status {
	return p.board.snapshot(p.Progress(), time.Now())
}

// MaySend verifies that this member may send directly, that is without a
// delivery and not through the leader (P11): a leadership is under way, and a
// fresh read shows its lease. It is asked right before the request is written.
// ErrNotLeading means that the send has to go through the leader; another
// error is no answer, and nothing may be sent.
func (p *Poller) MaySend() error {
	l := p.leadership()
	if l == nil || l.ctx.Err() != nil {
		return ErrNotLeading
	}
	at := time.Now()
	owned, err := p.o.Lock.Owns()
	if err != nil {
		return fmt.Errorf("verify the lease: %w", err)
	}
	if !owned {
		l.end(order{cause: ErrLost, how: byLoss})
		return ErrNotLeading
	}
	l.checked(at)
	if l.ctx.Err() != nil {
		return ErrNotLeading
	}
	return nil
}

// leadership is the present or last one, or nil.
func (p *Poller) leadership() *leadership {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lead
}

// setStanding records whether the lease may stand in our name unexercised.
func (p *Poller) setStanding(standing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.standing = standing
}

// tokenProven reports whether any request ever succeeded.
func (p *Poller) tokenProven() bool {
	return p.proven.Load() || (p.o.TokenProven != nil && p.o.TokenProven())
}

// proveToken records that a request succeeded.
func (p *Poller) proveToken() {
	if !p.proven.Swap(true) && p.o.SetTokenProven != nil {
		p.o.SetTokenProven()
	}
}

// An attempt is a start that is waiting or in progress.
type attempt struct {
	cancel context.CancelCauseFunc
	auto   bool
}

// enter announces a start, which supersedes pending auto-starts, and waits for
// the operation in progress. The context that it returns ends, with the cause,
// when a stop or something newer ends the start. leave must be called.
func (p *Poller) enter(ctx context.Context, auto bool) (_ context.Context, leave func(), _ error) {
	ctx, cancel := context.WithCancelCause(ctx)
	a := &attempt{cancel: cancel, auto: auto}
	p.mu.Lock()
	for other := range p.pending {
		if other.auto {
			other.cancel(errSuperseded)
		}
	}
	p.pending[a] = struct{}{}
	p.mu.Unlock()
	withdraw := func() {
		p.mu.Lock()
		delete(p.pending, a)
		p.mu.Unlock()
		cancel(nil)
	}
	select {
	case p.operation <- struct{}{}:
		return ctx, func() { withdraw(); <-p.operation }, nil
	case <-ctx.Done():
		cause := context.Cause(ctx)
		withdraw()
		return nil, nil, cause
	}
}

// cancelPending ends all pending starts; auto-starts silently.
func (p *Poller) cancelPending(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for a := range p.pending {
		a.cancel(cause)
	}
}
