package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

var (
	// ErrSuperseded means that a directory for an equal or higher term exists:
	// another leader has taken the journal over. What this process still
	// writes is never read; it must stop leading.
	ErrSuperseded = errors.New("journal belongs to another term")

	// ErrUnusable means that something stands in the way that the journal did
	// not make and does not touch: a file, a symbolic link, a journal of a
	// newer version, a directory of another user's, a read-only file system. The
	// message names the path and what to do.
	ErrUnusable = errors.New("journal directory is unusable")

	// ErrDiskFull means that nothing of the call was recorded because there is
	// no space, or the quota is used up. The journal stays usable: the same
	// records can be written again once there is space.
	ErrDiskFull = errors.New("no space left for the journal")

	// ErrInvalid means that a record cannot be written at all, as a required
	// field is missing or a line would be longer than MaxLine.
	ErrInvalid = errors.New("invalid journal record")

	// ErrDamaged means that what was recorded is no longer there: somebody cut
	// the file off or overwrote it while it was in use. It does not pass.
	ErrDamaged = errors.New("lost from the journal, whose file was damaged")

	// ErrNotFound means that there is no such entry or call, or that it has no
	// such content.
	ErrNotFound = errors.New("not in the journal")

	// ErrClosed means that Close was called.
	ErrClosed = errors.New("journal is closed")
)

// unusable describes what stands at path and how to get rid of it.
func unusable(path, problem, remedy string) error {
	return fmt.Errorf("%s %s: %s: %w", path, problem, remedy, ErrUnusable)
}

// wrap says what was tried. It marks an error of the operating system that says
// that the disk is full or the directory cannot be changed by us, and leaves nil
// as it is.
func wrap(tried string, err error) error {
	switch {
	case err == nil:
		return nil
	case isFull(err):
		return fmt.Errorf("%s: %w: %w", tried, ErrDiskFull, err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s: %w: make it writable: %w", tried, err, ErrUnusable)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: %w: let uid %d write there: %w", tried, err, os.Getuid(), ErrUnusable)
	}
	return fmt.Errorf("%s: %w", tried, err)
}
