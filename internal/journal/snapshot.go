package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// renew begins a new file and removes the older ones once it is on disk. From
// the moment that the new file is there the old one must not be appended to, as
// it would be read before it: if renew fails after that, it has to succeed
// before anything is written.
//
// An attempt may copy much before it finds the disk full. So after one that
// failed, the same error is the answer for four times as long as that took.
func (j *Journal) renew() error {
	start := time.Now()
	if start.Before(j.again) {
		return j.refusal
	}
	err := j.begin()
	if err != nil {
		j.refusal, j.again = err, time.Now().Add(4*time.Since(start))
	}
	return err
}

// begin is one attempt of renew. Where there is no space for all that is live,
// a file without a snapshot carries the older ones on, so that outcomes are
// taken in until what is live has become less.
func (j *Journal) begin() error {
	if err := j.ensureOwn(); err != nil {
		return err
	}
	s, err := j.newFile((*snapshot).all)
	if err == nil {
		j.adopt(s)
		j.removeOlder(s.f.number)
		return nil
	}
	if !errors.Is(err, ErrDiskFull) || !j.canCarryOn() {
		return err
	}
	if err := j.flush(); err != nil {
		return err
	}
	if s, err = j.newFile((*snapshot).base); err != nil {
		return err
	}
	s.f.rotateAt, s.f.bare = s.off+j.o.RotateAt, s.off
	j.mu.Lock()
	j.files = append(j.files, s.f)
	j.mu.Unlock()
	j.broken = false
	return nil
}

// dropBare removes the newest file if it has nothing but its base: the next
// attempt makes another one, and there is little space.
func (j *Journal) dropBare() {
	f := j.newest()
	if f.end != f.bare {
		return
	}
	j.mu.Lock()
	j.files = j.files[:len(j.files)-1]
	j.mu.Unlock()
	_ = f.Close()
	_ = j.disk.remove(f.path)
}

// canCarryOn reports whether what is live is in files that will be read.
func (j *Journal) canCarryOn() bool {
	return j.inOrder() == nil && len(j.files) < maxFiles
}

// newFile makes the next file with what write gives, and brings it to disk.
func (j *Journal) newFile(write func(*snapshot, *Journal) error) (*snapshot, error) {
	f, err := j.createNext()
	if err != nil {
		return nil, j.explain(err)
	}
	j.broken = true
	s := &snapshot{f: f, w: bufio.NewWriterSize(f, 256<<10)}
	err = write(s, j)
	if err == nil {
		err = s.w.Flush()
	}
	if err != nil {
		_ = f.Close()
		_ = j.disk.remove(f.path)
		if s.unreadable {
			return nil, j.fail(fmt.Errorf("write snapshot: %w", err))
		}
		return nil, wrap("write snapshot", err)
	}
	if err = f.Sync(); err == nil {
		err = j.disk.syncDir(j.own)
	}
	if err != nil {
		_ = f.Close()
		return nil, j.fail(j.explain(fmt.Errorf("bring journal to disk: %w", err)))
	}
	return s, nil
}

// ensureOwn makes the term's directory again if it is not there: unless another
// leader took it, somebody deleted it.
func (j *Journal) ensureOwn() error {
	there, err := checkDir(j.own)
	if there || err != nil {
		return err
	}
	if err := j.superseded(); err != nil {
		return err
	}
	j.log.Warn().Str(keyPath, j.own).Msg("journal directory is gone: makes it again")
	if err := j.disk.mkdirAll(j.own); err != nil {
		return wrap("make journal directory", err)
	}
	if err := j.superseded(); err != nil {
		_ = j.disk.remove(j.own) // empty: nothing was written
		return err
	}
	return nil
}

// superseded ends the term if there is a directory of a higher one.
func (j *Journal) superseded() error {
	highest, err := HighestTerm(j.dir)
	if err != nil || highest <= j.term {
		return err
	}
	return j.fail(fmt.Errorf("journal of term %d: %s is there: %w", j.term, termPath(j.dir, highest), ErrSuperseded))
}

// explain makes ErrSuperseded of the error that a path of this term's does not
// exist, if that is why.
func (j *Journal) explain(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		if why := j.superseded(); why != nil {
			return why
		}
	}
	return err
}

// createNext creates the file with the next number. A predecessor that was
// stopped in the midst of the same may have made one of that number.
func (j *Journal) createNext() (*logFile, error) {
	for {
		number := uint64(0)
		if len(j.files) > 0 {
			number = j.files[len(j.files)-1].number
		}
		for _, ending := range []string{logEnding, keptEnding} {
			numbers, err := listFiles(j.own, ending)
			if err != nil {
				return nil, err
			}
			if len(numbers) > 0 {
				number = max(number, numbers[len(numbers)-1])
			}
		}
		if number >= maxNumber { // a file above it would not be read
			return nil, unusable(filePath(j.own, number, logEnding), "has the highest number that there can be",
				"stop all members and rename it to the number after its predecessor's")
		}
		f, err := j.disk.create(filePath(j.own, number+1, logEnding), number+1)
		if !errors.Is(err, fs.ErrExist) {
			return f, wrap("begin journal file", err)
		}
	}
}

// adopt makes the file of a snapshot the one that is appended to.
func (j *Journal) adopt(s *snapshot) {
	s.f.rotateAt = s.off + max(j.o.RotateAt, s.off)
	j.mu.Lock()
	old := j.files
	j.files = []*logFile{s.f}
	for i, e := range j.index.list {
		j.index.move(e, s.moves[i])
	}
	for _, c := range j.index.calls {
		c.result = s.results[c]
	}
	j.mu.Unlock()
	s.tellLost(j)
	for _, f := range old {
		_ = f.Close()
	}
	j.broken = false
}

// removeOlder removes the files below number; those that may still be wanted it
// puts aside instead, the latest only. What cannot be removed goes the next
// time.
func (j *Journal) removeOlder(number uint64) {
	logs, _ := listFiles(j.own, logEnding)
	if len(j.keep) > 0 {
		kept, _ := listFiles(j.own, keptEnding)
		for _, n := range kept {
			_ = j.disk.remove(filePath(j.own, n, keptEnding))
		}
	}
	for _, n := range logs {
		path := filePath(j.own, n, logEnding)
		switch {
		case n >= number:
		case slices.Contains(j.keep, n):
			aside := filePath(j.own, n, keptEnding)
			if err := j.disk.rename(path, aside); err == nil {
				j.log.Warn().Str(keyPath, aside).Msg("put aside the journal file with lines that could not be understood")
			}
		default:
			_ = j.disk.remove(path)
		}
	}
	j.keep = nil
}

// A snapshot is a new file on its way.
type snapshot struct {
	f          *logFile
	w          *bufio.Writer
	off        int64
	moves      []move         // by place in index.list
	results    map[*call]span // where the lines of results went
	buf        []byte
	from       window
	lost       map[uint64]int // by number of a file: how many lines were not what they had been
	unreadable bool           // the system could not read what is live
}

// A move is where an entry's lines went.
type move struct {
	body, reply span // length 0: it has none, or it was lost
	lost        bool // the body was: its line says what else there is to the update
}

// base writes the first record.
func (s *snapshot) base(j *Journal) error {
	_, err := s.put(&Record{Kind: kindBase, version: version, next: j.index.next})
	return err
}

// all writes base, entries, calls, complete.
func (s *snapshot) all(j *Journal) error {
	x, files := j.index, j.files
	if err := s.base(j); err != nil {
		return err
	}
	s.moves = make([]move, len(x.list))
	for i, e := range x.list {
		if e.state == gone {
			continue
		}
		if err := s.entry(e, files, &s.moves[i]); err != nil {
			return err
		}
	}
	for _, e := range x.dead { // in the order in which they became so, which counts
		if err := s.state(e); err != nil {
			return err
		}
	}
	s.results = make(map[*call]span)
	for _, c := range x.calls {
		_, err := s.put(&Record{Kind: KindCall, Request: c.request, Seq: c.seq, Lane: c.lane.Value(), By: c.by, Hash: c.hash})
		if err == nil && c.result.length > 0 {
			s.results[c], err = s.copy(files, c.result)
			if errors.Is(err, ErrDamaged) { // it was made: never again
				s.results[c], err = s.put(&Record{Kind: KindResult, Request: c.request})
			}
		}
		if err != nil {
			return err
		}
	}
	_, err := s.put(&Record{Kind: kindComplete})
	return err
}

// entry writes an entry: its update's line as it is, then its reply's, then
// what else is known of it, but for dead letters. What was lost it leaves out.
func (s *snapshot) entry(e *entry, files []*logFile, to *move) (err error) {
	to.body, err = s.copy(files, e.body())
	if errors.Is(err, ErrDamaged) {
		to.lost = true
		to.body, err = s.put(&Record{
			Kind: KindUpdate, Seq: e.seq, Delivery: e.delivery, ID: e.id, Hash: e.hash, Lane: e.lane.Value(),
		})
	}
	if err != nil {
		return err
	}
	if e.replyLen > 0 {
		to.reply, err = s.copy(files, e.reply())
		if err != nil && !errors.Is(err, ErrDamaged) {
			return err
		}
	}
	if e.state == Dead || e.state == Pending && e.attempt == 0 {
		return nil
	}
	return s.state(e)
}

func (s *snapshot) state(e *entry) error {
	r := Record{Kind: kindState, Seq: e.seq, Attempt: int(e.attempt), state: e.state, confirmed: e.confirmed}
	if w := e.work; w != nil {
		r.Member, r.Name, r.Reason, r.Term = w.member, w.name, w.reason, w.term
	}
	_, err := s.put(&r)
	return err
}

// put appends a record, and returns where its line went.
func (s *snapshot) put(r *Record) (span, error) {
	object, err := r.encode()
	if err != nil {
		return span{}, err
	}
	s.buf = appendLine(s.buf[:0], object)
	return s.append(s.buf)
}

// copy appends a line that stands in another file, and returns where it went.
// With ErrDamaged there is no such line any more.
func (s *snapshot) copy(files []*logFile, at span) (span, error) {
	f := files[at.file]
	line, _, err := s.from.line(f, at)
	switch {
	case errors.Is(err, ErrDamaged):
		if s.lost == nil {
			s.lost = map[uint64]int{}
		}
		s.lost[f.number]++
	case err != nil:
		s.unreadable = true
	}
	if err != nil {
		return span{}, err
	}
	return s.append(line)
}

// tellLost tells of the lines that were lost, and has what is left of their
// files put aside.
func (s *snapshot) tellLost(j *Journal) {
	for number, n := range s.lost {
		j.keep = append(j.keep, number)
		j.log.Warn().Str(keyPath, filePath(j.own, number, logEnding)).Int("lines", n).
			Msg("journal file was damaged while it was written: texts in it are lost")
	}
}

func (s *snapshot) append(line []byte) (span, error) {
	at := span{off: s.off, length: int32(len(line))}
	n, err := s.w.Write(line)
	s.off += int64(n)
	return at, err
}
