//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package lock

import (
	"errors"
	"fmt"
	"os"
)

// systemFlock has nothing to call here. LockFileEx of Windows would do, but its
// locks are mandatory: a locked file could not be read by observers.
func systemFlock(*os.File, lockMode) error {
	return fmt.Errorf("flock: not on this system: %w", errors.ErrUnsupported)
}
