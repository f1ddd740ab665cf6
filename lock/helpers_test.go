//go:build unix

package lock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"tgbridge/lock"
)

// helpers are what the test binary does as another process. They print one line
// per event; an error ends them.
var helpers = map[string]func(helperArgs) error{
	"member":  helpMember,
	"cycle":   helpCycle,
	"rewrite": helpRewrite,
	"stop":    helpStop,
	"lead":    helpLead,
	"once":    helpOnce,
}

// setup opens a member and a lock, and raises the beat until stop is called.
func setup(a helperArgs, change func(*lock.Options)) (m *lock.Member, l *lock.Lock, stop func(), err error) {
	host, flock := lock.ThisHost(), lock.Flock(lock.SystemFlock)
	switch a.Fault { // F39
	case "never excludes":
		flock = func(*os.File, bool) error { return nil }
	case "always fails":
		flock = func(*os.File, bool) error { return syscall.ENOLCK }
	case "own boot id":
		host.BootID = fmt.Sprint("boot of ", os.Getpid())
	}
	m, err = lock.OpenMemberAs(lock.MemberOptions{Dir: a.Dir, Name: a.Name, Heartbeat: testHeartbeat}, host, flock)
	if err != nil {
		return nil, nil, nil, err
	}
	o := testOptions(a.Dir, m)
	o.Key = a.Key
	o.Observer = lock.NewObserverWith(lock.ObserverOptions{Dir: a.Dir, Host: host, LocksBelieved: m.LocksBelieved()}, flock)
	if change != nil {
		change(&o)
	}
	if l, err = lock.New(o); err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = m.Run(ctx, func() bool { return true })
	}()
	return m, l, func() { cancel(); <-done }, nil
}

// helpMember does what it is told, line by line.
func helpMember(a helperArgs) error {
	m, l, stop, err := setup(a, nil)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Println("ready", m.Instance())
	ctx := context.Background()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "acquire":
			res, err := l.Acquire(ctx, a.Mode, nil)
			switch {
			case err != nil:
				fmt.Println("error", err)
			case res.Acquired:
				if err := m.SetRole(lock.RoleLeader, res.Term); err != nil {
					return err
				}
				fmt.Println("acquired", res.Term)
			default:
				fmt.Println("refused", res.State, res.Owner.InstanceID)
			}
		case "owns":
			owns, err := l.Owns()
			fmt.Println(owns, err)
		case "release":
			_, released, err := l.Release(ctx)
			fmt.Println(released, err)
		default:
			return errors.New("unknown command " + in.Text())
		}
	}
	return nil
}

// helpCycle acquires and releases until it had the lease N times, or for ever,
// and logs begin and end of each leadership into the file Extra.
func helpCycle(a helperArgs) error {
	m, l, stop, err := setup(a, nil)
	if err != nil {
		return err
	}
	defer stop()
	log, err := os.OpenFile(a.Extra, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	note := func(what string, term uint64) error {
		_, err := fmt.Fprintf(log, "%s %d %s\n", what, term, m.Instance())
		return err
	}
	fmt.Println("ready", m.Instance())
	ctx := context.Background()
	for had := 0; a.N == 0 || had < a.N; {
		res, err := l.Acquire(ctx, a.Mode, nil)
		var busy *lock.BusyError
		if errors.As(err, &busy) {
			continue
		}
		if err != nil {
			return err
		}
		if !res.Acquired {
			time.Sleep(time.Millisecond)
			continue
		}
		had++
		owns, err := l.Owns()
		if err != nil {
			return err
		}
		if !owns { // stopped so long that another took over
			continue
		}
		if err := note("begin", res.Term); err != nil {
			return err
		}
		if err := note("end", res.Term); err != nil {
			return err
		}
		if _, _, err := l.Release(ctx); err != nil && !errors.As(err, &busy) {
			return err
		}
	}
	fmt.Println("done")
	return nil
}

// helpRewrite counts up under its own key in the registry, N times.
func helpRewrite(a helperArgs) error {
	m, _, stop, err := setup(a, nil)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Println("ready", m.Instance())
	o := lock.TransactionOptions{Dir: a.Dir, File: "counters.json", Member: m, StaleAfter: testStaleAfter}
	for range a.N {
		err := transact(o, func(current []byte) ([]byte, error) {
			return append(current, (a.Name + "\n")...), nil
		})
		if err != nil {
			return err
		}
	}
	fmt.Println("done")
	return nil
}

// transact runs a transaction, and tries on while the guard is others' all the
// time, as it may be among many on a slow disk.
func transact(o lock.TransactionOptions, fn func([]byte) ([]byte, error)) error {
	for {
		err := lock.Transaction(context.Background(), o, fn)
		if busy := (*lock.BusyError)(nil); !errors.As(err, &busy) {
			return err
		}
	}
}

// helpStop stops itself inside of Acquire, between reading and publishing, or
// dies there, as Extra says; and tells what came of it.
func helpStop(a helperArgs) error {
	first := true
	inside := func() (uint64, error) {
		if first {
			first = false
			sig := syscall.SIGSTOP
			if a.Extra == "kill" {
				sig = syscall.SIGKILL
			}
			if err := syscall.Kill(os.Getpid(), sig); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}
	m, l, stop, err := setup(a, func(o *lock.Options) { o.Floor = inside })
	if err != nil {
		return err
	}
	defer stop()
	fmt.Println("ready", m.Instance())
	res, err := l.Acquire(context.Background(), a.Mode, nil)
	if err != nil {
		return err
	}
	left, err := filepath.Glob(filepath.Join(a.Dir, "*.staged.*"))
	if err != nil {
		return err
	}
	fmt.Println(strings.TrimSpace(fmt.Sprintln("acquired", res.Acquired, "staged", len(left))))
	return nil
}

// helpOnce acquires and releases once, from one thread, so that the system calls
// of a transaction can be counted from outside.
func helpOnce(a helperArgs) error {
	runtime.LockOSThread()
	m, err := lock.OpenMember(lock.MemberOptions{Dir: a.Dir})
	if err != nil {
		return err
	}
	l, err := lock.New(testOptions(a.Dir, m))
	if err != nil {
		return err
	}
	if _, err := l.Acquire(context.Background(), lock.Plain, nil); err != nil {
		return err
	}
	if _, _, err := l.Release(context.Background()); err != nil {
		return err
	}
	fmt.Println("done")
	return nil
}

// helpLead leads whenever it can: it acquires, checks its ownership, steps down
// when it is lost, and logs begin and end of each leadership into Extra.
func helpLead(a helperArgs) error {
	m, l, stop, err := setup(a, nil)
	if err != nil {
		return err
	}
	defer stop()
	log, err := os.OpenFile(a.Extra, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	fmt.Println("ready", m.Instance())
	ctx := context.Background()
	for {
		res, err := l.Acquire(ctx, lock.Plain, nil)
		if err != nil {
			return err
		}
		if !res.Acquired {
			time.Sleep(testHeartbeat / 4)
			continue
		}
		if err := m.SetRole(lock.RoleLeader, res.Term); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(log, "begin %d %s\n", res.Term, m.Instance()); err != nil {
			return err
		}
		fmt.Println("leads", res.Term)
		for {
			if owns, err := l.Refresh(ctx); err == nil && !owns {
				break
			}
			time.Sleep(testCheck)
		}
		if _, err := fmt.Fprintf(log, "end %d %s\n", res.Term, m.Instance()); err != nil {
			return err
		}
		if err := m.SetRole(lock.RoleFollower, 0); err != nil {
			return err
		}
	}
}
