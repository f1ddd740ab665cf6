package lock

import (
	"context"
	"fmt"
	"time"
)

// Raise replaces the own lease by one with a higher term, above atLeast and
// every other that is known, as if taken over from itself. A term that is not
// below atLeast stays as it is, and nothing is written. If this runtime is not
// the exact owner, the result says who is, Acquired is false, and the lease is
// forgotten. Errors: as Acquire.
func (l *Lock) Raise(ctx context.Context, atLeast uint64) (Result, error) {
	if err := l.begin(ctx); err != nil {
		return Result{}, err
	}
	defer l.end()
	var res Result
	var memory *Entry
	err := l.rewrite(ctx, func(now Entry) (*Entry, error) {
		res = Result{}
		var own bool
		if memory, own = l.remembered(now); !own {
			state, _, err := l.judge(now)
			res.State, res.Owner = state, heldOrNil(now)
			return nil, err
		}
		res = Result{Acquired: true, Term: now.Epoch, State: ActiveHere, Owner: &now}
		if now.Epoch >= atLeast {
			return nil, nil
		}
		term, err := l.nextTerm(now, atLeast)
		e := l.newEntry(term)
		res.Wrote, res.Term = true, term
		return &e, err
	})
	switch {
	case err != nil:
		return Result{}, err
	case !res.Acquired:
		l.forget(memory)
	default:
		l.o.Member.NoteTerm(res.Term)
	}
	return res, nil
}

// TakeFrom takes the lease from exactly that owner, living or not, and gives it
// up in the same transaction, under a new term: so the members elect. o.Member
// is who takes the guard. ErrOwnerChanged, with the present owner in its text,
// if the lease is not held by that owner. Other errors: as Transaction.
func TakeFrom(ctx context.Context, o Options, from Entry) error {
	l, err := New(o)
	if err != nil {
		return err
	}
	return l.transactIntact(ctx, func(r registry) (change, error) {
		now, _ := r.lease(o.Key)
		if !now.SameOwner(from) {
			return change{}, fmt.Errorf("take the lease from %s: held by %s: %w", describe(from), describe(now), ErrOwnerChanged)
		}
		term, err := l.nextTerm(now, 0)
		if err != nil {
			return change{}, err
		}
		content, err := r.with(o.Key, encodeReleased(term, time.Now().UnixMilli()))
		return change{file: registryName, content: content}, err
	})
}

func describe(e Entry) string {
	if !e.Held() {
		return "nobody"
	}
	return fmt.Sprintf("%q (pid %d on %s, instance %s, term %d)", e.Name, e.PID, e.Host, e.InstanceID, e.Epoch)
}

func heldOrNil(e Entry) *Entry {
	if !e.Held() {
		return nil
	}
	return &e
}
