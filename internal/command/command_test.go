//go:build unix

package command_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tgbridge/internal/command"
)

// helper returns the Spec of one of the test binary's commands.
func helper(t *testing.T, name string, args ...string) command.Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), announcedVariable+"="+filepath.Join(t.TempDir(), "announced"))
	return command.Spec{Path: self, Args: append([]string{"helper", name}, args...), Env: env}
}

// F65: every way to end is told apart.
func TestEnds(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want command.Result
	}{
		{"exit 0", []string{"exit", "0"}, command.Result{}},
		{"exit 1", []string{"exit", "1"}, command.Result{ExitCode: 1}},
		{"exit 255", []string{"exit", "255"}, command.Result{ExitCode: 255}},
		{"killed", []string{"kill-self", "9"}, command.Result{ExitCode: -1, Signal: "SIGKILL"}},
		{"terminated", []string{"kill-self", "15"}, command.Result{ExitCode: -1, Signal: "SIGTERM"}},
		{"output", []string{"print", "hello", "1"}, command.Result{Stdout: []byte("hello")}},
		{"output in pieces", []string{"print", "ab", "3"}, command.Result{Stdout: []byte("ababab")}},
		{"not UTF-8", []string{"print", "\xff\xfe\n\n", "1"}, command.Result{Stdout: []byte("\xff\xfe\n\n")}},
		{"stderr", []string{"stderr", "it is\x1b[31m red\xff\r\n\tend"}, command.Result{ExitCode: 1, Stderr: "it is[31m red\uFFFD\n\tend"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r command.Runner
			got, err := r.Run(t.Context(), helper(t, tt.args[0], tt.args[1:]...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestOutputIsBounded(t *testing.T) {
	tests := []struct {
		name      string
		count     int // of ten bytes
		maxOutput int
		want      int
		overflow  bool
	}{
		{"at the limit", 10, 100, 100, false},
		{"above the limit", 11, 100, 100, true},
		{"10 MB", 1 << 20, 0, 65536, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r command.Runner
			spec := helper(t, "print", "0123456789", strconv.Itoa(tt.count))
			spec.MaxOutput = tt.maxOutput
			got, err := r.Run(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Repeat("0123456789", tt.want/10+1)[:tt.want]
			if string(got.Stdout) != want || got.Overflow != tt.overflow || got.ExitCode != 0 {
				t.Errorf("%d bytes, overflow %v, exit code %d; want %d, %v, 0", len(got.Stdout), got.Overflow, got.ExitCode, tt.want, tt.overflow)
			}
		})
	}
}

func TestStderrIsItsEnd(t *testing.T) {
	var r command.Runner
	got, err := r.Run(t.Context(), helper(t, "stderr", strings.Repeat("ö", 3000)+"end"))
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat("ö", 2046) + "end"; got.Stderr != want {
		t.Errorf("stderr has %d bytes, want %d", len(got.Stderr), len(want))
	}
}

func TestStdin(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789\xff"), 100_000)
	tests := []struct {
		name, helper string
		args         []string
		stdin        []byte
		want         []byte
	}{
		{"read", "cat", nil, []byte("text\x00\xff"), []byte("text\x00\xff")},
		{"none is an end, not our own", "cat", nil, nil, nil},
		{"large, read", "cat", nil, large, large},
		{"large, closed early", "close-stdin", nil, large, []byte("done")},
		{"large, never read", "print", []string{"x", "1"}, large, []byte("x")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r command.Runner
			spec := helper(t, tt.helper, tt.args...)
			spec.Stdin, spec.MaxOutput = tt.stdin, len(large)
			got, err := r.Run(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Stdout, tt.want) || got.ExitCode != 0 {
				t.Errorf("%d bytes, exit code %d; want %d, 0", len(got.Stdout), got.ExitCode, len(tt.want))
			}
		})
	}
}

// F66: a command gets the environment that is meant for it and no other.
func TestEnvironmentAndDirectory(t *testing.T) {
	t.Setenv("TELEGRAM_BOT_TOKEN", "111:AAHsecret")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, env := range [][]string{nil, {"A=1", "B=two words"}} {
		var r command.Runner
		spec := helper(t, "environ")
		spec.Dir, spec.Env = dir, env
		got, err := r.Run(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		want := dir + " [" + strings.Join(env, " ") + "]\n"
		if string(got.Stdout) != want {
			t.Errorf("got %q, want %q", got.Stdout, want)
		}
	}
}

func TestCannotStart(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path string
		want       error
	}{
		{"not in PATH", "no-such-command", exec.ErrNotFound},
		{"no such file", "/no/such/command", fs.ErrNotExist},
		{"not executable", plain, fs.ErrPermission},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r command.Runner
			got, err := r.Run(t.Context(), command.Spec{Path: tt.path})
			if !errors.Is(err, command.ErrNotStarted) {
				t.Errorf("error %v is no ErrNotStarted", err)
			}
			if !errors.Is(err, tt.want) || !strings.HasPrefix(err.Error(), "start command "+tt.path+": ") {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if got.ExitCode != -1 {
				t.Errorf("exit code %d, want -1", got.ExitCode)
			}
		})
	}
}

// TestNoFileDescriptors: nothing of the command runs, and it runs when there are
// some again.
func TestNoFileDescriptors(t *testing.T) {
	output, err := helperCommand("no-file-descriptors").CombinedOutput()
	if want := "not started: too many open files\nthen: again\n"; err != nil || string(output) != want {
		t.Errorf("%q, %v; want %q", output, err, want)
	}
}

func TestStop(t *testing.T) {
	reason := errors.New("the delivery is superseded")
	tests := []struct {
		name, helper string
		args         []string
		announced    int64
		grace        time.Duration
		wantSignal   string
		wantOutput   int // lines
	}{
		{"command that sleeps", "sleep", nil, 1, 10 * time.Second, "SIGTERM", 1},
		{"command that ignores SIGTERM", "sleep-stubborn", nil, 1, 300 * time.Millisecond, "SIGKILL", 1},
		{"command that exits 0 on SIGTERM", "exit-on-term", nil, 1, 10 * time.Second, "", 2},
		{"children too", "family", []string{"sleep", "wait"}, 2, 10 * time.Second, "SIGTERM", 2},
		{"stubborn children too", "family", []string{"sleep-stubborn", "wait"}, 2, 10 * time.Second, "SIGTERM", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r command.Runner
			ctx, cancel := context.WithCancelCause(t.Context())
			spec := helper(t, tt.helper, tt.args...)
			spec.Grace = tt.grace
			file := strings.TrimPrefix(spec.Env[len(spec.Env)-1], announcedVariable+"=")
			var canceled time.Time
			waiting := make(chan struct{})
			go func() {
				defer close(waiting)
				waitAnnounced(file, tt.announced)
				canceled = time.Now()
				cancel(reason)
			}()
			got, err := r.Run(ctx, spec)
			<-waiting
			if !errors.Is(err, reason) || got.Signal != tt.wantSignal {
				t.Errorf("error %v, signal %q; want %v, %q", err, got.Signal, reason, tt.wantSignal)
			}
			if took := time.Since(canceled); took > 8*time.Second {
				t.Errorf("stopping took %v", took)
			}
			lines := strings.Fields(string(got.Stdout))
			if len(lines) != tt.wantOutput {
				t.Errorf("output %q, want %d lines", got.Stdout, tt.wantOutput)
			}
			for _, pid := range lines {
				if pid != "bye" {
					mustBeGone(t, pid)
				}
			}
		})
	}
}

func TestStopBeforeStart(t *testing.T) {
	var r command.Runner
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Run(ctx, helper(t, "exit", "0")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

// F69: what a command leaves in its group ends with it, even if it holds the
// output open.
func TestWhatACommandLeavesIsKilled(t *testing.T) {
	var r command.Runner
	got, err := r.Run(t.Context(), helper(t, "family", "sleep-stubborn", "4"))
	if err != nil || got.ExitCode != 4 {
		t.Fatalf("exit code %d, error %v; want 4, none", got.ExitCode, err)
	}
	pids := strings.Fields(string(got.Stdout))
	if len(pids) != 2 {
		t.Fatalf("output %q, want two pids", got.Stdout)
	}
	for _, pid := range pids {
		mustBeGone(t, pid)
	}
}

// A process in a session of its own is left alone, and does not keep Run from
// returning what was printed.
func TestDetachedProcessLivesOn(t *testing.T) {
	var r command.Runner
	got, err := r.Run(t.Context(), helper(t, "detached"))
	if err != nil || got.ExitCode != 0 {
		t.Fatalf("exit code %d, error %v; want 0, none", got.ExitCode, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(got.Stdout)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the detached process is gone: %v", err)
	}
}

func TestManyAtOnce(t *testing.T) {
	var r command.Runner
	results := make(chan error)
	for i := range 30 {
		go func() {
			got, err := r.Run(t.Context(), helper(t, "exit", strconv.Itoa(i)))
			if err == nil && got.ExitCode != i {
				err = errors.New("exit code " + strconv.Itoa(got.ExitCode) + ", want " + strconv.Itoa(i))
			}
			results <- err
		}()
	}
	for range 30 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

func TestReapOrphansIsForTheFirstProcess(t *testing.T) {
	var r command.Runner
	if err := r.ReapOrphans(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLimits(t *testing.T) {
	if len(command.Limits()) == 0 {
		t.Errorf("%s has no limits", runtime.GOOS)
	}
}

// mustBeGone waits until no process has the pid, or only one that has ended
// and waits for its parent.
func mustBeGone(t *testing.T, text string) {
	t.Helper()
	pid, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if syscall.Kill(pid, 0) != nil {
			return
		}
		if stat, err := os.ReadFile("/proc/" + text + "/stat"); err == nil && strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d lives", pid)
}
