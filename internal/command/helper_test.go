//go:build unix

package command_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tgbridge/internal/command"
)

// The test binary is its own set of commands: with "helper NAME" as its first
// arguments it is the one of that name.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "helper" {
		os.Exit(helpers[os.Args[2]](os.Args[3:]))
	}
	// A helper built with the race detector must not wait a second at its end.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

var helpers = map[string]func(args []string) int{
	"exit": func(args []string) int {
		code, _ := strconv.Atoi(args[0])
		return code
	},
	"kill-self": func(args []string) int {
		number, _ := strconv.Atoi(args[0])
		_ = syscall.Kill(os.Getpid(), syscall.Signal(number))
		return sleep()
	},
	"cat": func([]string) int {
		_, _ = io.Copy(os.Stdout, os.Stdin)
		return 0
	},
	"print": func(args []string) int { // what, how often
		count, _ := strconv.Atoi(args[1])
		out := bufio.NewWriter(os.Stdout)
		for range count {
			_, _ = out.WriteString(args[0])
		}
		_ = out.Flush()
		return 0
	},
	"stderr": func(args []string) int {
		fmt.Fprint(os.Stderr, args[0])
		return 1
	},
	"environ": func([]string) int {
		dir, _ := os.Getwd()
		fmt.Println(dir, os.Environ())
		return 0
	},
	"no-file-descriptors": func([]string) int {
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			fmt.Println(err)
			return 1
		}
		self, err := os.Executable()
		if err != nil {
			fmt.Println(err)
			return 1
		}
		run := func(soft uint64) (command.Result, error) {
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: soft, Max: limit.Max}); err != nil {
				fmt.Println(err)
			}
			var r command.Runner
			return r.Run(context.Background(), command.Spec{Path: self, Args: []string{"helper", "print", "again", "1"}, Env: os.Environ()})
		}
		if _, err := run(5); errors.Is(err, command.ErrNotStarted) && errors.Is(err, syscall.EMFILE) {
			fmt.Println("not started: too many open files")
		} else {
			fmt.Println(err)
		}
		result, err := run(limit.Cur)
		if err != nil {
			fmt.Println(err)
		}
		fmt.Printf("then: %s\n", result.Stdout)
		return 0
	},
	"close-stdin": func([]string) int {
		_ = os.Stdin.Close()
		time.Sleep(50 * time.Millisecond)
		fmt.Print("done")
		return 0
	},
	"sleep": func([]string) int {
		announce()
		return sleep()
	},
	"sleep-stubborn": func([]string) int {
		signal.Ignore(syscall.SIGTERM)
		announce()
		return sleep()
	},
	"exit-on-term": func([]string) int {
		terminated := make(chan os.Signal, 1)
		signal.Notify(terminated, syscall.SIGTERM)
		announce()
		<-terminated
		fmt.Println("bye")
		return 0
	},
	"family": func(args []string) int { // helper of the children, own end: "wait" or a code
		for range 2 {
			child := helperCommand(args[0])
			child.Stdout = os.Stdout
			if err := child.Start(); err != nil {
				return 99
			}
		}
		waitAnnounced(os.Getenv(announcedVariable), 2)
		if args[1] == "wait" {
			return sleep()
		}
		code, _ := strconv.Atoi(args[1])
		return code
	},
	"detached": func([]string) int { // leaves a child in a session of its own
		child := helperCommand("sleep")
		child.Stdout = os.Stdout
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			return 99
		}
		waitAnnounced(os.Getenv(announcedVariable), 1)
		return 0
	},
	"runner": func(args []string) int { // runs a command that writes its pid to a file
		var r command.Runner
		script := "echo $$ >" + args[0] + ".new && mv " + args[0] + ".new " + args[0] + "; exec sleep 1000"
		_, err := r.Run(context.Background(), command.Spec{Path: "/bin/sh", Args: []string{"-c", script}, Env: os.Environ()})
		fmt.Fprintln(os.Stderr, err)
		return 1
	},
	"first": asFirstProcess,
}

// announcedVariable names the file in which helpers say that they run.
const announcedVariable = "TEST_ANNOUNCED"

// announce prints the own pid, and then adds a byte to the file of those that
// run.
func announce() {
	fmt.Println(os.Getpid())
	f, err := os.OpenFile(os.Getenv(announcedVariable), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = f.WriteString("x")
		_ = f.Close()
	}
}

// waitAnnounced waits until so many helpers have announced themselves.
func waitAnnounced(file string, count int64) bool {
	for range 3000 {
		if info, err := os.Stat(file); err == nil && info.Size() >= count {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func sleep() int {
	time.Sleep(time.Minute)
	return 98
}

func helperCommand(name string, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return exec.Command(self, append([]string{"helper", name}, args...)...)
}

// asFirstProcess runs as pid 1 of a namespace of its own: commands that leave
// orphans behind, while others end with codes that must not get lost. It
// prints what is left in the end.
func asFirstProcess([]string) int {
	if os.Getpid() != 1 {
		fmt.Println("not pid 1")
		return 1
	}
	var r command.Runner
	ctx, cancel := context.WithCancel(context.Background())
	reaped := make(chan error, 1)
	go func() { reaped <- r.ReapOrphans(ctx) }()

	var all sync.WaitGroup
	errs := make(chan error, 1000)
	check := func(stop time.Duration, script, want string) {
		ctx, cancel := context.WithTimeout(context.Background(), stop)
		defer cancel()
		result, err := r.Run(ctx, command.Spec{Path: "/bin/sh", Args: []string{"-c", script}, Env: os.Environ()})
		if errors.Is(err, context.DeadlineExceeded) {
			result.Stdout = []byte("stopped")
			err = nil
		}
		if got := fmt.Sprintf("%s%d", result.Stdout, result.ExitCode); err != nil || got != want {
			errs <- fmt.Errorf("%s: got %s, %w; want %s", script, got, err, want)
		}
	}
	for range 4 {
		all.Go(func() {
			for range 25 {
				check(time.Minute, "echo -n x; exit 7", "x7")
				check(time.Minute, "(setsid sleep 0.01 &) ; exit 3", "3")
			}
		})
	}
	all.Go(func() { check(time.Minute, "for i in 1 2 3 4 5; do sleep 1000 & done; echo -n ok", "ok0") })
	all.Go(func() { check(300*time.Millisecond, "for i in 1 2 3 4 5; do sleep 1000 & done; wait", "stopped-1") })
	all.Wait()
	left := othersSettled()
	cancel()
	if err := <-reaped; err != nil {
		errs <- err
	}
	close(errs)
	for err := range errs {
		left = append(left, err.Error())
	}
	fmt.Printf("left: %q\n", left)
	return 0
}

// othersSettled returns the names and states of the other processes of the
// namespace once there are none, or what there is after a while.
func othersSettled() []string {
	var others []string
	for range 200 {
		others = nil
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, path := range stats {
			stat, err := os.ReadFile(path)
			if err == nil && !strings.HasPrefix(string(stat), "1 ") {
				fields := strings.Fields(string(stat))
				others = append(others, fields[1]+" "+fields[2])
			}
		}
		if len(others) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return others
}
