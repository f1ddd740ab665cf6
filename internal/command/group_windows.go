package command

import (
	"os"
	"os/exec"
)

// Limits returns what the platform lacks of the package's contract, a sentence
// each.
func Limits() []string {
	return []string{
		"commands are ended at once, without being asked to end before",
		"what a command started is not ended with it",
		"commands outlive a tgbridge that is ended by force",
	}
}

func prepare(*exec.Cmd) {}

// terminate kills the command: there is no other way to ask that every command
// would understand.
func terminate(cmd *exec.Cmd) { kill(cmd) }

// kill ends the command. An error says that it has ended.
func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func signalName(*os.ProcessState) string { return "" }

// finish waits for the command's end and ends the watching.
func finish(cmd *exec.Cmd, w *watch) error {
	err := cmd.Wait()
	w.end()
	return err
}
