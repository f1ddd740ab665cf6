//go:build unix && !linux

package command

import (
	"os/exec"
	"syscall"
)

// Limits returns what the platform lacks of the package's contract, a sentence
// each.
func Limits() []string {
	return []string{"commands outlive a tgbridge that is killed with SIGKILL"}
}

// prepare sets what only holds from the start: a group of its own.
func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// finish waits for the command's end, ends the watching, and kills what is
// left of the group. A command whose output is held open by its own children
// takes outputDelay longer than on Linux, where these are killed before.
func finish(cmd *exec.Cmd, w *watch) error {
	err := cmd.Wait()
	w.end()
	kill(cmd)
	return err
}
