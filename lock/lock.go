package lock

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A Lock is one lease as one runtime sees it: it remembers whether it owns it,
// and under which term. All methods may be used concurrently. Acquire, Refresh,
// Release, Commit and Raise run one at a time; Owns, OwnedTerm, Current and
// State wait for none of them, and take no lock in the file system either.
type Lock struct {
	o    Options
	path string // of the registry
	self identity
	tx   *transactor
	busy chan struct{} // full while an operation runs

	// owned is the entry that this runtime holds, as it was published; nil if
	// none. publishing is what a running operation is about to put in its
	// place: the file may hold it an instant before owned says so.
	owned      atomic.Pointer[Entry]
	publishing atomic.Pointer[Entry]
}

// lastGeneration makes generations rise within the process, whose runtimes have
// nothing else in common.
var lastGeneration atomic.Int64

func newGeneration() int64 {
	for {
		last := lastGeneration.Load()
		next := max(time.Now().UnixMilli(), last+1)
		if lastGeneration.CompareAndSwap(last, next) {
			return next
		}
	}
}

// New returns a Lock that owns nothing yet. It does no I/O except for the
// working directory. Each Lock is a runtime of its own: of two in a process the
// one that was made later has the higher generation. Errors: options that are
// missing or do not fit together.
func New(o Options) (*Lock, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return &Lock{
		o:    o,
		path: filepath.Join(o.Dir, registryName),
		self: identity{host: o.Member.host, instance: o.Member.Instance(), cwd: o.Cwd, generation: newGeneration()},
		tx:   &transactor{dir: o.Dir, member: o.Member, observer: o.Observer, staleAfter: o.StaleAfter, log: o.Logger},
		busy: make(chan struct{}, 1),
	}, nil
}

func (l *Lock) begin(ctx context.Context) error {
	select {
	case l.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Lock) end() { <-l.busy }

// read reads the registry and notes that there is one.
func (l *Lock) read() (registry, error) {
	r, err := readRegistry(l.path)
	if err == nil && !r.missing {
		l.o.Member.registry.Store(true)
	}
	return r, err
}

// Current returns the lease as the registry holds it, read afresh without the
// guard: the zero Entry if there is none or none that can be read, the term
// alone if it was released. ErrDamaged if the registry is; other errors mean
// that the read failed and say nothing.
func (l *Lock) Current() (Entry, error) {
	r, err := l.read()
	if err != nil {
		return Entry{}, err
	}
	if r.damaged {
		return Entry{}, fmt.Errorf("%s: %w", l.path, ErrDamaged)
	}
	e, _ := r.lease(l.o.Key)
	return e, nil
}

// State returns the lease and what this member makes of it, read afresh without
// the guard. A missing or damaged registry has no lease: Inactive. Calling it
// regularly is watching the owner (see Observer).
func (l *Lock) State() (State, Entry, error) {
	r, err := l.read()
	if err != nil {
		return Inactive, Entry{}, err
	}
	e, _ := r.lease(l.o.Key)
	s, _, err := l.judge(e)
	return s, e, err
}

func (l *Lock) judge(e Entry) (State, finding, error) {
	if !e.Held() {
		return Inactive, finding{}, nil
	}
	f, err := l.o.Observer.find(e.owner(), l.o.StaleAfter)
	if err != nil {
		return Inactive, f, fmt.Errorf("judge the owner: %w", err)
	}
	return judge(l.self, e, f), f, nil
}

// Owns reports whether this runtime is the exact owner: a fresh read of the
// registry, without the guard (R3). A registry that is missing or damaged, and
// one that names anyone else, is false. An error means that the read failed: no
// answer, nothing is forgotten, and nothing may be begun.
func (l *Lock) Owns() (bool, error) {
	_, owns, err := l.OwnedTerm()
	return owns, err
}

// OwnedTerm returns the term while this runtime is the exact owner, as Owns
// tells it, and else 0 and false (R8).
func (l *Lock) OwnedTerm() (uint64, bool, error) {
	for {
		before := l.owned.Load()
		r, err := l.read()
		if err != nil {
			return 0, false, err
		}
		e, _ := r.lease(l.o.Key)
		if l.owns(e) {
			return e.Epoch, true, nil
		}
		// An operation that ended meanwhile may have changed both.
		if l.owned.Load() == before {
			return 0, false, nil
		}
	}
}

// owns reports whether an entry is this runtime's own, and adopts one that is
// its own without its memory (R10).
func (l *Lock) owns(e Entry) bool {
	// In this order: what is published is in owned before it leaves publishing.
	if p := l.publishing.Load(); p != nil && p.SameOwner(e) {
		return true
	}
	owned := l.owned.Load()
	if owned != nil {
		return owned.SameOwner(e)
	}
	return l.self.adoptable(e) && l.owned.CompareAndSwap(nil, &e)
}

// remembered reports whether an entry is the one that this runtime remembers as
// its own. Nothing is adopted.
func (l *Lock) remembered(e Entry) bool {
	owned := l.owned.Load()
	return owned != nil && owned.SameOwner(e)
}

// Refresh checks that this runtime still is the exact owner (R1). It normally
// is a read without the guard; only an entry that lacks a term or a generation,
// or holds another socket path than the options, is completed in a transaction.
// False means that the lease is gone or another's, or the registry damaged: this
// runtime has forgotten it, and nothing was written. An error is no answer.
func (l *Lock) Refresh(ctx context.Context) (bool, error) {
	if err := l.begin(ctx); err != nil {
		return false, err
	}
	defer l.end()
	r, err := l.read()
	if err != nil {
		return false, err
	}
	e, _ := r.lease(l.o.Key)
	if !l.owns(e) {
		l.owned.Store(nil)
		return false, nil
	}
	if l.complete(e) {
		return true, nil
	}
	owns := false
	err = l.rewrite(ctx, func(_ registry, now Entry) (*Entry, error) {
		if owns = l.owns(now); !owns {
			return nil, nil
		}
		return l.completed(now)
	})
	if err == nil && !owns {
		l.owned.Store(nil)
	}
	return owns && err == nil, err
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

// rewrite runs a transaction on the registry in which decide names the entry to
// publish in this runtime's name, or nil for none. A damaged registry is an
// error (R6), unless decide is given it by acquire.
func (l *Lock) rewrite(ctx context.Context, decide func(registry, Entry) (*Entry, error)) error {
	return l.transact(ctx, func(r registry) (change, error) {
		if r.damaged {
			return change{}, fmt.Errorf("%s: %w", l.path, ErrDamaged)
		}
		now, _ := r.lease(l.o.Key)
		e, err := decide(r, now)
		if err != nil || e == nil {
			return change{}, err
		}
		return l.put(r, *e)
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
func (l *Lock) nextTerm(e Entry, atLeast uint64) (uint64, error) {
	floor, err := l.o.Floor()
	if err != nil {
		return 0, fmt.Errorf("find the highest term: %w", err)
	}
	members, err := l.o.Observer.highestTerm()
	if err != nil {
		return 0, fmt.Errorf("find the highest term: %w", err)
	}
	highest := max(e.Epoch, atLeast, floor, members, l.o.Member.HighestTerm())
	// A term written as text is another owner's, but may be a number all the same.
	if foreign, err := strconv.ParseUint(strings.Trim(e.ForeignEpoch, `"`), 10, 64); err == nil && foreign <= maxTerm {
		highest = max(highest, foreign)
	}
	if highest >= maxTerm {
		return 0, fmt.Errorf("no term above %d can be given", uint64(maxTerm))
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
	err := l.transact(ctx, func(r registry) (change, error) {
		if r.damaged {
			return change{}, fmt.Errorf("%s: %w", l.path, ErrDamaged)
		}
		e, _ := r.lease(l.o.Key)
		if !l.remembered(e) {
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
		l.owned.Store(nil)
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
	err := l.transact(ctx, func(r registry) (change, error) {
		if r.damaged {
			return change{}, fmt.Errorf("%s: %w", l.path, ErrDamaged)
		}
		e, _ := r.lease(l.o.Key)
		if owns = l.remembered(e); !owns {
			return change{}, nil
		}
		return l.tx.edit(file, fn)
	})
	if err == nil && !owns {
		l.owned.Store(nil)
	}
	return owns && err == nil, err
}

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
	err := l.rewrite(ctx, func(_ registry, now Entry) (*Entry, error) {
		if res = (Result{}); !l.remembered(now) {
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
		l.owned.Store(nil)
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
	return l.transact(ctx, func(r registry) (change, error) {
		if r.damaged {
			return change{}, fmt.Errorf("%s: %w", l.path, ErrDamaged)
		}
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
