package bus

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// step applies an event and carries out what was decided.
func (h *Hub) step(e event) {
	e.apply(h.dispatch, h.now())
	var plain, durable, rest []Action
	for _, a := range h.dispatch.Take() {
		switch a.Kind {
		case Finish:
			durable = append(durable, a)
		case Assign, Adopt, TakeBack:
			plain = append(plain, a)
		default:
			rest = append(rest, a)
		}
	}
	// An outcome is written before the next delivery of its lane is assigned, so
	// that no takeover finds the second begun and the first not finished. Only
	// what follows from the outcome waits for the disk.
	after := h.effect(rest, e.recorded)
	switch {
	case len(durable) > 0:
		h.o.Store.Record(durable, true, h.writes.begin(after))
	case e.settles:
		h.writes.after(after)
	default:
		after(nil)
	}
	if len(plain) > 0 {
		effect := h.effect(plain, nil)
		h.o.Store.Record(plain, false, func(err error) {
			if err != nil {
				h.writes.fail(err)
			}
			effect(err)
		})
	}
}

// effect returns what happens once the records are written. It runs on the
// store's goroutine, or the hub's, and does not block.
func (h *Hub) effect(actions []Action, recorded func(error)) func(error) {
	// Streams are looked up now: an assignment belongs to the stream for which
	// it was decided, not to a later one of the same member.
	targets := make([]*stream, len(actions))
	for i, a := range actions {
		targets[i] = h.streams[a.Member]
	}
	return func(err error) {
		if err == nil {
			for i, a := range actions {
				h.carryOut(a, targets[i])
			}
		}
		if recorded != nil {
			recorded(err)
		}
	}
}

// carryOut does what a recorded action asks for. Those that are only records
// need nothing.
func (h *Hub) carryOut(a Action, s *stream) {
	if a.Kind == Reply {
		h.spawn(func() { h.sendReply(a) })
		return
	}
	if s == nil { // the member has no stream any more
		return
	}
	switch a.Kind {
	case Assign:
		s.push(outgoing{seq: a.Item.Seq, msg: Message{
			Type: MsgUpdate, Delivery: a.Item.ID, Attempt: a.Item.Attempt, Lane: a.Item.Lane,
		}})
	case Supersede:
		s.push(outgoing{msg: Message{Type: MsgSupersede, Delivery: a.Item.ID, Attempt: a.Item.Attempt}})
	case CloseStream:
		s.drop()
	}
}

// replyAgainAfter is how long a reply waits whose sending failed.
const replyAgainAfter = time.Second

func (h *Hub) sendReply(a Action) {
	select {
	case h.sendCh <- struct{}{}:
		defer func() { <-h.sendCh }()
	case <-h.ctx.Done():
		return
	}
	for {
		err := h.o.SendReply(h.ctx, a.Item)
		if err == nil {
			break
		}
		if h.ctx.Err() != nil {
			// The delivery stays as it is: the successor sends what is left.
			h.o.Logger.Debug().Err(err).Str("delivery", a.Item.ID).Msg("reply left to the successor")
			return
		}
		level := zerolog.WarnLevel
		if errors.Is(err, ErrNotBegun) { // whoever waited for Telegram has told why
			level = zerolog.DebugLevel
		}
		h.o.Logger.WithLevel(level).Err(err).Str("delivery", a.Item.ID).Dur("delay", replyAgainAfter).Msg("reply not sent; trying again")
		_ = pause(h.ctx, replyAgainAfter)
	}
	h.tell(func(d *Dispatcher, now Now) { d.ReplyDone(now, a.Item.ID) })
}

// ledger knows the durable records under way. Nobody may be told that something
// is settled while the record that settled it can still be lost: a member that
// repeats an acknowledgement would forget an outcome that no leader has.
type ledger struct {
	failed chan struct{} // closed when err is set

	mu    sync.Mutex // guards what follows; held for no I/O
	queue []*write   // under way, oldest first
	err   error      // of the first record that failed
}

// write is a durable record.
type write struct {
	finished bool
	waiting  []func(error) // called when it and all before it are finished
}

// begin notes a durable record and returns what is to be called with its
// outcome. f follows when it and all before it are on disk.
func (l *ledger) begin(f func(error)) func(error) {
	w := &write{waiting: []func(error){f}}
	l.mu.Lock()
	l.queue = append(l.queue, w)
	l.mu.Unlock()
	return func(err error) { l.finish(w, err) }
}

// after calls f when all that began before is on disk, at once if it is.
func (l *ledger) after(f func(error)) {
	l.mu.Lock()
	if n := len(l.queue); n > 0 {
		l.queue[n-1].waiting = append(l.queue[n-1].waiting, f)
		l.mu.Unlock()
		return
	}
	err := l.err
	l.mu.Unlock()
	f(err)
}

func (l *ledger) finish(w *write, err error) {
	if err != nil {
		l.fail(err)
	}
	var due []func(error)
	l.mu.Lock()
	w.finished = true
	for len(l.queue) > 0 && l.queue[0].finished {
		due = append(due, l.queue[0].waiting...)
		l.queue[0] = nil
		l.queue = l.queue[1:]
	}
	err = l.err
	l.mu.Unlock()
	for _, f := range due {
		f(err)
	}
}

// fail notes that a record failed: nothing is settled from then on.
func (l *ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = fmt.Errorf("record decision: %w", err)
		close(l.failed)
	}
}

func (l *ledger) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
