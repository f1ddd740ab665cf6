//go:build unix

package journal_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tgbridge/internal/journal"
)

// A writer is a process that writes the journal of term 5.
type writer struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	last   atomic.Int64 // the last number that it acknowledged
	closed chan struct{}
}

func startWriter(t *testing.T, dir string) *writer {
	t.Helper()
	w := &writer{cmd: exec.Command(os.Args[0]), closed: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), helperDir+"="+dir,
		"GORACE=atexit_sleep_ms=0") // else it sleeps for a second at its end, with the race detector
	w.cmd.Stderr = &w.stderr
	out, err := w.cmd.StdoutPipe()
	mustDo(t, err)
	mustDo(t, w.cmd.Start())
	t.Cleanup(func() { _ = w.cmd.Process.Kill() })
	go w.follow(out)
	return w
}

func (w *writer) follow(out io.Reader) {
	defer close(w.closed)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if n, err := strconv.ParseInt(lines.Text(), 10, 64); err == nil {
			w.last.Store(n)
		}
	}
}

// reach waits until the writer has acknowledged n.
func (w *writer) reach(t *testing.T, n int64) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); w.last.Load() < n; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("writer came to %d of %d: %s", w.last.Load(), n, w.stderr.String())
		}
	}
}

// mustHold checks that updates 1 to last are in the journal.
func mustHold(t *testing.T, j *journal.Journal, last int64) {
	t.Helper()
	for seq := int64(1); seq <= last; seq++ {
		body, err := j.Body(uint64(seq))
		if want := fmt.Sprintf(`{"update_id":%d}`, seq); err != nil || string(body) != want {
			t.Fatalf("update %d of %d acknowledged: %q, %v", seq, last, body, err)
		}
	}
}

// F13, F44, G2: a writer is killed in mid-stream. All that it acknowledged is
// there, with and without fsync.
func TestF13KilledWriter(t *testing.T) {
	for round := range 5 {
		dir := filepath.Join(t.TempDir(), "journal")
		w := startWriter(t, dir)
		w.reach(t, int64(20+37*round))
		mustDo(t, w.cmd.Process.Kill())
		_ = w.cmd.Wait()
		<-w.closed
		j, err := journal.TakeOver(dir, 6, journal.Options{})
		mustDo(t, err)
		mustHold(t, j, w.last.Load())
		mustDo(t, j.Close())
	}
}

// F3, G5: a writer is stopped, another takes over, the writer wakes. It learns
// that it is superseded, and nothing that it still does changes anything.
func TestF3StoppedWriterWakes(t *testing.T) {
	for round := range 5 {
		dir := filepath.Join(t.TempDir(), "journal")
		w := startWriter(t, dir)
		w.reach(t, int64(20+23*round))
		mustDo(t, w.cmd.Process.Signal(syscall.SIGSTOP))
		j, err := journal.TakeOver(dir, 6, journal.Options{})
		mustDo(t, err)
		last := w.last.Load()
		mustHold(t, j, last)
		write(t, j, update(j.Reserve(1), 1<<40, "l", `"of the successor"`))
		want := dump(t, j)
		mustDo(t, w.cmd.Process.Signal(syscall.SIGCONT))
		<-w.closed
		if err := w.cmd.Wait(); err == nil || !strings.Contains(w.stderr.String(), journal.ErrSuperseded.Error()) {
			t.Errorf("the writer ended with %v: %s", err, w.stderr.String())
		}
		mustHold(t, j, w.last.Load()) // one answer may have been on its way when it was stopped
		mustDo(t, j.Check())
		mustDo(t, j.Close())
		if names := files(t, dir); names != "6" {
			t.Errorf("terms %q, want 6", names)
		}
		j = takeOver(t, dir, 7, journal.Options{})
		if got := dump(t, j); got != want {
			t.Errorf("third leader has\n%s\nwant\n%s", got, want)
		}
	}
}
