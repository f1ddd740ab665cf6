package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// job is a delivery in hand.
type job struct {
	held   Held
	cancel context.CancelCauseFunc
	done   chan struct{}  // closed when it is no longer in hand
	made   map[string]int // how often its handler made each call; guarded by Worker.mu
}

// jobKey is the key under which a handler's context holds its job.
type jobKey struct{}

// checkTerm makes sure that the registry shows the leader's term still. What came
// in before it may be begun: whoever takes over later has read the records of
// these assignments.
func (w *Worker) checkTerm(s *session) error {
	term, err := w.o.Term()
	if err != nil {
		return fmt.Errorf("read term of the registry: %w", err)
	}
	if term != s.term {
		return ErrTermPassed
	}
	return nil
}

// accept takes a delivery in hand and begins it. w.mu is held.
func (w *Worker) accept(m Message) {
	held := Held{Delivery: m.Delivery, Attempt: m.Attempt}
	if w.hand[held] != nil {
		w.o.Logger.Warn().Str("delivery", m.Delivery).Msg("delivery is in hand already")
		return
	}
	// An earlier attempt may not have noticed yet that it was superseded. This
	// one begins when that has ended, so that none runs beside another.
	var earlier []*job
	for _, j := range w.hand {
		if j.held.Delivery == m.Delivery {
			j.cancel(ErrSuperseded)
			earlier = append(earlier, j)
		}
	}
	j := &job{held: held, done: make(chan struct{}), made: map[string]int{}}
	var ctx context.Context
	ctx, j.cancel = context.WithCancelCause(context.WithValue(w.base, jobKey{}, j))
	w.hand[held] = j
	d := Delivery{ID: m.Delivery, Attempt: m.Attempt, Lane: m.Lane, Body: m.Update}
	w.jobs.Go(func() { w.work(ctx, j, d, earlier) })
	w.signal()
}

// work runs the handler and keeps its outcome until a leader has it.
func (w *Worker) work(ctx context.Context, j *job, d Delivery, earlier []*job) {
	defer j.cancel(nil)
	tooLong := fmt.Errorf("the handler's time of %v is over", w.o.HandlerTimeout)
	ctx, stop := context.WithTimeoutCause(ctx, w.o.HandlerTimeout, tooLong)
	defer stop()
	outcome := w.handle(ctx, d, earlier)
	cause := context.Cause(ctx)
	if outcome.Status == Failed {
		switch {
		case errors.Is(cause, ErrStopping):
			outcome = Outcome{Status: Returned}
		case errors.Is(cause, tooLong):
			outcome.Status = TimedOut
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.hand, j.held)
	close(j.done)
	if !errors.Is(cause, ErrSuperseded) {
		w.finished[j.held] = Ack{Delivery: d.ID, Attempt: d.Attempt, Outcome: outcome}
	}
	w.signal()
}

// handle waits for earlier attempts and runs the handler.
func (w *Worker) handle(ctx context.Context, d Delivery, earlier []*job) Outcome {
	for _, j := range earlier {
		select {
		case <-j.done:
		case <-ctx.Done():
			return Outcome{Status: Failed, Error: fmt.Sprintf("attempt %d has not ended", j.held.Attempt)}
		}
	}
	if ctx.Err() != nil {
		return Outcome{Status: Failed, Error: context.Cause(ctx).Error()}
	}
	return w.o.Handle(ctx, d).tellable()
}

// tellable returns the outcome in a form that every leader takes: one that is
// refused would be told for ever.
func (o Outcome) tellable() Outcome {
	switch {
	case !o.Status.known():
		o = Outcome{Status: Failed, Error: fmt.Sprintf("the handler's outcome has the unknown status %q", o.Status)}
	case len(o.Reply) > MaxReply:
		o = Outcome{Status: Failed, Error: fmt.Sprintf("the reply has %d bytes, the limit is %d", len(o.Reply), MaxReply)}
	case len(o.Reply) > 0 && !json.Valid(o.Reply):
		o = Outcome{Status: Failed, Error: "the reply is not JSON"}
	}
	o.Error = strings.ToValidUTF8(o.Error, "?")
	if len(o.Error) > MaxError {
		o.Error = strings.ToValidUTF8(o.Error[:MaxError], "")
	}
	return o
}

func (w *Worker) supersede(h Held) {
	if j := w.hand[h]; j != nil {
		j.cancel(ErrSuperseded)
	}
}

// settle forgets outcomes that a leader has taken, whatever its verdict.
func (w *Worker) settle(acks []Ack) {
	for _, a := range acks {
		delete(w.finished, Held{Delivery: a.Delivery, Attempt: a.Attempt})
	}
	w.signal()
}

func (w *Worker) signal() {
	close(w.changed)
	w.changed = make(chan struct{})
}
