package lock

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func fillHost(h *Host) {
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		h.BootID = strings.TrimSpace(string(id))
	}
	if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil {
		h.PIDNamespace = ns
	}
	h.BornAt = bornAt("self")
}

// bornAt returns the start time of a process of this PID namespace, "" if it
// cannot be read. The command name in field 2 may hold blanks and brackets, so
// fields are counted from the last closing one.
func bornAt(process string) string {
	stat, err := os.ReadFile("/proc/" + process + "/stat")
	if err != nil {
		return ""
	}
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return ""
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 20 { // field 3 is the first here, field 22 the twentieth
		return ""
	}
	return fields[19]
}

// processGone reports whether no process of this PID namespace has that pid and
// that birth. Only ESRCH means that a pid is free: EPERM is a live process of
// another user. A birth that is not known on either side compares with none.
func processGone(pid int, born string) bool {
	if err := unix.Kill(pid, 0); errors.Is(err, unix.ESRCH) {
		return true
	}
	if born == "" || !procIsOurs() {
		return false
	}
	now := bornAt(strconv.Itoa(pid))
	return now != "" && now != born
}

// procIsOurs reports whether /proc shows this PID namespace: after an unshare
// without a new mount it still shows the parent's, where a pid is someone else.
func procIsOurs() bool {
	self, err := os.Readlink("/proc/self")
	return err == nil && self == strconv.Itoa(os.Getpid())
}
