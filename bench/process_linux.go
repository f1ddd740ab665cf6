package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"tgbridge/internal/botapitest"
)

// A process is one of a fleet. It reaches the server under an address of its
// own, by which the ledger tells it from others.
type process struct {
	name    string
	pid     int
	api     *botapitest.Running
	started time.Duration // on the server's clock, before it was started
	ready   chan struct{} // closed when it said so, where it does
	ended   chan struct{}
}

// A command is what a process runs.
type command struct {
	argv []string
	env  []string
	// stdout reads what the process writes there, until that ends. Nil: nobody
	// does.
	stdout func(p *process, r io.Reader)
}

// start starts a process; tasks counts its goroutines. now is the clock of
// started.
func (p *process) start(c command, stderr *os.File, tasks *sync.WaitGroup, now func() time.Duration) error {
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Env, cmd.Stderr = append(cleanEnv(), c.env...), stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var r, w *os.File
	if c.stdout != nil {
		var err error
		if r, w, err = os.Pipe(); err != nil {
			return fmt.Errorf("start %s: %w", p.name, err)
		}
		cmd.Stdout = w
	}
	begun := make(chan error, 1)
	tasks.Go(func() {
		// The process dies with the thread that started it, so this keeps it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		p.started = now()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		begun <- err
		if err == nil {
			_ = cmd.Wait() // how it ends is not asked
			close(p.ended)
		}
	})
	err := <-begun
	if w != nil {
		_ = w.Close()
	}
	if err != nil {
		if r != nil {
			_ = r.Close()
		}
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	if r != nil {
		tasks.Go(func() {
			defer r.Close()
			c.stdout(p, r)
		})
	}
	return nil
}

// signal sends a signal; to a process that has ended, none.
func (p *process) signal(s syscall.Signal) error {
	select {
	case <-p.ended:
		return nil
	default:
		return syscall.Kill(p.pid, s)
	}
}

// end kills the process and waits.
func (p *process) end() {
	_ = p.signal(syscall.SIGKILL)
	<-p.ended
	p.api.Close()
}

// cleanEnv is the environment without settings of tgbridge.
func cleanEnv() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
}
