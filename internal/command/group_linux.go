package command

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Limits returns what the platform lacks of the package's contract, a sentence
// each.
func Limits() []string {
	return []string{"what a command started outlives a tgbridge that is killed with SIGKILL, unless that is pid 1; the command itself does not"}
}

// prepare sets what only holds from the start: a group of its own, and the end
// with the thread that starts it.
func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// finish waits for the command's end, ends the watching, kills what is left of
// the group, and collects the command.
//
// The order matters: as long as the command is not collected, its pid, which
// is the number of the group, cannot be given to another process.
func finish(cmd *exec.Cmd, w *watch) error {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break // it has ended; an error would mean that Wait does not block either
		}
	}
	w.end()
	kill(cmd)
	return cmd.Wait()
}
