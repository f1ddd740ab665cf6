package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
)

// A lockMode says how a file is locked.
type lockMode int

const (
	lockShared lockMode = iota
	lockExclusive
)

// errHeld says that another open file description holds a lock which excludes
// the one asked for.
var errHeld = errors.New("held by another process")

// errNoLocks says that the system call for kernel locks fails.
var errNoLocks = errors.New("kernel locks fail")

// A flockFunc tries to lock a whole open file and never waits. The lock belongs
// to the open file description and ends with its last descriptor. errHeld means
// that someone else has it; any other error that locks do not work here.
type flockFunc func(f *os.File, mode lockMode) error

// lockPatience is how long an owner tries to lock its own new file: a reader's
// probe may hold a shared lock for an instant.
const lockPatience = time.Second

// lockOwn locks an owner's file, and waits for probes to pass.
func lockOwn(f *os.File, flock flockFunc) error {
	for end := time.Now().Add(lockPatience); ; {
		err := flock(f, lockExclusive)
		if !errors.Is(err, errHeld) || time.Now().After(end) {
			return err
		}
		if err := sleep(context.Background(), 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// LocksExclude reports whether kernel locks work in the state directory dir: it
// locks a scratch file in its members/ through one descriptor and sees whether
// a second one is refused. An error tells, by name, why there are none. The
// scratch file is removed. A Member has done this by itself (LocksBelieved);
// an Observer without one needs the answer for its options.
func LocksExclude(dir string) (bool, error) {
	return locksExclude(filepath.Join(dir, membersDir, "."+uuid.NewString()+scratchSuffix), systemFlock)
}

func locksExclude(scratch string, flock flockFunc) (excludes bool, err error) {
	first, err := os.OpenFile(scratch, os.O_RDWR|os.O_CREATE|os.O_EXCL|openSafely, 0o600)
	if err != nil {
		return false, fmt.Errorf("try locks: %w", explain(scratch, "make a scratch file", err))
	}
	defer func() {
		err = errors.Join(err, first.Close(), unlink(scratch))
	}()
	if err := lockOwn(first, flock); err != nil {
		return false, fmt.Errorf("%w: %w", errNoLocks, err)
	}
	second, err := os.Open(scratch)
	if err != nil {
		return false, fmt.Errorf("try locks: %w", err)
	}
	defer func() { err = errors.Join(err, second.Close()) }()
	switch err := flock(second, lockShared); {
	case errors.Is(err, errHeld):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("%w: %w", errNoLocks, err)
	}
	return false, nil
}
