package polling

import (
	"fmt"
	"time"
)

// What the poll loop decides is in this file, without goroutines, clock or
// I/O: a course is a value, an outcome goes in, the next course and one action
// come out. The loop does the actions.

// A course is what the loop knows between two actions.
type course struct {
	offset    int64 // of the next poll
	hasOffset bool
	failures  int   // in a row; what makes waits grow
	hasty     int   // empty answers in a row that came at once
	fault     fault // the last failure's kind, noFault after a success
}

// A verb is what the loop does next.
type verb int

const (
	doPoll          verb = iota
	doCommit             // the same batch again
	doDeleteWebhook      //
	doEnd                // the leadership, with err as its cause
)

// An action is the next thing to do, after a wait (0: at once).
type action struct {
	wait time.Duration
	verb verb
	err  error // of doEnd
}

// circumstances are what decisions depend on beside course and outcome.
type circumstances struct {
	proven        bool    // the token was accepted before
	deleteWebhook bool    // by configuration
	jitter        float64 // [0, 1)
}

// hastyAnswer is how soon an answer without updates is too soon: every poll
// asks for at least a second of waiting.
const hastyAnswer = 900 * time.Millisecond

// answered is the course after an answer to a poll with asked, and what to do
// once that answer is settled, that is confirmed and committed. took is how
// long Telegram let the poll wait.
func (c course) answered(asked Request, b batch, took time.Duration, s circumstances) (course, action) {
	switch {
	case b.empty():
		c.failures, c.fault = 0, noFault
		if took >= hastyAnswer {
			c.hasty = 0
			return c, action{verb: doPoll}
		}
		c.hasty++
		return c, action{verb: doPoll, wait: backOff(c.hasty, hastyCap, s.jitter)}
	case len(b.updates) == 0:
		return c.failed(unreadable, s)
	}
	c.hasty = 0
	// The last id's successor, also if it is lower than the offset before: ids
	// are chosen anew after a quiet week.
	next := b.updates[len(b.updates)-1].ID + 1
	if asked.HasOffset && asked.Offset == next {
		return c.failed(repeated, s)
	}
	c.offset, c.hasOffset = next, true
	c.failures, c.fault = 0, noFault
	return c, action{verb: doPoll}
}

// failedPoll is the course after a poll that failed with err.
func (c course) failedPoll(err error, s circumstances) (course, action) {
	kind, asked := classify(err)
	switch {
	case kind == tokenRefused && !s.proven:
		return c, action{verb: doEnd, err: fmt.Errorf("%w (%w)", ErrTokenRefused, err)}
	case kind == webhook && !s.deleteWebhook:
		return c, action{verb: doEnd, err: ErrWebhookSet}
	case kind == webhook:
		first := c.failures == 0
		c, a := c.failed(kind, s)
		a.verb = doDeleteWebhook
		if first {
			a.wait = 0
		}
		return c, a
	case kind == rateLimited && asked > 0:
		c, a := c.failed(kind, s)
		// Exactly: sooner is refused, and counts. But not for years.
		a.wait = min(asked, pauseCap)
		return c, a
	}
	return c.failed(kind, s)
}

// deletedWebhook is the course after deleteWebhook, which failed if err is not
// nil. Either way the next poll tells whether a webhook is set. Failures are
// not forgotten, so that somebody who sets it again and again is met ever
// later.
func (c course) deletedWebhook(err error, s circumstances) (course, action) {
	if err == nil {
		return c, action{verb: doPoll}
	}
	// A refusal to delete says nothing about other pollers or webhooks; the
	// rest is as with polls.
	if kind, _ := classify(err); kind == conflict || kind == webhook {
		return c.failed(refused, s)
	}
	return c.failedPoll(err, s)
}

// failedCommit is the course after a batch could not be stored.
func (c course) failedCommit(err error, s circumstances) (course, action) {
	if isDiskFull(err) {
		c, a := c.failed(diskFull, s)
		a.verb = doCommit
		return c, a
	}
	return c, action{verb: doEnd, err: fmt.Errorf("%w: %w", ErrSinkFailed, err)}
}

// committed is the course after a batch was stored.
func (c course) committed() course {
	if c.fault == diskFull {
		c.failures, c.fault = 0, noFault
	}
	return c
}

// failed counts a failure of the given kind and waits before the next poll.
func (c course) failed(kind fault, s circumstances) (course, action) {
	c.failures++
	c.hasty = 0
	c.fault = kind
	limit := failureCap
	if kind == conflict {
		limit = conflictCap
	}
	return c, action{verb: doPoll, wait: backOff(c.failures, limit, s.jitter)}
}

// shortPoll is what a poll asks to wait after Telegram could not be reached: an
// answer that comes soon shows that it is there again, which a poll that waits
// does not.
const shortPoll = time.Second

// request is what the next poll asks.
func (c course) request(o Options) Request {
	r := Request{
		Offset: c.offset, HasOffset: c.hasOffset, Limit: batchLimit,
		Timeout: o.PollTimeout, AllowedUpdates: o.AllowedUpdates,
	}
	if c.fault == unreachable {
		r.Timeout = shortPoll
	}
	return r
}
