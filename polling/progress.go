package polling

import (
	"fmt"
	"time"
)

// A Phase is what a leadership is at. What it may last is in brackets.
type Phase string

// The phases of a leadership.
const (
	// PhaseStarting: acquired, polling has not begun (no limit).
	PhaseStarting Phase = "starting"
	// PhaseChecking: ownership is being verified (0.8 x stale-after).
	PhaseChecking Phase = "checking"
	// PhasePolling: a request is on its way (its timeout + 15 s; shortly
	// before, the loop drops it).
	PhasePolling Phase = "polling"
	// PhaseCommitting: a batch is being made durable (0.8 x stale-after).
	PhaseCommitting Phase = "committing"
	// PhaseWaiting: until a known instant (no limit).
	PhaseWaiting Phase = "waiting"
	// PhaseFull: enough is pending, nothing is fetched on purpose (no limit).
	PhaseFull Phase = "full"
	// PhaseLeaving: an orderly step-down, polling has ended (no limit).
	PhaseLeaving Phase = "leaving"
)

const (
	// passEvery is the loop's tick: how often it makes a pass at the least.
	passEvery = 250 * time.Millisecond
	// freshPass is how old the last pass may be while the member beats.
	freshPass = time.Second
	// requestGrace is how long beyond its timeout a request may take.
	requestGrace = 15 * time.Second
	// dropEarly is how long before the limit a request is dropped, so that the
	// next one is on its way within the limit.
	dropEarly = 500 * time.Millisecond
)

// Progress is what a member's beat is decided by. It is a plain value: the
// member's beating goroutine takes one from Poller.Progress each time.
type Progress struct {
	// Leading says that a leadership is under way: from acquisition until the
	// lease has been given back or lost.
	Leading bool
	// Unexercised says that the lease may stand in this member's name although
	// it does not lead: a release failed, an own deadline passed, or it was
	// suspended. Then the member must not beat, so that others take over.
	Unexercised bool
	// Phase of the leadership, when it began, and what it may last (0: any
	// time).
	Phase Phase
	Since time.Time
	Limit time.Duration
	// Pass is when the poll loop made its last pass.
	Pass time.Time
	// Checked is when ownership was verified last: the beginning of the last
	// check that succeeded.
	Checked time.Time
	// Deadline is what may lie between two passes and between two checks.
	Deadline time.Duration
}

// Progressing reports whether the member may say, by its beat, that what the
// registry says of it is true and that it gets on. A member that does not lead
// may, as far as polling is concerned. now is compared by its monotonic
// reading; steps of the wall clock decide nothing.
func (p Progress) Progressing(now time.Time) bool {
	switch {
	case p.Unexercised:
		return false
	case !p.Leading:
		return true
	case p.Phase != PhaseLeaving && now.Sub(p.Pass) >= freshPass:
		return false
	}
	return p.overdue(now) == nil
}

// overdue says that the own deadline has passed, and which: a leader that
// finds this steps down. It is nil while all is well.
func (p Progress) overdue(now time.Time) error {
	if !p.Leading {
		return nil
	}
	if since := now.Sub(p.Checked); since > p.Deadline {
		return fmt.Errorf("%w: ownership could not be verified for %v", ErrDeadline, since.Round(time.Millisecond))
	}
	if p.Phase == PhaseLeaving {
		return nil
	}
	if since := now.Sub(p.Pass); since > p.Deadline {
		return fmt.Errorf("%w: the poll loop made no pass for %v", ErrDeadline, since.Round(time.Millisecond))
	}
	if since := now.Sub(p.Since); p.Limit > 0 && since > p.Limit {
		return fmt.Errorf("%w: %s has lasted %v", ErrDeadline, p.Phase, since.Round(time.Millisecond))
	}
	return nil
}

// mustDrop reports whether a request is so late that it is dropped.
func (p Progress) mustDrop(now time.Time) bool {
	return p.Phase == PhasePolling && now.Sub(p.Since) >= p.Limit-dropEarly
}
