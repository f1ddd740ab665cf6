package lock

import (
	"context"
	"fmt"
	"time"
)

// Release gives the lease up (R2): the exact owner's entry becomes a released
// one, which keeps the term. It returns the state that was found, ActiveHere
// and true if the lease was released by this call. From anyone but the exact
// owner it changes nothing, and a remembered lease that is lost is forgotten.
// After an error the lease may still stand: call again, and do not beat before.
// Errors: ErrDamaged, and those of Transaction.
func (l *Lock) Release(ctx context.Context) (State, bool, error) {
	if err := l.begin(ctx); err != nil {
		return Inactive, false, err
	}
	defer l.end()
	if l.owned.Load() == nil {
		s, _, err := l.State()
		return s, false, err
	}
	state, released := Inactive, false
	var memory *Entry
	err := l.transactIntact(ctx, func(r registry) (change, error) {
		e, _ := r.lease(l.o.Key)
		var own bool
		if memory, own = l.remembered(e); !own {
			var err error
			state, _, err = l.judge(e)
			return change{}, err
		}
		content, err := r.with(l.o.Key, encodeReleased(e.Epoch, time.Now().UnixMilli()))
		return change{file: registryName, content: content, published: func() {
			state, released = ActiveHere, true
		}}, err
	})
	if err == nil || released {
		l.forget(memory)
	}
	return state, released, err
}

// Commit changes a shared file of the directory while this runtime is verified
// to be the exact owner, and nobody else can become it: as Transaction, with the
// same rules for file and fn. If it is not the owner, fn is not run, the lease
// is forgotten, and Commit returns false. Only the content that fn returns is
// fenced, not what else it does (R4).
func (l *Lock) Commit(ctx context.Context, file string, fn func(current []byte) ([]byte, error)) (bool, error) {
	if !validShared(file) || file == registryName {
		return false, fmt.Errorf("commit: %q cannot be the name of a shared file", file)
	}
	if err := l.begin(ctx); err != nil {
		return false, err
	}
	defer l.end()
	if l.owned.Load() == nil {
		return false, nil
	}
	owns := false
	var memory *Entry
	err := l.transactIntact(ctx, func(r registry) (change, error) {
		e, _ := r.lease(l.o.Key)
		if memory, owns = l.remembered(e); !owns {
			return change{}, nil
		}
		return l.tx.edit(file, fn)
	})
	if err == nil && !owns {
		l.forget(memory)
	}
	return owns && err == nil, err
}
