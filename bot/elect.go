package bot

import (
	"errors"
	"slices"
	"time"

	"tgbridge/bus"
	"tgbridge/lock"
)

// An ending is why a member stopped following, or leading.
type ending int

const (
	begun      ending = iota // it has done neither yet
	leaderDead               // the leader's process is gone
	leaderHung               // the leader makes no progress
	leaderLeft               // the lease was released, or the leader said goodbye
	leaseMoved               // the lease names another leader
	streamLost               // the stream ended, the leader lives
	ledBefore                // this member led and gave the lease away
)

// Waits of the election.
const (
	heirStep     = time.Millisecond      // between one heir and the next
	heirBase     = 20 * time.Millisecond // how long all but the first leave to the first
	heirPatience = time.Second           // how long an heir that was asked for may take
	rejoinDelay  = 2 * time.Millisecond  // before the same leader is joined again, growing
	rejoinMax    = 500 * time.Millisecond
)

// A past is what a member took along from its last turn, which the next one has to
// know. The zero value is that of a member that has done nothing yet.
type past struct {
	ended ending
	lost  lock.Entry // the lease of the leader that it followed; zero if none
	heirs []string   // the last roster, first heir first
	heir  string     // the one that the leader named when it left
	fails int        // joins in a row that failed
}

// A situation is what a member knows when it has to decide between leading and
// following.
type situation struct {
	self string
	past
	present lock.Entry // the lease as it stands
	judged  lock.State // what this member makes of it
}

// A plan is what to do next: after a delay, join Leader, or try to acquire.
// A plan with Watch looks at the lease anew during the delay, and follows
// whoever appears there.
type plan struct {
	join     bool
	mode     lock.Mode
	expected *lock.Entry
	delay    time.Duration
	watch    bool
}

// decide is the election's decision table.
func decide(s situation) plan {
	if othersLead(s.judged, s.present, s.self) {
		return plan{join: true, delay: rejoinAfter(s)}
	}
	p := plan{mode: lock.Plain}
	switch {
	case s.lost.Held():
		lost := s.lost
		p.mode, p.expected = lock.Election, &lost
		if s.present.Held() && !s.present.SameOwner(s.lost) { // a second leader died
			present := s.present
			p.expected = &present
		}
	case s.present.Held():
		present := s.present
		p.mode, p.expected = lock.Election, &present
	}
	switch {
	case s.heir == s.self && s.heir != "":
	case s.heir != "" || s.ended == ledBefore:
		p.delay, p.watch = heirPatience, true
	default:
		p.delay = heirDelay(s.heirs, s.self, s.ended)
		p.watch = p.delay > 0
	}
	return p
}

// othersLead reports whether a lease is held by another member that gets on,
// which may be in the same process.
func othersLead(judged lock.State, present lock.Entry, self string) bool {
	return judged == lock.ActiveElsewhere || judged == lock.ActiveHere && present.InstanceID != self
}

// heirDelay is how long the member leaves the lease to those before it: the
// first tries at once, the k-th after 20 + k ms.
func heirDelay(heirs []string, self string, e ending) time.Duration {
	if e == begun {
		return 0
	}
	rank := slices.Index(heirs, self)
	switch {
	case rank == 0 || len(heirs) == 0:
		return 0
	case rank < 0:
		rank = len(heirs)
	}
	return heirBase + time.Duration(rank)*heirStep
}

func rejoinAfter(s situation) time.Duration {
	if s.fails == 0 {
		return 0
	}
	return min(rejoinMax, rejoinDelay<<min(s.fails-1, 10))
}

// endingOf says what the end of a Follow means.
func endingOf(err error) (e ending, heir string) {
	var bye *bus.ByeError
	var lost *leaderLost
	switch {
	case errors.As(err, &bye):
		return leaderLeft, bye.Heir
	case errors.As(err, &lost):
		return lost.ending, ""
	case errors.Is(err, bus.ErrTermPassed):
		return leaseMoved, ""
	default:
		return streamLost, ""
	}
}

// leaderLost is the cause with which the watch ends a Follow.
type leaderLost struct{ ending ending }

func (e *leaderLost) Error() string {
	switch e.ending {
	case leaderDead:
		return "the leader is dead"
	case leaderHung:
		return "the leader makes no progress"
	case leaderLeft:
		return "the lease was released"
	default:
		return "the lease names another leader"
	}
}
