package command_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCommandDiesWithItsRunner kills a process that runs a command, as kill -9
// does with a member.
func TestCommandDiesWithItsRunner(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	runner := helperCommand("runner", file)
	if err := runner.Start(); err != nil {
		t.Fatal(err)
	}
	pid := ""
	for range 1000 {
		if content, err := os.ReadFile(file); err == nil {
			pid = strings.TrimSpace(string(content))
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := runner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = runner.Wait()
	if pid == "" {
		t.Fatal("the command never ran")
	}
	mustBeGone(t, pid)
}

// TestFirstProcess is F69 as pid 1 of a PID namespace: commands leave orphans,
// in their group and outside; in the end none is left, neither alive nor
// defunct, and no command's exit code was taken by the reaper.
func TestFirstProcess(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and unshare")
	}
	first := helperCommand("first")
	cmd := exec.Command(unshare, append([]string{"--pid", "--fork", "--kill-child", "--mount-proc"}, first.Args...)...)
	output, err := cmd.CombinedOutput()
	if err != nil || string(output) != "left: []\n" {
		t.Errorf("%s%v", output, err)
	}
}
