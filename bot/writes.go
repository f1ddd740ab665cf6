package bot

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"tgbridge/internal/journal"
)

// retryFull is how long writes wait while the disk is full.
const retryFull = time.Second

// writes hands records to the journal. What it refuses because the disk is full
// is given to it again each second, before anything later: what was decided is
// not undone, and not overtaken.
type writes struct {
	t *term

	mu      sync.Mutex // guards what follows; held for no I/O
	next    uint64
	refused []write // in order; while there are any, later ones queue up behind
	retries bool    // flush is due
}

// write is one group of records.
type write struct {
	number  uint64
	records []journal.Record
	durable bool
	done    func(error)
}

// add writes records, now or after those that wait for space.
func (w *writes) add(records []journal.Record, durable bool, done func(error)) {
	w.mu.Lock()
	w.next++
	x := write{number: w.next, records: records, durable: durable, done: done}
	if w.retries {
		w.refused = append(w.refused, x)
		w.mu.Unlock()
		return
	}
	w.mu.Unlock()
	w.submit(x)
}

func (w *writes) submit(x write) {
	w.t.journal.Write(x.records, x.durable, func(err error) {
		if errors.Is(err, journal.ErrDiskFull) && w.t.ctx.Err() == nil {
			w.keep(x)
			return
		}
		w.t.madeRoom()
		x.done(err)
	})
}

// keep puts a refused write back into its place.
func (w *writes) keep(x write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, _ := slices.BinarySearchFunc(w.refused, x, func(a, b write) int { return cmp.Compare(a.number, b.number) })
	w.refused = slices.Insert(w.refused, at, x)
	if !w.retries {
		w.retries = true
		w.t.b.log.Warn().Dur("delay", retryFull).Msg("no space left for the journal: free some in the state directory")
		time.AfterFunc(retryFull, w.flush)
	}
}

// flush gives everything refused to the journal again; after the end of the term
// too, which answers with its error.
func (w *writes) flush() {
	w.mu.Lock()
	due := w.refused
	w.refused = nil
	w.retries = false
	w.mu.Unlock()
	for _, x := range due {
		w.submit(x)
	}
}
