package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// Defaults of Spec.
const (
	DefaultGrace     = 2 * time.Second
	DefaultMaxOutput = 64 << 10
)

// stderrKept is how much of the end of stderr a Result has, in bytes.
const stderrKept = 4 << 10

// outputDelay is how long output is still read after the command and its group
// have ended, if a process outside the group holds it open.
const outputDelay = 500 * time.Millisecond

// ErrNotStarted says that nothing of a command has run: its file is not there,
// or the system had no file descriptor, process or memory for it. It may be run
// again.
var ErrNotStarted = errors.New("start command")

// Spec says what to run.
type Spec struct {
	Path      string        // looked for in PATH if it has no separator
	Args      []string      // without the path
	Dir       string        // empty: the own working directory
	Env       []string      // KEY=VALUE; nil means none, never the own environment
	Stdin     []byte        // the command may leave it unread
	Grace     time.Duration // between SIGTERM and SIGKILL; 0 means DefaultGrace
	MaxOutput int           // bytes of stdout that are kept; 0 means DefaultMaxOutput
}

// Result is what a command left behind.
type Result struct {
	Stdout   []byte // as printed, any bytes, the first MaxOutput
	Overflow bool   // more than MaxOutput was printed
	ExitCode int    // -1 if a signal ended it
	Signal   string // such as "SIGKILL", if a signal ended it
	Stderr   string // the last 4 KiB, valid UTF-8, without control characters but tab and line feed
}

// Runner runs commands. The zero value is ready; it may be used concurrently,
// and must not be copied.
type Runner struct {
	// mu guards what follows. It is held from a command's fork until its pid
	// is in running, and while orphans are collected, so that no command is
	// taken for an orphan.
	mu      sync.Mutex
	running map[int]*exec.Cmd // by pid: what a Run waits for
	changed chan struct{}     // told when running shrinks; nil unless orphans are collected
}

// Run runs a command to its end. A command that ran is no error, whatever its
// exit code: the error says that it could not be started (ErrNotStarted), that
// its output could not be read, or, wrapping context.Cause(ctx), that it was
// stopped because ctx ended. In the last case the Result has what there was until
// then, and a command that took the SIGTERM as a reason to exit 0 has still
// been stopped.
//
// When Run returns, the command and its group have ended. Run blocks an
// operating system thread, because the kernel ties a command's life to the
// thread that started it (prctl(2), PR_SET_PDEATHSIG).
func (r *Runner) Run(ctx context.Context, spec Spec) (Result, error) {
	if ctx.Err() != nil {
		return Result{ExitCode: -1}, stopped(ctx, spec)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	stdout := &head{limit: orDefault(spec.MaxOutput, DefaultMaxOutput)}
	stderr := &tail{limit: stderrKept}
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir = spec.Dir
	cmd.Env = append([]string{}, spec.Env...)
	cmd.Stdin = bytes.NewReader(spec.Stdin)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = outputDelay
	prepare(cmd)
	if err := r.start(cmd); err != nil {
		return Result{ExitCode: -1}, fmt.Errorf("%w %s: %w", ErrNotStarted, spec.Path, err)
	}
	defer r.forget(cmd.Process.Pid)

	w := watchContext(ctx, cmd, orDefault(spec.Grace, DefaultGrace))
	err := finish(cmd, w)
	if cmd.ProcessState == nil { // somebody else collected it
		return Result{ExitCode: -1}, fmt.Errorf("wait for command %s: %w", spec.Path, err)
	}
	result := Result{
		Stdout:   stdout.bytes,
		Overflow: stdout.overflow,
		ExitCode: cmd.ProcessState.ExitCode(),
		Signal:   signalName(cmd.ProcessState),
		Stderr:   stderr.text(),
	}
	var exit *exec.ExitError
	switch {
	case w.stopped:
		return result, stopped(ctx, spec)
	case err == nil, errors.As(err, &exit), errors.Is(err, exec.ErrWaitDelay):
		return result, nil
	default:
		return result, fmt.Errorf("wait for command %s: %w", spec.Path, err)
	}
}

func stopped(ctx context.Context, spec Spec) error {
	return fmt.Errorf("command %s stopped: %w", spec.Path, context.Cause(ctx))
}

func orDefault[T int | time.Duration](value, preset T) T {
	if value == 0 {
		return preset
	}
	return value
}

// start starts cmd and notes its pid.
func (r *Runner) start(cmd *exec.Cmd) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	if r.running == nil {
		r.running = map[int]*exec.Cmd{}
	}
	r.running[cmd.Process.Pid] = cmd
	return nil
}

// KillAll kills all commands that run now, with their groups, and waits for
// nothing. It is for a process that ends at once.
func (r *Runner) KillAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, cmd := range r.running {
		kill(cmd)
	}
}

// forget drops the pid of a command that was waited for.
func (r *Runner) forget(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, pid)
	select {
	case r.changed <- struct{}{}:
	default: // nobody listens, or has been told already
	}
}

// watch ends a command when its context ends.
type watch struct {
	ended   chan struct{} // closed by end
	done    chan struct{} // closed when the goroutine has returned
	stopped bool          // the command was told to end; valid after end
}

func watchContext(ctx context.Context, cmd *exec.Cmd, grace time.Duration) *watch {
	w := &watch{ended: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		select {
		case <-w.ended:
			return
		case <-ctx.Done():
		}
		w.stop(cmd, grace)
	}()
	return w
}

// stop asks the command to end, and makes it end after the grace time.
func (w *watch) stop(cmd *exec.Cmd, grace time.Duration) {
	select {
	case <-w.ended: // by itself, at the same moment
		return
	default:
	}
	w.stopped = true
	terminate(cmd)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-w.ended:
	case <-timer.C:
		kill(cmd)
	}
}

// end returns when the watching has ended: no signal is sent any more. It may
// be called once.
func (w *watch) end() {
	close(w.ended)
	<-w.done
}
