package polling

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tgbridge/lock"
)

// A leadership is the time from one acquisition of the lease to the end of its
// step-down. It owns three goroutines and those they start:
//
//   - watch: verifies ownership and progress, and runs the step-down. Its end
//     is the leadership's.
//   - the poll loop (loop.go), and at most one job of it: a request or a
//     commit, inside the gate. A dropped request may linger beside it.
//   - a refresh, at most one, on behalf of watch.
//
// Whoever finds a reason calls end; the first reason counts.
//
// Its states follow one another, and none comes back:
//
//	state     begins with     gate  context                      lease is verified
//	starting  newLeadership   open  lives                        yes
//	leading   begin closed    open  lives                        yes
//	leaving   ending closed   shut  lives until BeforeRelease    until then
//	                                has returned
//	ended     ended closed    shut  ended                        no
//
// In a start that fails, and where others may lead already (a loss, a passed
// deadline), the context ends as soon as leaving begins; after a loss nothing is
// verified or released.
type leadership struct {
	p      *Poller
	won    lock.Result
	ctx    context.Context // leadership: may act as the leader
	cancel context.CancelCauseFunc
	gate   *gate
	// unwatched is set when ownership need not be verified any more: the lease
	// is lost, or about to be released or kept on purpose.
	unwatched atomic.Bool

	begin    chan struct{} // closed when polling may begin
	prepared chan struct{} // closed when OnAcquired has returned, or never will be called
	ending   chan struct{} // closed by the first end
	looped   chan struct{} // closed when the poll loop has returned
	ended    chan struct{} // closed when the step-down is done
	left     StopResult    // what it released; read once ended is closed

	mu       sync.Mutex // guards the rest; gate and board may be taken inside
	progress Progress
	job      uint64 // whose phase and result count; rises with every new thing the loop does
	order    *order // the first end
	lost     bool   // the lease was seen to be another's, in or before the step-down
	ready    bool   // OnAcquired has succeeded
}

// An order says why and how a leadership ends.
type order struct {
	cause error
	how   manner
	ctx   context.Context // bounds BeforeRelease; nil: own bounds
}

// A manner is a way of stepping down.
type manner int

const (
	byStop     manner = iota // release, errors go to the one who asked
	bySuspend                // keep the lease
	byItself                 // release, and go on trying if that fails
	byDeadline               // as byItself, but at once: others may take over any moment
	byLoss                   // nothing to release
)

// sudden manners end the leadership's context before anything else.
func (m manner) sudden() bool { return m == byDeadline || m == byLoss }

// newLeadership starts a leadership's goroutines. The caller goes on with
// prepare.
func newLeadership(ctx context.Context, p *Poller, won lock.Result) *leadership {
	now := time.Now()
	l := &leadership{
		p: p, won: won,
		begin: make(chan struct{}), prepared: make(chan struct{}), ending: make(chan struct{}),
		looped: make(chan struct{}), ended: make(chan struct{}),
		progress: Progress{
			Leading: true, Phase: PhaseStarting, Since: now, Pass: now, Checked: now,
			Deadline: p.o.ownDeadline(),
		},
	}
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	l.gate = newGate(l.ctx)
	p.board.begin(won.Term)
	go l.watch()
	go newLoop(l).run()
	return l
}

// prepare verifies the lease and lets the owner of the Poller prepare (P2).
func (l *leadership) prepare(ctx context.Context) error {
	at := time.Now()
	owned, err := l.p.o.Lock.Refresh(ctx)
	switch {
	case err != nil:
		l.markPrepared(false)
		return fmt.Errorf("verify the lease: %w", err)
	case !owned:
		l.markPrepared(false)
		l.end(order{cause: ErrLost, how: byLoss})
		return ErrLost
	}
	l.checked(at)
	if err = l.p.o.OnAcquired(l.ctx, l.won); err != nil {
		err = fmt.Errorf("prepare to lead: %w", err)
	}
	l.markPrepared(err == nil)
	return err
}

// markPrepared tells that OnAcquired is over.
func (l *leadership) markPrepared(ready bool) {
	l.mu.Lock()
	l.ready = ready
	l.mu.Unlock()
	close(l.prepared)
}

// beginPolling opens the loop, unless the leadership has ended.
func (l *leadership) beginPolling() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.order != nil {
		return false
	}
	close(l.begin)
	return true
}

// end ends the leadership: from its return on nothing new begins, whatever any
// goroutine of the leadership is at. It does not wait for what has begun; the
// channel ended does. Only the first call counts, except that a loss or a
// passed deadline always ends the leadership's context at once.
func (l *leadership) end(o order) {
	l.mu.Lock()
	first := l.order == nil
	if first {
		l.order = &o
	}
	switch o.how {
	case byLoss:
		l.lost = true
		l.unwatched.Store(true)
		l.progress.Leading = false
	case byDeadline:
		l.progress.Unexercised = true
	default:
		if first {
			l.setPhase(PhaseLeaving, 0)
		}
	}
	unprepared := !isClosed(l.prepared)
	l.mu.Unlock()
	if first {
		l.gate.shut(o.cause)
	}
	if o.how.sudden() || (first && unprepared) {
		l.cancel(o.cause)
	}
	if first {
		close(l.ending)
	}
}

// watch is the ownership watcher (P7): it never blocks, so that the own
// deadline holds whatever hangs.
func (l *leadership) watch() {
	defer close(l.ended)
	tick := time.NewTicker(passEvery)
	defer tick.Stop()
	var (
		refreshes  = make(chan refresh, 1)
		refreshing bool
		last       = time.Now()
		ending     = l.ending
		down       chan struct{}
	)
	for {
		select {
		case <-ending:
			ending, down = nil, make(chan struct{})
			go func() {
				defer close(down)
				l.stepDown()
			}()
		case <-down:
			if refreshing {
				select {
				case <-refreshes:
				case <-time.After(closeWait):
				}
			}
			return
		case r := <-refreshes:
			refreshing = false
			l.judge(r)
		case <-tick.C:
			now := time.Now()
			l.judgeProgress(now)
			if refreshing || l.unwatched.Load() || now.Sub(last) < l.p.o.OwnershipCheck {
				continue
			}
			refreshing, last = true, now
			go func() {
				owned, err := l.p.o.Lock.Refresh(l.ctx)
				refreshes <- refresh{at: now, owned: owned, err: err}
			}()
		}
	}
}

// A refresh is the result of one, begun at the given time.
type refresh struct {
	at    time.Time
	owned bool
	err   error
}

// judge draws the conclusion from a refresh.
func (l *leadership) judge(r refresh) {
	switch {
	case l.unwatched.Load() || l.ctx.Err() != nil: // late: of no meaning any more
	case r.err != nil:
		l.p.board.failed(ownership, r.err, l.p.o.OwnershipCheck)
	case r.owned:
		l.checked(r.at)
	default:
		l.end(order{cause: ErrLost, how: byLoss})
	}
}

// judgeProgress steps down if the own deadline has passed.
func (l *leadership) judgeProgress(now time.Time) {
	if l.unwatched.Load() {
		return
	}
	if err := l.currentProgress().overdue(now); err != nil {
		l.end(order{cause: err, how: byDeadline})
	}
}

// checked records a successful check of ownership that began at the given
// time.
func (l *leadership) checked(at time.Time) {
	l.mu.Lock()
	if at.After(l.progress.Checked) {
		l.progress.Checked = at
	}
	l.mu.Unlock()
	l.p.board.resolved(ownership)
}

// pass stamps a pass of the poll loop.
func (l *leadership) pass() {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.progress.Pass = now
}

// startPhase is called by the loop for every new thing that it does, and
// returns a number for it: results of earlier ones do not count any more.
func (l *leadership) startPhase(phase Phase, limit time.Duration) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.job++
	if l.order == nil {
		l.setPhase(phase, limit)
	}
	return l.job
}

// jobPhase is called by a job that gets on to its next phase; it has no effect
// once the loop has turned to something else.
func (l *leadership) jobPhase(job uint64, phase Phase, limit time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.job == job && l.order == nil {
		l.setPhase(phase, limit)
	}
}

// setPhase records a phase. The caller holds mu.
func (l *leadership) setPhase(phase Phase, limit time.Duration) {
	l.progress.Phase, l.progress.Limit, l.progress.Since = phase, limit, time.Now()
}

// currentProgress is a copy of the progress.
func (l *leadership) currentProgress() Progress {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.progress
}

// cause is why the leadership ended, nil while it has not been told to.
func (l *leadership) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.order == nil {
		return nil
	}
	return l.order.cause
}

// live reports whether the leadership has not been told to end.
func (l *leadership) live() bool { return !isClosed(l.ending) }

// isClosed reports whether a channel that only ever is closed has been.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
