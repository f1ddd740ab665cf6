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
		if w.isFull(err) {
			w.keep(x)
			return
		}
		w.t.madeRoom()
		x.done(err)
	})
}

// isFull reports whether a write may be tried again in this term.
func (w *writes) isFull(err error) bool {
	return errors.Is(err, journal.ErrDiskFull) && w.t.ctx.Err() == nil
}

// keep puts a refused write back into its place.
func (w *writes) keep(x write) {
	w.mu.Lock()
	at, _ := slices.BinarySearchFunc(w.refused, x, func(a, b write) int { return cmp.Compare(a.number, b.number) })
	w.refused = slices.Insert(w.refused, at, x)
	first := !w.retries
	w.retries = true
	w.mu.Unlock()
	if first {
		time.AfterFunc(retryFull, w.flush)
	}
}

// flush gives everything refused to the journal again, one after the other; what
// comes meanwhile queues up behind. After the end of the term the journal answers
// with its error.
func (w *writes) flush() {
	for {
		w.mu.Lock()
		if len(w.refused) == 0 {
			w.retries = false
			w.mu.Unlock()
			return
		}
		x := w.refused[0]
		w.mu.Unlock()
		done := make(chan error, 1)
		w.t.journal.Write(x.records, x.durable, func(err error) { done <- err })
		err := <-done
		if w.isFull(err) {
			w.t.b.log.Warn().Dur("delay", retryFull).Msg("no space left for the journal: free some in the state directory")
			time.Sleep(retryFull)
			continue
		}
		w.mu.Lock()
		w.refused = slices.DeleteFunc(w.refused, func(o write) bool { return o.number == x.number })
		w.mu.Unlock()
		w.t.madeRoom()
		x.done(err)
	}
}
