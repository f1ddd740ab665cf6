package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ReapOrphans collects, as pid 1, the processes that lost their parent and
// ended, until ctx ends, and returns after a last look. For any other process
// it returns nil at once. Commands that the Runner runs are left to Run;
// children that are started by other means than a Run must not be waited for
// meanwhile, they may be taken for orphans. The error is one of waitid(2).
func (r *Runner) ReapOrphans(ctx context.Context) error {
	if os.Getpid() != 1 {
		return nil
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	defer signal.Stop(ended)
	changed := make(chan struct{}, 1)
	r.setChanged(changed)
	defer r.setChanged(nil)
	for {
		if err := r.reap(); err != nil {
			return fmt.Errorf("reap orphans: %w", err)
		}
		select {
		case <-ended:
		case <-changed:
		case <-ctx.Done():
			return r.reap()
		}
	}
}

func (r *Runner) setChanged(changed chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = changed
}

// reap collects ended children up to the first that a Run waits for: the
// kernel shows one at a time. That Run tells when it has collected its own.
func (r *Runner) reap() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		pid, err := endedChild()
		if err != nil {
			return err
		}
		if pid == 0 || r.running[pid] != nil {
			return nil
		}
		if _, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); err != nil {
			return err
		}
	}
}

// childInfo is the beginning of siginfo_t as waitid(2) fills it in: the pid is
// in a union that is aligned to the size of a pointer.
type childInfo struct {
	_   [3]int32 // si_signo and, in an order of the architecture, si_errno and si_code
	_   [unsafe.Sizeof(uintptr(0)) - 4]byte
	pid int32
}

// endedChild returns the pid of a child that has ended and is not collected,
// or 0 if there is none, and leaves it as it is.
func endedChild() (int, error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		switch {
		case err == nil:
			return int((*childInfo)(unsafe.Pointer(&info)).pid), nil
		case errors.Is(err, unix.ECHILD):
			return 0, nil
		case !errors.Is(err, unix.EINTR):
			return 0, err
		}
	}
}
