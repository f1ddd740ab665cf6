package lock

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// rewrite runs a transaction on the registry in which decide names the entry to
// publish in this runtime's name, or nil for none.
func (l *Lock) rewrite(ctx context.Context, decide func(now Entry) (*Entry, error)) error {
	return l.transactIntact(ctx, func(r registry) (change, error) {
		now, _ := r.lease(l.o.Key)
		e, err := decide(now)
		if err != nil || e == nil {
			return change{}, err
		}
		return l.put(r, *e)
	})
}

// transactIntact runs a transaction like transact, and fails on a registry that
// is damaged, as all but Acquire do (R6).
func (l *Lock) transactIntact(ctx context.Context, body func(registry) (change, error)) error {
	return l.transact(ctx, func(r registry) (change, error) {
		if err := r.intact(l.path, l.o.Key); err != nil {
			return change{}, err
		}
		return body(r)
	})
}

// transact runs a transaction whose body sees the registry.
func (l *Lock) transact(ctx context.Context, body func(registry) (change, error)) error {
	defer l.publishing.Store(nil)
	return l.tx.run(ctx, func() (change, error) {
		r, err := l.read()
		if err != nil {
			return change{}, err
		}
		return body(r)
	})
}

// put is the change that makes this runtime the owner by entry e.
func (l *Lock) put(r registry, e Entry) (change, error) {
	value, err := e.encode()
	if err != nil {
		return change{}, err
	}
	content, err := r.with(l.o.Key, value)
	if err != nil {
		return change{}, err
	}
	return change{
		file: registryName, content: content,
		confirm:   func() error { l.publishing.Store(&e); return nil },
		published: func() { l.owned.Store(&e) },
	}, nil
}

// nextTerm returns a term above every one that is known: the entry's, the
// members', the caller's from elsewhere, and those that this process has seen.
// What is above MaxTerm is not known but damage; only atLeast is asked for.
func (l *Lock) nextTerm(e Entry, atLeast uint64) (uint64, error) {
	floor, err := l.o.Floor()
	if err != nil {
		return 0, fmt.Errorf("find the highest term: %w", err)
	}
	members, err := l.o.Observer.highestTerm()
	if err != nil {
		return 0, fmt.Errorf("find the highest term: %w", err)
	}
	highest := max(e.Epoch, atLeast, members, l.o.Member.HighestTerm())
	// A term written as text is another owner's, but may be a number all the same.
	foreign, _ := strconv.ParseUint(strings.Trim(e.ForeignEpoch, `"`), 10, 64)
	for _, term := range []uint64{floor, foreign} {
		if term <= MaxTerm {
			highest = max(highest, term)
		}
	}
	switch {
	case atLeast >= MaxTerm:
		return 0, fmt.Errorf("no term above %d can be given", uint64(MaxTerm))
	case highest >= MaxTerm:
		return 0, &UnusableError{Path: l.o.Dir, Problem: fmt.Sprintf("something in it shows the term %d, above which there is none", uint64(MaxTerm)),
			Remedy: "stop all members, look for the number in " + registryName + ", in " + membersDir + " and in names, and move away what has it"}
	}
	return highest + 1, nil
}

// newEntry is a lease of this runtime under a term.
func (l *Lock) newEntry(term uint64) Entry {
	info, now := l.o.Member.Info(), time.Now().UnixMilli()
	return Entry{
		PID: l.self.host.PID, Cwd: l.self.cwd, InstanceID: l.self.instance, HeartbeatMs: now,
		Epoch: term, Generation: l.self.generation,
		BusSocketPath: l.o.SocketPath, BusSecret: l.o.Secret,
		Name: info.Name, Host: info.Host, BootID: info.BootID, PIDNamespace: info.PIDNamespace,
		BornAt: info.BornAt, AcquiredMs: now, Version: info.Version,
	}
}
