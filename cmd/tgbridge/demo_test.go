//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// demoIn prepares the demo, with its own place for temporary files.
func demoIn(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	tmp := t.TempDir()
	cmd := exec.Command(program(t), append([]string{"demo"}, args...)...)
	cmd.Env = []string{"TMPDIR=" + tmp}
	return cmd, tmp
}

// mustBeEmpty fails the test if the demo left something behind.
func mustBeEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left in %s: %v, %v", dir, left, err)
	}
}

// TestDemo runs the whole of it: the last line is an object of exactly the
// documented members, and nothing was lost.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	f := newFleet(t)
	cmd, tmp := demoIn(t, "--json")
	r := f.runCommand(cmd)
	r.wants(t, 0)
	mustBeEmpty(t, tmp)
	if r.stderr != "" || strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("printed %q, %q", r.stdout, r.stderr)
	}
	want := strings.Fields("disorder doubled failovers lost received sent verdict")
	if diff := cmp.Diff(want, keys(t, json.RawMessage(r.stdout))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var result struct {
		Sent, Received, Lost, Doubled, Disorder int
		Failovers                               []json.RawMessage
		Verdict                                 string
	}
	if err := json.Unmarshal([]byte(r.stdout), &result); err != nil {
		t.Fatal(err)
	}
	if result.Verdict != "ok" || result.Sent < 200 || result.Received != result.Sent || result.Lost != 0 || result.Disorder != 0 {
		t.Errorf("result %+v", result)
	}
	var kinds []string
	for _, raw := range result.Failovers {
		if diff := cmp.Diff([]string{"gap_ms", "kind"}, keys(t, raw)); diff != "" {
			t.Errorf("failover (-want +got)\n%s", diff)
		}
		var failover struct {
			Kind string
			Gap  float64 `json:"gap_ms"`
		}
		if err := json.Unmarshal(raw, &failover); err != nil {
			t.Fatal(err)
		}
		limit := 3000.0 // some ms on a machine that does nothing else
		if failover.Kind == "freeze" {
			limit = 9000
		}
		if failover.Gap < 0 || failover.Gap > limit {
			t.Errorf("gap of %v ms after %s", failover.Gap, failover.Kind)
		}
		kinds = append(kinds, failover.Kind)
	}
	for _, kind := range []string{"kill", "stop", "handover", "freeze"} {
		if !slices.Contains(kinds, kind) {
			t.Errorf("no failover by %s: %v", kind, kinds)
		}
	}
}

// TestDemoScreen: lines that do not fit are cut, so that the next drawing finds
// its place; each drawing goes back over the one before.
func TestDemoScreen(t *testing.T) {
	var out strings.Builder
	s := newDemoScreen(&out, true, false, func() int { return 60 })
	s.show([]string{strings.Repeat("x", 59), strings.Repeat("y", 60), "z"})
	s.show([]string{"a", "b"})
	want := "\x1b[2K" + strings.Repeat("x", 59) + "\n\x1b[2K" + strings.Repeat("y", 59) + "\n\x1b[2Kz\n" +
		"\x1b[3A\x1b[2Ka\n\x1b[2Kb\n\x1b[2K\n"
	if out.String() != want {
		t.Errorf("drew %q, want %q", out.String(), want)
	}
}

// TestDemoInterrupted: Ctrl-C ends it, and leaves no process and no directory.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	for _, atWork := range []bool{false, true} {
		t.Run(fmt.Sprint("at work ", atWork), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			cmd, tmp := demoIn(t)
			p := f.startCommand("demo", cmd)
			if atWork {
				eventually(t, 20*time.Second, func() string {
					if len(demoMembersIn(tmp)) == 0 {
						return "no members run"
					}
					return ""
				})
			} else {
				time.Sleep(50 * time.Millisecond) // anywhere is right
			}
			p.signal(t, syscall.SIGINT)
			if code := p.wait(t, 10*time.Second); code != 0 && atWork {
				t.Errorf("exit code %d: %s", code, p.said)
			}
			eventually(t, 5*time.Second, func() string { return strings.Join(demoMembersIn(tmp), " ") })
			if atWork { // a signal before it is minded ends any program
				mustBeEmpty(t, tmp)
			}
		})
	}
}

// demoMembersIn are the processes whose state is below a directory, where the
// system shows such things.
func demoMembersIn(tmp string) []string {
	var pids []string
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		if env, err := os.ReadFile(file); err == nil && strings.Contains(string(env), "TGBRIDGE_STATE_DIR="+tmp) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}
