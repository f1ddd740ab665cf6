//go:build unix

package command

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminate asks the command's group to end.
func terminate(cmd *exec.Cmd) { signalGroup(cmd, syscall.SIGTERM) }

// kill ends the command's group.
func kill(cmd *exec.Cmd) { signalGroup(cmd, syscall.SIGKILL) }

// signalGroup sends a signal to all processes of the command's group. Errors
// say that there is nobody left, or only processes of another user: neither
// leaves anything to do.
func signalGroup(cmd *exec.Cmd, signal syscall.Signal) {
	_ = syscall.Kill(-cmd.Process.Pid, signal)
}

// signalName returns the name of the signal that ended the command, or "".
func signalName(state *os.ProcessState) string {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return ""
	}
	return unix.SignalName(status.Signal())
}
