package journal

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

const keyPath = "path"

// A Journal is the journal of one term. Its methods may be called by any number
// of goroutines.
type Journal struct {
	o    Options
	disk disk
	log  zerolog.Logger
	dir  string // holds the directories of terms
	own  string // that of this one
	term uint64
	next atomic.Uint64 // for Reserve

	// mu guards what follows. It is changed by the goroutine of run alone,
	// which therefore reads it without.
	mu     sync.RWMutex
	index  *index
	files  []*logFile // by span.file; the last one is appended to
	closed bool       // files are closed
	err    error      // why the term ended
	failed chan struct{}

	// queueMu guards the queue; never held together with mu.
	queueMu sync.Mutex
	queue   []*item
	closing bool
	wake    chan struct{} // capacity 1
	stopped chan struct{} // closed when run returned

	// Of the goroutine of run alone.
	held    []*item  // of Write, refused because the disk is full; in order
	keep    []uint64 // numbers of files to be kept aside
	broken  bool     // no file can be appended to: a new one is needed
	buf     []byte
	again   time.Time // before which renew is not tried again
	refusal error     // of its last attempt
}

// TakeOver makes the journal in dir that of a term: it moves the directory of
// the highest earlier term, or makes a new one, reads what is there, writes what
// is live to a new file and brings that to disk before it removes older files.
// Missing directories are made. It starts one goroutine, which Close ends.
//
// Damage never keeps it from starting: what can be read is kept, the rest is
// told by log. If there is no space for the new file, the journal can be read,
// and no Write succeeds until there is.
//
// Errors: ErrSuperseded if there is a directory of an equal or higher term, or
// another leader takes over at the same time; ErrUnusable; ErrDiskFull if there
// is not even space for a directory, after which the same term may be tried
// again; others from the operating system, after which only a higher one can.
func TakeOver(dir string, term uint64, o Options) (*Journal, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if term == 0 {
		return nil, errors.New("take over journal: term must be above 0")
	}
	j := &Journal{
		o: o, disk: disk{o.fault}, log: o.Logger, dir: dir, own: termPath(dir, term), term: term,
		failed: make(chan struct{}), wake: make(chan struct{}, 1), stopped: make(chan struct{}),
		broken: true,
	}
	found, err := claim(j.disk, dir, term, j.log)
	if err != nil {
		return nil, err
	}
	read, err := load(j.disk, j.own, o.MaxDead, j.log)
	if err != nil {
		return nil, j.explain(err)
	}
	j.index, j.files, j.keep = read.index, read.files, read.keep
	if found && len(j.files) == 0 {
		j.log.Warn().Str(keyPath, j.own).Msg("journal has lost its files or never had any: begins anew")
	}
	j.next.Store(j.index.next)
	j.tellDropped()
	switch err := j.renew(); {
	case errors.Is(err, ErrDiskFull):
		j.log.Warn().Err(err).Msg("journal cannot be written until there is space")
	case err != nil:
		j.closeFiles()
		return nil, err
	}
	go j.run()
	return j, nil
}

// Reserve returns the first of n consecutive numbers for entries, which were
// never used before. Entries are to be written in the order of their numbers,
// so one goroutine reserves and writes. A number that is not written is a gap
// and does no harm.
func (j *Journal) Reserve(n int) (first uint64) {
	return j.next.Add(uint64(n)) - uint64(n)
}

// Entries returns what is live, dead letters, and Done entries not yet
// confirmed, in the order of Seq. The slice is the caller's.
func (j *Journal) Entries() []Entry {
	j.mu.RLock()
	defer j.mu.RUnlock()
	entries := make([]Entry, 0, len(j.index.list)-j.index.goneN)
	for _, e := range j.index.list {
		if e.state != gone {
			entries = append(entries, e.export())
		}
	}
	return entries
}

// DeadLetters returns the dead letters, in the order of Seq.
func (j *Journal) DeadLetters() []Entry {
	j.mu.RLock()
	defer j.mu.RUnlock()
	dead := make([]Entry, 0, len(j.index.dead))
	for _, e := range j.index.dead {
		dead = append(dead, e.export())
	}
	slices.SortFunc(dead, func(a, b Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	return dead
}

// Calls returns the calls that were begun and not forgotten, in no order that
// means anything. The slice is the caller's.
func (j *Journal) Calls() []CallEntry {
	j.mu.RLock()
	defer j.mu.RUnlock()
	calls := make([]CallEntry, 0, len(j.index.calls))
	for _, c := range j.index.calls {
		calls = append(calls, c.export())
	}
	return calls
}

// Seen returns the entry with the source's id, if there is one that Telegram
// may send again: any but a dead letter that a poll confirmed. Of several the
// first is kept. An id of 0 is never seen.
func (j *Journal) Seen(id int64) (Entry, bool) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if e := j.index.byID[id]; e != nil {
		return e.export(), true
	}
	return Entry{}, false
}

// Live returns how many entries are Pending, Assigned or in state Outcome, and
// how many bytes their bodies and replies take.
func (j *Journal) Live() (pending int, bytes int64) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.index.pending, j.index.bytes
}

// Full reports whether there are enough live entries: no more should be
// fetched. Write takes them nevertheless.
func (j *Journal) Full() bool {
	pending, bytes := j.Live()
	return pending >= j.o.MaxPending || bytes >= j.o.MaxBytes
}

// Body returns the body of an entry, byte for byte. Errors: ErrNotFound;
// ErrDamaged; ErrClosed; and those of the operating system, which may pass.
func (j *Journal) Body(seq uint64) ([]byte, error) {
	body, err := j.read(func(x *index) span {
		if e := x.find(seq); e != nil {
			return e.body()
		}
		return span{}
	})
	if err == nil && len(body) == 0 { // see doc.go: it was lost
		err = ErrDamaged
	}
	return body, err
}

// Reply returns the reply of an entry in state Outcome, or of a dead letter
// that had one. Errors are as for Body.
func (j *Journal) Reply(seq uint64) ([]byte, error) {
	owed := false
	reply, err := j.read(func(x *index) span {
		if e := x.find(seq); e != nil {
			owed = e.state == Outcome
			return e.reply()
		}
		return span{}
	})
	if owed && errors.Is(err, ErrNotFound) { // see doc.go: it was lost
		err = ErrDamaged
	}
	return reply, err
}

// Result returns the result of a call that is Done. It may be empty, and is if
// it was lost. Errors are as for Body.
func (j *Journal) Result(request string) ([]byte, error) {
	return j.read(func(x *index) span {
		if c := x.calls[request]; c != nil {
			return c.result
		}
		return span{}
	})
}

// read returns the body of the record at the span that where returns.
func (j *Journal) read(where func(*index) span) ([]byte, error) {
	for {
		j.mu.RLock()
		at, closed := where(j.index), j.closed
		var f *logFile
		if at.length > 0 {
			f = j.files[at.file]
		}
		j.mu.RUnlock()
		switch {
		case closed:
			return nil, ErrClosed
		case f == nil:
			return nil, ErrNotFound
		}
		_, object, err := new(window).line(f, at)
		if errors.Is(err, os.ErrClosed) {
			continue // a rotation came between: the line stands elsewhere now
		}
		if errors.Is(err, ErrDamaged) {
			f.damaged.Store(true) // a new file is begun with the next Check
		}
		if err != nil {
			return nil, err
		}
		r, err := decode(object)
		return r.Body, err
	}
}

// Failed is closed when the term ended: an fsync failed, the system could not
// read what is live, or another leader took over. Nothing is written after it.
func (j *Journal) Failed() <-chan struct{} { return j.failed }

// Err returns why Failed is closed, and nil before.
func (j *Journal) Err() error {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.err
}

// fail ends the term. It returns the error that ended it, which may be an
// earlier one.
func (j *Journal) fail(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = err
		close(j.failed)
	}
	return j.err
}
