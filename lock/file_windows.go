package lock

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/windows"
)

const openSafely = 0

// supported says why the package cannot work on this system.
func supported() error {
	return fmt.Errorf("windows: an open file cannot be renamed, and a locked one not be read by others: %w", errors.ErrUnsupported)
}

func ownerOf(fs.FileInfo) (int, bool) { return 0, false }

func inodeOf(fs.FileInfo) uint64 { return 0 }

func isReadOnly(err error) bool { return errors.Is(err, windows.ERROR_WRITE_PROTECT) }

func isDiskFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

// syncDir does nothing: directories cannot be flushed here.
func syncDir(string) error { return nil }
