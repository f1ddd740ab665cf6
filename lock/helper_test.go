//go:build unix

package lock_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tgbridge/lock"
)

const key = "tgbridge:1001"

// Times of tests with real processes: short, and far above the delays of a busy
// machine.
const (
	testHeartbeat  = 200 * time.Millisecond
	testStaleAfter = 2 * time.Second
	testCheck      = 200 * time.Millisecond
)

// TestMain runs a helper process instead of the tests if it is told to.
func TestMain(m *testing.M) {
	if name := os.Getenv("LOCK_TEST_HELPER"); name != "" {
		var a helperArgs
		if err := json.Unmarshal([]byte(os.Getenv("LOCK_TEST_ARGS")), &a); err != nil {
			panic(err)
		}
		if err := helpers[name](a); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// The parallel tests wait for most of their time. The flag itself has the
	// last word.
	if err := flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// repeats returns how often a test repeats what it does with processes: usual,
// or long if the environment variable LONG_TESTS is not empty, for the full
// numbers of the field cases.
func repeats(usual, long int) int {
	if os.Getenv("LONG_TESTS") != "" {
		return long
	}
	return usual
}

// newDir returns the path of a state directory that is not there yet.
func newDir(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(tb.TempDir(), "state")
}

// newState returns a state directory with a registry that names nobody, so that
// no acquire has to wait as on a registry that was lost (R9).
func newState(tb testing.TB) string {
	tb.Helper()
	dir := newDir(tb)
	mkdir(tb, dir)
	writeFile(tb, filepath.Join(dir, "locks.json"), "{}")
	return dir
}

func openMember(tb testing.TB, dir string) *lock.Member {
	tb.Helper()
	m, err := lock.OpenMember(lock.MemberOptions{Dir: dir, Name: "test", Version: "v1"})
	if err != nil {
		tb.Fatal(err)
	}
	closeAtEnd(tb, m)
	return m
}

func closeAtEnd(tb testing.TB, c io.Closer) {
	tb.Helper()
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
}

func newObserver(dir string) *lock.Observer {
	return lock.NewObserver(lock.ObserverOptions{Dir: dir, LocksBelieved: true})
}

func newLock(tb testing.TB, dir string, m *lock.Member) *lock.Lock {
	tb.Helper()
	l, err := lock.New(testOptions(dir, m))
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func testOptions(dir string, m *lock.Member) lock.Options {
	return lock.Options{
		Dir: dir, Key: key, Member: m, Cwd: "/srv/here",
		Heartbeat: testHeartbeat, StaleAfter: testStaleAfter, OwnershipCheck: testCheck,
	}
}

func mustAcquire(tb testing.TB, l *lock.Lock) lock.Result {
	tb.Helper()
	res, err := l.Acquire(context.Background(), lock.Plain, nil)
	if err != nil {
		tb.Fatal(err)
	}
	if !res.Acquired {
		tb.Fatalf("not acquired: %+v", res)
	}
	return res
}

func writeFile(tb testing.TB, path, content string) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		tb.Fatal(err)
	}
}

func mkdir(tb testing.TB, path string) {
	tb.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		tb.Fatal(err)
	}
}

func readFile(tb testing.TB, path string) string {
	tb.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return string(content)
}

// noDebris checks that no transaction left anything in the directory.
func noDebris(tb testing.TB, dir string) {
	tb.Helper()
	left, err := filepath.Glob(filepath.Join(dir, "locks.json.transaction*"))
	if err != nil || len(left) != 0 {
		tb.Errorf("left behind: %v %v", left, err)
	}
}

// A process is a helper: this test binary again, under another name.
type process struct {
	tb    testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	errs  bytes.Buffer
	once  sync.Once
	err   error
}

type helperArgs struct {
	Dir, Key, Name, Extra, Fault string
	N                            int
	Mode                         lock.Mode
}

func start(tb testing.TB, helper string, a helperArgs, change ...func(*exec.Cmd)) *process {
	tb.Helper()
	if a.Key == "" {
		a.Key = key
	}
	args, err := json.Marshal(a)
	if err != nil {
		tb.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	p := &process{tb: tb, cmd: exec.Command(exe), lines: make(chan string, 1000)}
	p.cmd.Env = append(os.Environ(), "LOCK_TEST_HELPER="+helper, "LOCK_TEST_ARGS="+string(args),
		"GORACE=atexit_sleep_ms=0") // else a helper with the race detector sleeps for a second at its end
	for _, c := range change {
		c(p.cmd)
	}
	p.cmd.Stderr = &p.errs
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	tb.Cleanup(p.kill)
	return p
}

// wait waits for the end, once, and returns how it ended.
func (p *process) wait() error {
	p.once.Do(func() {
		for range p.lines { // all read: only then may Wait close the pipe
			continue
		}
		p.err = p.cmd.Wait()
	})
	return p.err
}

func (p *process) kill() {
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGKILL)
	_ = p.wait()
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// tell writes a line to the helper.
func (p *process) tell(line string) {
	p.tb.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.tb.Fatalf("tell %q: %v; it said: %s", line, err, p.errs.String())
	}
}

// hear returns the helper's next line.
func (p *process) hear() string {
	p.tb.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			p.tb.Fatalf("helper ended: %v %s", p.wait(), p.errs.String())
		}
		return line
	case <-time.After(time.Minute):
		p.tb.Fatal("helper says nothing")
	}
	return ""
}

func (p *process) expect(want string) {
	p.tb.Helper()
	if got := p.hear(); got != want {
		p.tb.Fatalf("helper says %q, want %q", got, want)
	}
}

// stopped waits until the process is stopped by a signal.
func (p *process) stopped() {
	p.tb.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err == nil && strings.Contains(string(stat), ") T ") {
			return
		}
	}
	p.tb.Fatal("helper is not stopped")
}
