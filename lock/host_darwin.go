package lock

import (
	"errors"

	"golang.org/x/sys/unix"
)

// fillHost takes the boot's id for the PID namespace too: there is one a boot.
func fillHost(h *Host) {
	if id, err := unix.Sysctl("kern.bootsessionuuid"); err == nil && id != "" {
		h.BootID = id
		h.PIDNamespace = "boot:" + id
	}
}

// processGone reports whether the pid is free. Births are not compared: a pid
// that was given to another process counts as alive until its beat stands.
func processGone(pid int, _ string) bool {
	return errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}
