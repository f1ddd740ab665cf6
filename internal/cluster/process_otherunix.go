//go:build unix && !linux

package cluster

import (
	"os/exec"
	"syscall"
)

// detach gives the process a group of its own, so that Ctrl-C at the terminal
// is the cluster's to handle.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
