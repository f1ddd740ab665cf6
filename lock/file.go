package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// maxFileBytes bounds what is read of any shared file into memory, and what is
// published as one.
const maxFileBytes = 16 << 20

// errTooLarge says that a file has more than maxFileBytes.
var errTooLarge = fmt.Errorf("more than the limit of %d", maxFileBytes)

// busyTries and busyPause: how often a rename or unlink is tried that fails
// with EPERM, EBUSY or EACCES, as scanners and some network file systems cause
// for a moment. The pause grows by itself with each try.
const (
	busyTries = 5
	busyPause = 25 * time.Millisecond
)

// readShared returns the content of a regular file, nil and fs.ErrNotExist if
// there is none. It follows no symlink and does not wait on a FIFO: anything
// that is not a regular file is an UnusableError.
func readShared(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|openSafely, 0)
	if err != nil {
		if info, lerr := os.Lstat(path); lerr == nil && !info.Mode().IsRegular() {
			return nil, notRegular(path, info)
		}
		return nil, explain(path, "read", err)
	}
	content, err := readRegular(f, path)
	return content, errors.Join(err, f.Close())
}

func readRegular(f *os.File, path string) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(path, info)
	}
	if info.Size() > maxFileBytes {
		return nil, &UnusableError{Path: path, Problem: fmt.Sprintf("has %d bytes", info.Size()), Err: errTooLarge,
			Remedy: "move it away"}
	}
	// A published file is never changed in place: its size is the whole of it.
	content := make([]byte, info.Size())
	n, err := io.ReadFull(f, content)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return content[:n], err
}

func notRegular(path string, info fs.FileInfo) error {
	return &UnusableError{Path: path, Problem: "is not a regular file (" + info.Mode().String() + ")",
		Remedy: "move it away"}
}

// writeNew writes a file that must not exist yet, for this user alone.
func writeNew(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|openSafely, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// writeSynced writes to an open file, gets it onto the disk and closes it.
func writeSynced(f *os.File, content io.Reader) error {
	_, err := io.Copy(f, content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// unlink removes a file, never a directory: os.Remove would try rmdir as well.
// A file that is gone is no error.
func unlink(path string) error {
	for {
		err := syscall.Unlink(path)
		switch {
		case err == nil || errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, syscall.EINTR):
		default:
			return &fs.PathError{Op: "unlink", Path: path, Err: err}
		}
	}
}

// rmdir removes an empty directory, never a file. One that is gone is no error.
func rmdir(path string) error {
	for {
		err := syscall.Rmdir(path)
		switch {
		case err == nil || errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, syscall.EINTR):
		default:
			return &fs.PathError{Op: "rmdir", Path: path, Err: err}
		}
	}
}

// patiently does what a file system may refuse for a moment, five times.
func patiently(do func() error) error {
	var err error
	for try := 1; ; try++ {
		err = do()
		if err == nil || try == busyTries ||
			!errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EBUSY) {
			return err
		}
		time.Sleep(time.Duration(try) * busyPause)
	}
}

// sleep waits for d or for the end of ctx, whose cause it returns.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
