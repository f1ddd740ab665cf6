package lock

import (
	"context"
	"fmt"
	"path/filepath"
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
	// runtimes is how many Locks there are, or were, of this member for this key.
	runtimes *atomic.Int64
	last     atomic.Pointer[registry] // as read last
	busy     chan struct{}            // full while an operation runs

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
	runtimes := o.Member.runtimesOf(o.Key)
	runtimes.Add(1)
	return &Lock{
		o:        o,
		runtimes: runtimes,
		path:     filepath.Join(o.Dir, registryName),
		self:     identity{host: o.Member.host, instance: o.Member.Instance(), cwd: o.Cwd, generation: newGeneration()},
		tx:       &transactor{dir: o.Dir, member: o.Member, observer: o.Observer, staleAfter: o.StaleAfter, log: o.Logger},
		busy:     make(chan struct{}, 1),
	}, nil
}

func (l *Lock) begin(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case l.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Lock) end() { <-l.busy }

// rememberBytes bounds what a Lock keeps of the registry between two reads.
const rememberBytes = 64 << 10

// read reads the registry and notes that there is one. What it holds is decoded
// once for each content: members look each second at what seldom changes.
func (l *Lock) read() (registry, error) {
	r, err := readRegistry(l.path, l.last.Load())
	if err != nil || r.missing {
		return r, err
	}
	l.o.Member.registry.Store(true)
	if r.decoded == nil && len(r.doc) <= rememberBytes {
		e, there := r.lease(l.o.Key)
		r.decoded = &decodedLease{key: l.o.Key, entry: e, there: there}
		l.last.Store(&r)
	}
	return r, nil
}

// Current returns the lease as the registry holds it, read afresh without the
// guard: the zero Entry if there is none or none that can be read, the term
// alone if it was released. ErrDamaged if the registry is; other errors mean
// that the read failed and say nothing. Calling it regularly is watching whoever
// has the guard: one that hangs is then known before the guard is needed.
func (l *Lock) Current() (Entry, error) {
	l.tx.watch()
	r, err := l.read()
	if err != nil {
		return Entry{}, err
	}
	return r.current(l.path, l.o.Key)
}

// State returns the lease and what this member makes of it, read afresh without
// the guard. A missing or damaged registry has no lease: Inactive. Calling it
// regularly is watching the owner (see Observer), and whoever has the guard, as
// with Current.
func (l *Lock) State() (State, Entry, error) {
	l.tx.watch()
	for {
		before := l.owned.Load()
		r, err := l.read()
		if err != nil {
			return Inactive, Entry{}, err
		}
		e, _ := r.lease(l.o.Key)
		s, _, err := l.judge(e)
		// An operation that ended meanwhile may have changed both.
		if err != nil || l.owned.Load() == before {
			return s, e, err
		}
	}
}

func (l *Lock) judge(e Entry) (State, finding, error) {
	switch {
	case !e.Held():
		return Inactive, finding{}, nil
	case l.misnames(e):
		return Stale, finding{file: true, dead: true}, nil
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
	_, owns, err := l.look()
	return owns, err
}

// OwnedTerm returns the term while this runtime is the exact owner, as Owns
// tells it, and else 0 and false (R8).
func (l *Lock) OwnedTerm() (uint64, bool, error) {
	e, owns, err := l.look()
	if err != nil || !owns {
		return 0, false, err
	}
	return e.Epoch, true, nil
}

// look reads the lease and tells whether it is this runtime's own.
func (l *Lock) look() (Entry, bool, error) {
	for {
		before := l.owned.Load()
		r, err := l.read()
		if err != nil {
			return Entry{}, false, err
		}
		e, _ := r.lease(l.o.Key)
		if l.owns(e) {
			return e, true, nil
		}
		// An operation that ended meanwhile may have changed both.
		if l.owned.Load() == before {
			return e, false, nil
		}
	}
}

// owns reports whether an entry is this runtime's own, and adopts one that is
// its own without its memory (R10).
func (l *Lock) owns(e Entry) bool {
	own, adopt := l.isOwn(e)
	return own && (!adopt || l.owned.CompareAndSwap(nil, &e))
}

// isOwn is owns without the adoption: adopt says that it is due.
func (l *Lock) isOwn(e Entry) (own, adopt bool) {
	// In this order: what is published is in owned before it leaves publishing.
	if p := l.publishing.Load(); p != nil && p.SameOwner(e) {
		return true, false
	}
	if owned := l.owned.Load(); owned != nil {
		return owned.SameOwner(e), false
	}
	adopt = l.self.adoptable(e)
	return adopt, adopt
}

// misnames reports whether an entry names this member although it is not what
// the member published: somebody edited the registry. An instance id is never
// used again, so that of a member's only runtime nobody else can be meant, and an
// owner that does not exist is dead for certain. Everyone else sees a live owner.
func (l *Lock) misnames(e Entry) bool {
	own, _ := l.isOwn(e)
	return !own && e.InstanceID == l.self.instance && l.runtimes.Load() == 1
}

// remembered reports whether an entry is the one that this runtime remembers as
// its own, and what it remembers. Nothing is adopted.
func (l *Lock) remembered(e Entry) (memory *Entry, own bool) {
	memory = l.owned.Load()
	return memory, memory != nil && memory.SameOwner(e)
}

// forget drops the memory that an operation found to be of a lost lease. One
// that was adopted since then stays: adopting waits for no operation.
func (l *Lock) forget(memory *Entry) { l.owned.CompareAndSwap(memory, nil) }
