package lock

import (
	"context"
	"errors"
)

// A Mode says how much Acquire may take.
type Mode int

const (
	// Plain takes a lease that is free or stale.
	Plain Mode = iota
	// Force takes, beyond that, the lease of exactly the expected owner.
	Force
	// Election takes a lease that is free, or stale and of exactly the expected
	// owner: that whose death or silence the caller saw.
	Election
)

// String returns the mode's name.
func (m Mode) String() string {
	switch m {
	case Plain:
		return "plain"
	case Force:
		return "force"
	case Election:
		return "election"
	}
	return "unknown"
}

// A situation is what Acquire finds, reduced to what decides.
type situation struct {
	state      State
	exact      bool // the entry names this very runtime and its term
	expected   bool // it names the owner that the caller expects
	supersedes bool // it is of an older runtime of this process (A10)
}

// A verdict is what Acquire does.
type verdict int

const (
	refuse verdict = iota
	keep           // already the owner: nothing is written
	take
)

// decide is the table of Acquire. Its rows are A1 to A12.
func decide(m Mode, s situation) verdict {
	switch {
	case s.exact: // A3
		return keep
	case s.state == Inactive: // A1, A7, A12
		return take
	case s.state == Stale && (m != Election || s.expected): // A2, A8, A12
		return take
	case m == Force && s.expected && s.state == ActiveElsewhere: // A5
		return take
	case m == Force && s.expected && s.state == ActiveHere && s.supersedes: // A10
		return take
	}
	return refuse // A4, A6, A9, A11
}

// A Result is what Acquire or Raise did.
type Result struct {
	// Acquired: this runtime owns the lease. Wrote: by a new entry, or by one that
	// got a term; if not, it owned it before, and nothing changed.
	Acquired bool
	Wrote    bool
	// ReplacedStale: the owner before was dead or hung.
	ReplacedStale bool
	// Term is that of the owned lease, 0 if it was refused.
	Term uint64
	// State is the state that was found.
	State State
	// Owner is who holds the lease, if it was refused; else who held it before
	// (for a lease that was owned already, this runtime), nil if nobody.
	Owner *Entry
	// DamagedCopy is the path of a copy of the registry, if it was damaged and
	// Acquire published a new one over it.
	DamagedCopy string
}

// errRevived says that a hung owner's beat moved in the last moment.
var errRevived = errors.New("owner made progress")

// Acquire takes the lease if the mode allows it (rows A1 to A12). A refusal is
// not an error: the result names the owner, which the caller may pass as
// expected to a later call. expected is the owner whom Force and Election may
// replace; nil for none; Plain ignores it.
//
// Acquire waits for the guard, 3 x StaleAfter at most, and, on a registry that
// is missing or damaged, until surely nobody leads (R9): for live members that
// say they lead, however long that takes, and in all but a directory that this
// member itself just made for at least 3 s. It gives up when ctx ends. While it
// waits the member's beat is the caller's to raise.
//
// Errors: those of Transaction. If the new lease stands in the registry although
// an error is returned (the last fsync failed), Owns says so; Release it.
func (l *Lock) Acquire(ctx context.Context, mode Mode, expected *Entry) (Result, error) {
	if err := l.begin(ctx); err != nil {
		return Result{}, err
	}
	defer l.end()
	var watch lostWatch
	for {
		res, done, err := l.try(ctx, mode, expected, &watch)
		if err == nil && res.Acquired && res.Term == 0 { // adopted without a term
			res.Term, done, err = l.putComplete(ctx)
			res.Wrote = true
		}
		if err != nil || done {
			return res, err
		}
		if err := sleep(ctx, lostPause); err != nil {
			return Result{}, err
		}
	}
}

// try looks without the guard first: most calls end there. What is to be taken
// is judged once more inside a transaction. It is not done if nothing proves
// that nobody leads.
func (l *Lock) try(ctx context.Context, mode Mode, expected *Entry, w *lostWatch) (res Result, done bool, err error) {
	r, err := l.read()
	if err != nil {
		return Result{}, false, err
	}
	a, err := l.assess(r, mode, expected, w)
	if err != nil || a.verdict != take || !a.proven {
		l.tx.watch()
		return a.result, a.verdict != take, err
	}
	err = l.transact(ctx, func(r registry) (change, error) {
		a, err = l.assess(r, mode, expected, w)
		if err != nil || a.verdict != take || !a.proven {
			return change{}, err
		}
		return l.takeover(r, &a)
	})
	if errors.Is(err, errRevived) {
		return Result{State: ActiveElsewhere, Owner: a.result.Owner}, true, nil
	}
	if err != nil {
		return Result{}, false, err
	}
	if a.result.Wrote {
		l.o.Member.NoteTerm(a.result.Term)
	}
	return a.result, a.verdict != take || a.proven, nil
}

// An assessment is a look at the registry and what follows from it.
type assessment struct {
	entry   Entry
	finding finding
	verdict verdict
	proven  bool   // nobody leads whom the entry does not name
	result  Result // if nothing is taken
}

func (l *Lock) assess(r registry, mode Mode, expected *Entry, w *lostWatch) (a assessment, err error) {
	a.entry, _ = r.lease(l.o.Key)
	s := situation{
		exact:      l.owns(a.entry),
		expected:   expected != nil && expected.SameOwner(a.entry),
		supersedes: l.self.supersedes(a.entry),
	}
	if s.state, a.finding, err = l.judge(a.entry); err != nil {
		return a, err
	}
	a.verdict = decide(mode, s)
	a.result = Result{State: s.state, Owner: heldOrNil(a.entry)}
	switch a.verdict {
	case keep:
		a.result.Acquired, a.result.Term = true, a.entry.Epoch
	case take:
		p, err := l.proof(r, w)
		a.proven = mayBegin(p)
		return a, err
	}
	return a, nil
}

// takeover is the change that gives the lease to this runtime under a new term.
func (l *Lock) takeover(r registry, a *assessment) (change, error) {
	term, err := l.nextTerm(a.entry, 0)
	if err != nil {
		return change{}, err
	}
	if r.broken(l.o.Key) {
		if a.result.DamagedCopy, err = l.keepDamaged(); err != nil {
			return change{}, err
		}
	}
	c, err := l.put(r, l.newEntry(term))
	if err != nil {
		return change{}, err
	}
	if a.finding.hung && a.result.State == Stale {
		announce, from := c.confirm, a.entry
		c.confirm = func() error {
			// The owner may have gone on while this process did not.
			state, _, err := l.judge(from)
			if err == nil && state != Stale {
				err = errRevived
			}
			if err != nil {
				return err
			}
			return announce()
		}
	}
	a.result.Acquired, a.result.Wrote, a.result.Term = true, true, term
	a.result.ReplacedStale = a.result.State == Stale
	return c, nil
}
