package journal

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// chunk bounds how much is put together for one write.
const chunk = 1 << 20

// An item is one call of Write or Check on its way to the goroutine of run.
type item struct {
	check   bool
	patient bool // waits for space
	records []Record
	lengths []int32 // of their lines
	lines   []byte
	sync    bool
	err     error // the records cannot be written
	done    func(error)
}

func (it *item) finish(err error) {
	if it.done != nil {
		it.done(err)
	}
}

// Write queues records, to be written together and in order after those of
// earlier calls, and returns at once. Calls that come while the disk is busy
// share a write and an fsync. While the disk is full they wait, and are tried
// again each RetryAfter.
//
// done, if not nil, is called on the journal's goroutine: after the write, or
// if sync is set after the fsync, so that with it the records survive a power
// cut, and without it a kill of the process (and after SyncWithin the former).
// Calls with equal sync are answered in order. By then all lookups show the
// records. done must not block; it may call Write. No records and sync is a way
// to wait for the disk. The records' bytes may be changed after Write returned.
//
// With an error nothing of the call is in effect in this term (a successor may
// still find it): those from the operating system, after which the same may be
// written again; ErrInvalid; ErrDiskFull, if there was no space before Close;
// ErrClosed, given before Write returns; and whatever Err returns once Failed is
// closed.
func (j *Journal) Write(recs []Record, sync bool, done func(error)) {
	j.queueWrite(recs, sync, true, done)
}

// TryWrite is Write, but does not wait for space: it is answered with
// ErrDiskFull if there is none, or earlier calls wait for some.
func (j *Journal) TryWrite(recs []Record, sync bool, done func(error)) {
	j.queueWrite(recs, sync, false, done)
}

func (j *Journal) queueWrite(recs []Record, sync, patient bool, done func(error)) {
	it := &item{records: slices.Clone(recs), sync: sync, patient: patient, done: done}
	it.err = it.encode()
	j.enqueue(it)
}

func (it *item) encode() error {
	for i := range it.records {
		r := &it.records[i]
		if err := r.prepare(); err != nil {
			return err
		}
		object, err := r.encode()
		if err != nil {
			return err
		}
		if len(object)+prefix+1 > MaxLine {
			return fmt.Errorf("%s record of %d bytes, the limit is %d: %w", r.Kind, len(object), MaxLine, ErrInvalid)
		}
		it.lines = appendLine(it.lines, object)
		it.lengths = append(it.lengths, int32(len(object)+prefix+1))
	}
	return nil
}

// Check makes sure that what is appended can be found: that the open file is
// the one at its path, and as long as it was written. If it, or the whole
// directory, was deleted, replaced, cut off or written to by others, all that is
// live is written to a new file, without what cannot be read any more, and that
// is told by log. It waits for its turn behind earlier calls of Write.
//
// Errors: ErrSuperseded if another leader took over; the journal has failed
// then. ErrDiskFull, also while records wait for space, and others from the
// operating system: nothing is known, and Check may be tried again.
func (j *Journal) Check() error {
	answer := make(chan error, 1)
	j.enqueue(&item{check: true, done: func(err error) { answer <- err }})
	return <-answer
}

// Close waits until everything queued is written and on disk, and frees what
// the journal holds. The error is that of the term, if it failed. Closing twice
// is safe. The files stay as they are.
func (j *Journal) Close() error {
	j.queueMu.Lock()
	j.closing = true
	j.queueMu.Unlock()
	j.signal()
	<-j.stopped
	return j.Err()
}

func (j *Journal) enqueue(it *item) {
	j.queueMu.Lock()
	closing := j.closing
	if !closing {
		j.queue = append(j.queue, it)
	}
	j.queueMu.Unlock()
	if closing {
		it.finish(ErrClosed)
		return
	}
	j.signal()
}

func (j *Journal) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// take empties the queue.
func (j *Journal) take() (items []*item, closing bool) {
	j.queueMu.Lock()
	defer j.queueMu.Unlock()
	items, j.queue = j.queue, nil
	return items, j.closing
}

// run is the journal's goroutine: it alone changes the index and the files.
func (j *Journal) run() {
	defer close(j.stopped)
	defer j.closeFiles()
	timer := time.NewTimer(j.o.SyncWithin)
	timer.Stop()
	armed := false
	for {
		var retry <-chan time.Time
		if len(j.held) > 0 {
			retry = time.After(j.o.RetryAfter)
		}
		select {
		case <-j.wake:
		case <-retry:
		case <-timer.C:
			armed = false
			_ = j.flush() // if it fails, Failed says so
		}
		items, closing := j.take()
		j.commit(items)
		if closing {
			for _, it := range j.held {
				it.finish(ErrDiskFull)
			}
			_ = j.flush()
			return
		}
		if dirty := j.dirty(); dirty != armed {
			armed = dirty
			timer.Stop()
			if armed {
				timer.Reset(j.o.SyncWithin)
			}
		}
	}
}

// commit writes what waits for space and then items, in order, and answers those
// that wait for the disk after one fsync for all. Once there is no space for one,
// all later ones wait or are refused, so that none overtakes.
func (j *Journal) commit(items []*item) {
	held, began := j.held, len(j.held) > 0
	j.held = nil
	var (
		waiting []*item
		full    error // there is no space
	)
	for len(held)+len(items) > 0 {
		var now []*item
		if len(held) > 0 { // one by one, as there may be little space
			now, held = held[:1], held[1:]
		} else {
			n := batch(items)
			now, items = items[:n], items[n:]
		}
		if now[0].check {
			now[0].finish(j.check())
			continue
		}
		err := cmp.Or(now[0].err, full)
		if err == nil {
			err = j.append(now)
		}
		if errors.Is(err, ErrDiskFull) {
			full = err
		}
		for _, it := range now {
			switch {
			case err == nil && it.sync:
				waiting = append(waiting, it)
			case it.patient && errors.Is(err, ErrDiskFull):
				j.held = append(j.held, it)
			default:
				it.finish(err)
			}
		}
	}
	j.tellFull(began)
	if len(waiting) == 0 {
		return
	}
	err := j.flush()
	for _, it := range waiting {
		it.finish(err)
	}
}

// tellFull tells when writes begin to wait for space, and when they no longer do.
func (j *Journal) tellFull(began bool) {
	switch waits := len(j.held) > 0; {
	case waits && !began:
		j.log.Warn().Str(keyPath, j.own).Msg("no space left for the journal: what is to be recorded waits, free some")
	case began && !waits && j.Err() == nil:
		j.log.Info().Str(keyPath, j.own).Msg("there is space for the journal again: recorded what waited")
	}
}

// batch returns how many of the items go into one write.
func batch(items []*item) int {
	size := 0
	for i, it := range items {
		size += len(it.lines)
		if it.check || it.err != nil || size > chunk {
			return max(i, 1)
		}
	}
	return len(items)
}

// append writes the lines of items and brings their records into the index.
// After a write that failed it tries once more, in a new file.
func (j *Journal) append(items []*item) error {
	if err := j.Err(); err != nil {
		return err
	}
	lines := items[0].lines
	if len(items) > 1 {
		j.buf = j.buf[:0]
		for _, it := range items {
			j.buf = append(j.buf, it.lines...)
		}
		lines = j.buf
	}
	if !j.broken && j.newest().end > j.newest().rotateAt {
		if err := j.renew(); err != nil && !j.broken {
			j.newest().rotateAt = j.newest().end + j.o.RotateAt
			j.log.Warn().Err(err).Int64("again_after", j.o.RotateAt).Msg("journal cannot begin a new file, goes on in the old one")
		}
	}
	again := !j.broken
	at, err := j.write(lines)
	if err != nil && again && j.Err() == nil {
		j.log.Warn().Err(err).Msg("journal cannot be written, tries a new file")
		at, err = j.write(lines)
	}
	if err != nil {
		return err
	}
	j.fold(items, at)
	return nil
}

// write appends lines to the newest file, or to a new one if that is broken, and
// returns where they stand.
func (j *Journal) write(lines []byte) (at int64, err error) {
	if j.broken {
		if err := j.renew(); err != nil {
			return 0, err
		}
	}
	f := j.newest()
	if len(lines) == 0 {
		return f.end, nil
	}
	at = f.end
	if _, err := f.Write(lines); err != nil {
		j.broken = true
		j.dropBare()
		return 0, wrap("write journal", err)
	}
	if at == f.bare {
		j.log.Warn().Str(keyPath, f.path).Msg("no space for a snapshot: carries the journal on without")
	}
	return at, nil
}

// newest returns the file that is appended to.
func (j *Journal) newest() *logFile { return j.files[len(j.files)-1] }

// fold brings items into the index whose lines were written at at.
func (j *Journal) fold(items []*item, at int64) {
	j.mu.Lock()
	file := uint8(len(j.files) - 1)
	for _, it := range items {
		for i := range it.records {
			j.index.fold(&it.records[i], span{file, at, it.lengths[i]})
			at += int64(it.lengths[i])
		}
	}
	j.mu.Unlock()
	j.tellDropped()
}

func (j *Journal) tellDropped() {
	if j.index.dropped > 0 {
		j.log.Warn().Int("dropped", j.index.dropped).Int("kept", j.o.MaxDead).Msg("more dead letters than are kept: the oldest are dropped")
		j.index.dropped = 0
	}
}

// dirty reports whether something was written and not brought to disk.
func (j *Journal) dirty() bool { return len(j.files) > 0 && j.newest().dirty }

// flush brings to disk what was written. If that fails the term ends.
func (j *Journal) flush() error {
	if err := j.Err(); err != nil || !j.dirty() {
		return err
	}
	if err := j.newest().Sync(); err != nil {
		return j.fail(fmt.Errorf("bring journal to disk: %w", err))
	}
	return nil
}

// check is Check, on the goroutine of run.
func (j *Journal) check() error {
	if err := j.Err(); err != nil {
		return err
	}
	if len(j.held) > 0 {
		return ErrDiskFull
	}
	err := j.inOrder()
	switch {
	case errors.Is(err, errGone), errors.Is(err, errAltered):
		if !j.broken {
			j.log.Warn().Err(err).Msg("journal is not as it was written: begins a new file")
		}
		return j.renew()
	case err != nil:
		return fmt.Errorf("check journal: %w", err)
	}
	return nil
}

// inOrder returns errGone or errAltered if one of the files is not as it was
// written, and errors of the operating system.
func (j *Journal) inOrder() error {
	for i, f := range j.files {
		if err := f.check(i == len(j.files)-1 && !j.broken); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	if len(j.files) == 0 {
		return errGone
	}
	return nil
}

// closeFiles ends all reading.
func (j *Journal) closeFiles() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	for _, f := range j.files {
		_ = f.Close()
	}
}
