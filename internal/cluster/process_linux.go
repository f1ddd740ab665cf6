package cluster

import (
	"os/exec"
	"syscall"
)

// detach gives the process a group of its own, so that Ctrl-C at the terminal
// is the cluster's to handle, and lets it die with the thread that starts it.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
