package bus

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// How much of what is to be told goes into one request, in bytes; the wire takes
// more than the sum of what belongs to one.
const (
	joinAcks  = MaxJoin / 4
	joinCalls = MaxJoin / 4
	ackAcks   = MaxAck / 4
	ackCalls  = MaxResult + MaxAck/8
)

// joinRequest names all that is in hand. The old stream is closed by now, so
// nothing can be added to it. What is finished and has no room is named as in
// hand, or in flight: it is told by acknowledgements soon after.
func (w *Worker) joinRequest() JoinRequest {
	j := JoinRequest{
		Instance: w.o.Instance, PID: w.o.PID, Host: w.o.Host, Version: w.o.Version,
		HighestTerm: w.o.HighestTerm(), Concurrency: w.o.Concurrency, Settings: w.o.Settings,
	}
	calls, _ := w.o.Calls.States()
	room := joinCalls
	for _, c := range calls {
		if room -= c.size(); room < 0 {
			c.Result = nil
		}
		j.Calls = append(j.Calls, c)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	j.Name, j.Leaving = w.name, w.leaving
	for held := range w.hand {
		j.InHand = append(j.InHand, held)
	}
	acks := w.unconfirmed()
	n := fit(acks, joinAcks, Ack.size)
	j.Finished = acks[:n]
	for _, a := range acks[n:] {
		j.InHand = append(j.InHand, Held{Delivery: a.Delivery, Attempt: a.Attempt})
	}
	slices.SortFunc(j.InHand, func(a, b Held) int {
		return cmp.Or(cmp.Compare(a.Delivery, b.Delivery), cmp.Compare(a.Attempt, b.Attempt))
	})
	return j
}

// unconfirmed returns the finished outcomes in a fixed order.
func (w *Worker) unconfirmed() []Ack {
	out := make([]Ack, 0, len(w.finished))
	for _, a := range w.finished {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b Ack) int {
		return cmp.Or(cmp.Compare(a.Delivery, b.Delivery), cmp.Compare(a.Attempt, b.Attempt))
	})
	return out
}

// fit returns how many of the items go into so many bytes, at least one.
func fit[T any](items []T, room int, size func(T) int) int {
	for i, it := range items {
		if room -= size(it); room < 0 {
			return max(i, 1)
		}
	}
	return len(items)
}

// size is what an acknowledgement takes in a request, at most: texts grow by
// escapes.
func (a Ack) size() int {
	return 200 + 6*len(a.Delivery) + 6*len(a.Outcome.Error) + len(a.Outcome.Reply)
}

// size is what a call takes in a request, at most.
func (s CallState) size() int {
	n := 100 + len(s.Request)
	if s.Result != nil {
		n += len(s.Result.Body)
	}
	return n
}

// sendAcks tells the leader what is finished, as long as the session lasts: what
// came together in one request, one request at a time. It returns when ctx ends,
// or why the leader no longer takes them, once the stream, which has more to say
// (who the heir is), had time to end by itself.
func (w *Worker) sendAcks(ctx context.Context, s *session) error {
	for {
		w.mu.Lock()
		acks, changed := w.unconfirmed(), w.changed
		w.mu.Unlock()
		calls, callsChanged := w.o.Calls.States()
		calls = slices.DeleteFunc(calls, func(c CallState) bool { return !c.ended() })
		if len(acks) == 0 && len(calls) == 0 {
			select {
			case <-changed:
			case <-callsChanged:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		acks = acks[:fit(acks, ackAcks, Ack.size)]
		calls = calls[:fit(calls, ackCalls, CallState.size)]
		_, err := s.client.Ack(ctx, s.registration, AckRequest{Acks: acks, Calls: calls})
		switch {
		case err == nil:
			w.o.Calls.Told(calls)
			w.mu.Lock()
			w.settle(acks)
			w.mu.Unlock()
		case IsRefused(err, CodeBusy):
			if err := pause(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		default: // the next join names them again
			w.o.Logger.Debug().Err(err).Msg("acknowledgements not taken")
			return cmp.Or(pause(ctx, 100*time.Millisecond), err)
		}
	}
}
