package botapitest

import (
	"context"
	"time"
)

const (
	maxPollTimeout = 50 // seconds

	// conflictPause is how long after a conflict was answered further ones
	// are answered late, and by how much.
	conflictPause = 3 * time.Second

	// A poll that waits is answered this long after the last update came,
	// but at most gatherMost after the first.
	gather     = time.Millisecond
	gatherMost = 2 * time.Millisecond

	terminatedByPoll = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
	terminatedByHook = "Conflict: terminated by setWebhook request"
	webhookIsActive  = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
)

// poll is a getUpdates that waits.
type poll struct {
	arrived chan struct{} // has a value once an update came
	ended   chan ending   // gets the reason of whoever ends the poll
	offset  int64
	limit   int
}

// ending is why a poll ended before its time: a conflict of this text, or else
// an answer made elsewhere.
type ending struct {
	conflict string
	answer   Answer
}

// repeat remembers the last poll's offset and time.
type repeat struct {
	offset int64
	at     time.Time
}

// getUpdates answers at once if updates wait or no time-out is given, else it
// takes the place of the poll that waits, if one does.
func getUpdates(b *Bot, c *call) (Answer, *refusal) {
	b.mu.Lock()
	if b.webhook.url != "" {
		b.mu.Unlock()
		return b.conflict(c, webhookIsActive)
	}
	p := &poll{
		arrived: make(chan struct{}, 1), ended: make(chan ending, 1),
		offset: int64(int32(c.args.number("offset"))),
		limit:  int(c.args.clamped("limit", maxPoll, 1, maxPoll)),
	}
	timeout := time.Duration(c.args.clamped("timeout", 0, 0, maxPollTimeout)) * time.Second
	if filter, ok := parseKinds(c.args.text("allowed_updates")); ok {
		b.allowed = filter
	}
	timeout = b.slowRepeats(p, timeout)
	batch := b.takeFor(c, p)
	if len(batch) > 0 || timeout == 0 {
		defer b.mu.Unlock()
		return b.hand(c, batch), nil
	}
	b.endPoll(ending{conflict: terminatedByPoll})
	b.waiting = p
	b.mu.Unlock()
	return b.wait(c, p, timeout)
}

// slowRepeats is the server's defence against clients that ask the same again
// and again; b.mu is held. It may lower p.limit and returns the time-out.
func (b *Bot) slowRepeats(p *poll, timeout time.Duration) time.Duration {
	now := time.Now()
	if p.offset == b.repeat.offset && !b.repeat.at.IsZero() {
		since := now.Sub(b.repeat.at)
		if since < 3*time.Second && timeout < 3*time.Second && b.limited() {
			timeout = 3 * time.Second
		}
		if since < 500*time.Millisecond {
			p.limit = 1
		}
	}
	b.repeat = repeat{offset: p.offset, at: now}
	return timeout
}

// takeFor confirms and takes updates for a poll; b.mu is held.
func (b *Bot) takeFor(c *call, p *poll) []pending {
	batch, confirmed, expired := b.queue.take(p.offset, p.limit, time.Now())
	if len(confirmed) > 0 {
		c.record(Event{Kind: EventConfirmed, Offset: p.offset, Updates: confirmed})
	}
	b.recordExpired(expired)
	return batch
}

func (b *Bot) recordExpired(ids []int64) {
	if len(ids) > 0 {
		b.ledger.add(Event{Kind: EventExpired, Bot: b.id, Updates: ids})
	}
}

// hand prints the answer of a poll.
func (b *Bot) hand(c *call, batch []pending) Answer {
	if len(batch) == 0 {
		return success([]byte("[]"), "")
	}
	size := 2
	ids := make([]int64, len(batch))
	for i, p := range batch {
		ids[i] = p.id
		size += len(p.raw) + 1
	}
	result := append(make([]byte, 0, size), '[')
	for i, p := range batch {
		if i > 0 {
			result = append(result, ',')
		}
		result = append(result, p.raw...)
	}
	c.record(Event{Kind: EventHanded, Updates: ids})
	return success(append(result, ']'), "")
}

// endPoll ends the poll that waits, if one does; b.mu is held.
func (b *Bot) endPoll(e ending) {
	if b.waiting != nil {
		b.waiting.ended <- e
		b.waiting = nil
	}
}

// wake tells the poll that waits of a new update; b.mu is held.
func (b *Bot) wake() {
	if b.waiting != nil {
		select {
		case b.waiting.arrived <- struct{}{}:
		default:
		}
	}
}

// wait is the rest of a getUpdates that found nothing.
func (b *Bot) wait(c *call, p *poll, timeout time.Duration) (Answer, *refusal) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var latest time.Time // the answer waits for more updates until then
	for {
		select {
		case <-p.arrived:
			now := time.Now()
			if latest.IsZero() {
				latest = now.Add(gatherMost)
			}
			timer.Reset(min(gather, latest.Sub(now)))
		case <-timer.C:
			b.mu.Lock()
			if b.waiting == p {
				defer b.mu.Unlock()
				b.waiting = nil
				return b.hand(c, b.takeFor(c, p)), nil
			}
			b.mu.Unlock() // ended in this instant
			return b.ended(c, <-p.ended)
		case e := <-p.ended:
			return b.ended(c, e)
		case <-c.ctx.Done():
			b.leave(p)
			c.server.faults.disconnected(b.id)
			return Answer{}, nil
		case <-b.closing:
			b.leave(p)
			return Answer{}, nil
		}
	}
}

func (b *Bot) leave(p *poll) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == p {
		b.waiting = nil
	}
}

func (b *Bot) ended(c *call, e ending) (Answer, *refusal) {
	if e.conflict != "" {
		return b.conflict(c, e.conflict)
	}
	return e.answer, nil
}

// conflict answers 409, three seconds late if the last one was less than that
// ago.
func (b *Bot) conflict(c *call, description string) (Answer, *refusal) {
	b.mu.Lock()
	now := time.Now()
	late := now.Before(b.conflictAt)
	if !late {
		b.conflictAt = now.Add(conflictPause)
	}
	b.mu.Unlock()
	if late {
		c.pause(conflictPause)
	}
	return Answer{}, &refusal{code: 409, description: description}
}

// pause waits for d, less if the client or the server goes.
func (c *call) pause(d time.Duration) {
	ctx, cancel := context.WithTimeout(c.ctx, d)
	defer cancel()
	select {
	case <-ctx.Done():
	case <-c.server.closing:
	}
}
