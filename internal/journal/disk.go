package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
)

// A disk is the operations by which the journal changes the file system, and
// reads of files, each with a place for tests to look on, to fail it, or to stop.
type disk struct {
	// fault is called before each operation; nil: nothing is. With an error the
	// operation is not made, a write in half.
	fault func(op, path string) error
}

func (d disk) before(op, path string) error {
	if d.fault == nil {
		return nil
	}
	return d.fault(op, path)
}

func (d disk) mkdir(path string) error {
	if err := d.before("mkdir", path); err != nil {
		return err
	}
	return os.Mkdir(path, 0o700)
}

func (d disk) rename(from, to string) error {
	if err := d.before("rename", from); err != nil {
		return err
	}
	return os.Rename(from, to)
}

func (d disk) remove(path string) error {
	if err := d.before("remove", path); err != nil {
		return err
	}
	return os.Remove(path)
}

func (d disk) syncDir(path string) error {
	if err := d.before("syncdir", path); err != nil {
		return err
	}
	return syncDir(path)
}

// mkdirAll makes path and the directories above it that are missing, and brings
// each new name to disk.
func (d disk) mkdirAll(path string) error {
	switch _, err := os.Lstat(path); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(path)
	if err := d.mkdirAll(parent); err != nil {
		return err
	}
	if err := d.mkdir(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.syncDir(parent)
}

// A logFile is one open file of the journal.
type logFile struct {
	*os.File
	disk     disk
	path     string
	number   uint64
	end      int64       // where it ends by what was read or written
	rotateAt int64       // the end above which a new file is begun
	bare     int64       // the end of its base, if it has no snapshot
	dirty    bool        // something was written and not brought to disk
	damaged  atomic.Bool // a line was read that is not what it was
}

// create makes a new file to be written. It never opens one that is there.
func (d disk) create(path string, number uint64) (*logFile, error) {
	if err := d.before("create", path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &logFile{File: f, disk: d, path: path, number: number}, nil
}

// open opens a file to be read.
func (d disk) open(path string, number uint64) (*logFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &logFile{File: f, disk: d, path: path, number: number}, nil
}

// Write appends the whole of p, or returns an error. It is errAltered if the
// file was no longer as it was written: then p does not stand where it should.
// After any error the file must not be appended to again. What of p was written
// is cut off: it must not be found by a successor beside the same written again.
func (f *logFile) Write(p []byte) (int, error) {
	n, err := f.write(p)
	size, sizeErr := f.size()
	switch {
	case err != nil:
	case sizeErr != nil:
		err = sizeErr
	case size != f.end+int64(n):
		err = errAltered
	}
	if err != nil {
		_ = f.Truncate(size - int64(n))
		return n, err
	}
	f.end, f.dirty = size, true
	return n, nil
}

func (f *logFile) write(p []byte) (int, error) {
	if err := f.disk.before("write", f.path); err != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, err
	}
	return f.File.Write(p)
}

// ReadAt is that of os.File.
func (f *logFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.disk.before("read", f.path); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

// errAltered: what was written is not all there, or not all that is there was
// written.
var errAltered = errors.New("somebody cut the file off or wrote to it")

func (f *logFile) size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Sync brings what was written to disk. After an error nobody knows what is there
// (fsync(2)), and a later success says nothing.
func (f *logFile) Sync() error {
	f.dirty = false
	if err := f.disk.before("sync", f.path); err != nil {
		return err
	}
	return f.File.Sync()
}

// errGone: what is written to the file is not found by a successor.
var errGone = errors.New("the file is not at its path any more")

// check returns errGone or errAltered if that is so, and errors of the operating
// system if it cannot be known. A file that is not appended to any more may be
// longer than it was: a predecessor has it open, perhaps.
func (f *logFile) check(appended bool) error {
	open, err := f.Stat()
	if err != nil {
		return err
	}
	named, err := os.Lstat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(open, named):
		return errGone
	case err != nil:
		return err
	case open.Size() < f.end, appended && open.Size() > f.end, f.damaged.Load():
		return errAltered
	}
	return nil
}

// A window reads lines one by one. Where one begins soon after the last ended, it
// reads more than that one, as snapshots go through files from the beginning. Its
// zero value is ready.
type window struct {
	f   *logFile
	off int64 // of buf
	buf []byte
}

const (
	windowSize = 256 << 10
	windowGap  = 16 << 10 // how far apart such lines are at most
)

// line returns the line that stands at at in f, and its object, a part of it;
// both hold until the next call. The error is ErrDamaged if it is not there any
// more.
func (w *window) line(f *logFile, at span) (line, object []byte, err error) {
	length := int(at.length)
	if end := w.off + int64(len(w.buf)); w.f != f || at.off < w.off || at.off+int64(length) > end {
		n := length
		if w.f == f && at.off >= w.off && at.off < end+windowGap {
			n = max(n, windowSize)
		}
		w.buf = slices.Grow(w.buf[:0], n)[:n]
		n, err = f.ReadAt(w.buf, at.off)
		w.f, w.off, w.buf = f, at.off, w.buf[:n]
	}
	line = w.buf[at.off-w.off:]
	if len(line) >= length { // whatever came after it
		line = line[:length]
		object, err = parseLine(line)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, errBadLine) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read %s at %d: %w", f.path, at.off, err)
	}
	return line, object, nil
}
