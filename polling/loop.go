package polling

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// checkRetry is how soon a check of ownership that could not be made is tried
// again.
const checkRetry = 100 * time.Millisecond

// deleteTimeout is for how long deleteWebhook is waited for.
const deleteTimeout = 15 * time.Second

// A loop is the poll loop of one leadership: one goroutine that never blocks.
// Requests and commits are jobs, goroutines inside the gate; the loop starts
// at most one at a time, selects on its result, on what it waits for and on a
// tick, and stamps each pass. Results of jobs that it has turned away from are
// dropped (S12).
type loop struct {
	l      *leadership
	p      *Poller
	course course

	results chan result
	job     uint64                  // whose result counts
	drop    context.CancelCauseFunc // ends the present request

	// What is waited for; nil: nothing.
	wake <-chan time.Time // then next is performed
	room <-chan struct{}  // then polling goes on
	next action

	// An answer on its way to the sink, and what follows it.
	batch   batch
	asked   Request
	confirm bool // tell the sink of the confirmation first
	then    action

	brought map[stamp]bool // what the last answer with updates held
}

// A result is what a job brings back.
type result struct {
	job  uint64
	kind resultKind
	err  error
	// Of an answer:
	asked Request
	batch batch
	took  time.Duration
}

type resultKind int

const (
	anAnswer resultKind = iota
	aDeletion
	aCommit
)

func newLoop(l *leadership) *loop {
	return &loop{l: l, p: l.p, results: make(chan result)}
}

// run is the loop's goroutine. It returns once the gate is shut.
func (lp *loop) run() {
	defer close(lp.l.looped)
	tick := time.NewTicker(passEvery)
	defer tick.Stop()
	begin := lp.l.begin
	for lp.l.gate.open() {
		lp.l.pass()
		select {
		case <-lp.l.gate.ctx.Done():
		case <-begin:
			begin = nil
			lp.perform(action{verb: doPoll})
		case <-tick.C:
			lp.dropLate()
		case r := <-lp.results:
			if r.job == lp.job {
				lp.take(r)
			}
		case <-lp.wake:
			lp.wake = nil
			lp.perform(lp.next)
		case <-lp.room:
			lp.room = nil
			lp.poll()
		}
	}
}

// do performs an action after its wait.
func (lp *loop) do(a action) {
	if a.wait <= 0 {
		lp.perform(a)
		return
	}
	lp.job = lp.l.startPhase(PhaseWaiting, 0)
	lp.next, lp.wake = a, time.After(a.wait)
}

// perform performs an action now.
func (lp *loop) perform(a action) {
	switch a.verb {
	case doPoll:
		lp.poll()
	case doCommit:
		lp.settle()
	case doDeleteWebhook:
		lp.deleteWebhook()
	case doEnd:
		lp.l.end(order{cause: a.err, how: byItself})
	}
}

// take draws the conclusions from a job's result.
func (lp *loop) take(r result) {
	switch r.kind {
	case anAnswer:
		if r.err != nil {
			lp.failed(r.err, lp.course.failedPoll)
			return
		}
		lp.answered(r)
	case aDeletion:
		if r.err != nil {
			lp.failed(r.err, lp.course.deletedWebhook)
			return
		}
		lp.p.proveToken()
		var next action
		lp.course, next = lp.course.deletedWebhook(nil, lp.circumstances())
		lp.do(next)
	case aCommit:
		if r.err != nil {
			lp.failed(r.err, lp.course.failedCommit)
			return
		}
		lp.course = lp.course.committed()
		lp.p.board.resolved(diskFull)
		lp.batch = batch{}
		lp.do(lp.then)
	}
}

// failed decides by one of the course's methods, tells the failure and acts.
func (lp *loop) failed(err error, decide func(error, circumstances) (course, action)) {
	var next action
	lp.course, next = decide(err, lp.circumstances())
	if next.verb != doEnd {
		lp.p.board.failed(lp.course.fault, err, next.wait)
	}
	lp.do(next)
}

// answered takes in an answer: what it confirmed and what it brought goes to
// the sink, then polling goes on.
func (lp *loop) answered(r result) {
	lp.p.proveToken()
	lp.course, lp.then = lp.course.answered(r.asked, r.batch, r.took, lp.circumstances())
	lp.p.board.answered(lp.course)
	if lp.course.fault != noFault {
		lp.p.board.failed(lp.course.fault, errAnswer(lp.course.fault, r.batch), lp.then.wait)
	}
	lp.batch, lp.asked, lp.confirm = r.batch, r.asked, r.asked.HasOffset
	lp.batch.updates, lp.brought = unseen(r.batch.updates, r.asked, lp.brought)
	if lp.confirm || len(lp.batch.updates) > 0 {
		lp.settle()
		return
	}
	lp.do(lp.then)
}

// errAnswer describes an answer that cannot be gone by.
func errAnswer(kind fault, b batch) error {
	if kind == repeated {
		return fmt.Errorf("an answer of %d updates that the same poll had confirmed: something between here and Telegram repeats answers", len(b.updates))
	}
	return fmt.Errorf("an answer with %d updates and %d elements without a readable id",
		len(b.updates), len(b.unreadable))
}

// circumstances are what decisions depend on now.
func (lp *loop) circumstances() circumstances {
	return circumstances{
		proven:        lp.p.tokenProven(),
		deleteWebhook: lp.p.o.WebhookDelete,
		jitter:        lp.p.o.Rand(),
	}
}

// poll begins a poll, or waits for room.
func (lp *loop) poll() {
	if room, full := lp.p.o.Sink.Full(); full {
		lp.job = lp.l.startPhase(PhaseFull, 0)
		lp.room = room
		return
	}
	asked := lp.course.request(lp.p.o)
	lp.request(asked.Timeout+requestGrace, func(ctx context.Context) result {
		began := time.Now()
		elements, err := lp.p.o.Source.GetUpdates(ctx, asked)
		r := result{kind: anAnswer, err: err, asked: asked, took: time.Since(began)}
		if err == nil {
			r.batch = split(elements)
		}
		return r
	})
}

// deleteWebhook begins a deletion.
func (lp *loop) deleteWebhook() {
	lp.request(deleteTimeout, func(ctx context.Context) result {
		return result{kind: aDeletion, err: lp.p.o.Source.DeleteWebhook(ctx)}
	})
}

// request starts a job that sends a request, with ownership verified right
// before; and after a conflict, which is also what a successor's poll makes of
// ours.
func (lp *loop) request(limit time.Duration, send func(ctx context.Context) result) {
	ctx, cancel := context.WithCancelCause(lp.l.gate.ctx)
	lp.drop = cancel
	lp.spawn(PhaseChecking, func(job uint64) (result, bool) {
		defer cancel(nil)
		if !lp.verify(ctx) {
			return result{}, false
		}
		lp.l.jobPhase(job, PhasePolling, limit)
		r := send(ctx)
		if kind, _ := classify(r.err); kind == conflict {
			lp.l.jobPhase(job, PhaseChecking, lp.p.o.ownDeadline())
			return r, lp.verify(ctx)
		}
		return r, true
	})
}

// errNoAnswer is how a dropped request failed.
var errNoAnswer = errors.New("no answer in time: the request was dropped, the next one makes a new connection")

// dropLate gives up a request that nobody answers (F19).
func (lp *loop) dropLate() {
	if !lp.l.currentProgress().mustDrop(time.Now()) {
		return
	}
	lp.drop(errNoAnswer)
	lp.p.o.Source.Reset()
	lp.failed(errNoAnswer, lp.course.failedPoll)
}

// settle starts a job that tells the sink what was confirmed, and commits what
// was fetched.
func (lp *loop) settle() {
	b, asked, confirm := lp.batch, lp.asked, lp.confirm
	lp.confirm = false
	lp.spawn(PhaseChecking, func(job uint64) (result, bool) {
		// The sink may still be taking over what its predecessor left: as long as
		// that takes, but nothing is late before it.
		lp.l.jobPhase(job, PhaseWaiting, 0)
		select {
		case <-lp.p.o.Sink.Ready():
		case <-lp.l.gate.ctx.Done():
			return result{}, false
		}
		lp.l.jobPhase(job, PhaseChecking, lp.p.o.ownDeadline())
		if !lp.verify(lp.l.gate.ctx) {
			return result{}, false
		}
		lp.l.jobPhase(job, PhaseCommitting, lp.p.o.ownDeadline())
		if confirm {
			lp.p.o.Sink.Confirmed(asked.Offset, b.empty())
		}
		return result{kind: aCommit, err: lp.commit(b)}, true
	})
}

// commit commits a batch that has anything which can be confirmed.
func (lp *loop) commit(b batch) error {
	if len(b.updates) == 0 {
		return nil
	}
	return lp.p.o.Sink.Commit(lp.l.ctx, b.updates, b.unreadable)
}

// spawn starts a job inside the gate, whose result comes back to the loop
// unless the job says that there is none, or the gate has been shut.
func (lp *loop) spawn(phase Phase, do func(job uint64) (result, bool)) {
	job := lp.l.startPhase(phase, lp.p.o.ownDeadline())
	lp.job = job
	if !lp.l.gate.enter() {
		return
	}
	go func() {
		r, ok := func() (result, bool) {
			defer lp.l.gate.leave()
			return do(job)
		}()
		if !ok {
			return
		}
		r.job = job
		select {
		case lp.results <- r:
		case <-lp.l.gate.ctx.Done():
		}
	}()
}

// verify verifies ownership by a fresh read, and tries again for as long as
// the read fails: that is no answer, and nothing is begun. It is false if the
// lease is lost, the gate shut or ctx done.
func (lp *loop) verify(ctx context.Context) bool {
	for {
		at := time.Now()
		owned, err := lp.p.o.Lock.Owns()
		if err == nil && !owned {
			lp.l.end(order{cause: ErrLost, how: byLoss})
			return false
		}
		if err == nil {
			lp.l.checked(at)
			return ctx.Err() == nil && lp.l.gate.open()
		}
		lp.p.board.failed(ownership, err, checkRetry)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(checkRetry):
		}
	}
}
