package lock

import "context"

// Refresh checks that this runtime still is the exact owner (R1). It normally
// is a read without the guard, and waits for no other operation; only an entry
// that lacks a term or a generation, or holds another socket path than the
// options, is completed in a transaction. False means that the lease is gone or
// another's, or the registry damaged: this runtime has forgotten it, and nothing
// was written. An error is no answer. It watches whoever has the guard, as
// Current does.
func (l *Lock) Refresh(ctx context.Context) (bool, error) {
	l.tx.watch()
	memory := l.owned.Load()
	e, owns, err := l.look()
	switch {
	case err != nil:
		return false, err
	case !owns:
		l.forget(memory)
		return false, nil
	case l.complete(e):
		return true, nil
	}
	if err := l.begin(ctx); err != nil {
		return false, err
	}
	defer l.end()
	_, owns, err = l.putComplete(ctx)
	return owns, err
}

// putComplete publishes the own entry with what it lacked. If the lease is not
// this runtime's, it is forgotten, and nothing is written. The caller has begun
// an operation.
func (l *Lock) putComplete(ctx context.Context) (term uint64, owns bool, err error) {
	var memory *Entry
	err = l.rewrite(ctx, func(now Entry) (*Entry, error) {
		memory = l.owned.Load()
		if owns = l.owns(now); !owns {
			return nil, nil
		}
		e, err := l.completed(now)
		if err == nil {
			term = e.Epoch
		}
		return e, err
	})
	switch {
	case err != nil:
		return 0, false, err
	case !owns:
		l.forget(memory)
		return 0, false, nil
	}
	l.o.Member.NoteTerm(term)
	return term, true, nil
}

// complete reports whether nothing about an own entry has to change.
func (l *Lock) complete(e Entry) bool {
	return e.Epoch != 0 && e.Generation != 0 && e.BusSocketPath == l.o.SocketPath
}

// completed returns an own entry with what it lacked. The secret is kept.
func (l *Lock) completed(e Entry) (*Entry, error) {
	if e.Epoch == 0 {
		term, err := l.nextTerm(e, 0)
		if err != nil {
			return nil, err
		}
		e.Epoch = term
	}
	if e.Generation == 0 {
		e.Generation = l.self.generation
	}
	if e.BusSecret.IsEmpty() {
		e.BusSecret = l.o.Secret
	}
	e.BusSocketPath = l.o.SocketPath
	return &e, nil
}
