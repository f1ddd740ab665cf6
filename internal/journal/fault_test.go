package journal_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tgbridge/internal/journal"
)

// faults fails operations: each op with the error that is set for it.
type faults struct {
	mu    sync.Mutex
	errs  map[string]error
	count map[string]int
	seen  chan string // if not nil, gets every op
}

func (f *faults) options() journal.Options {
	var o journal.Options
	journal.SetFault(&o, func(op, _ string) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.count == nil {
			f.count = map[string]int{}
		}
		f.count[op]++
		if f.seen != nil {
			f.seen <- op
		}
		return f.errs[op]
	})
	return o
}

func (f *faults) set(errs map[string]error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = errs
}

func (f *faults) times(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count[op]
}

// failNext makes the next operation of a kind fail, and no other.
func failNext(o *journal.Options, op string, err error) (arm func()) {
	var mu sync.Mutex
	armed := false
	journal.SetFault(o, func(now, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		if armed && now == op {
			armed = false
			return err
		}
		return nil
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		armed = true
	}
}

// A write that failed in half is made again in a new file; nobody notices.
func TestFailedWriteGoesToNewFile(t *testing.T) {
	dir := t.TempDir()
	var o journal.Options
	arm := failNext(&o, "write", syscall.EIO)
	j := takeOver(t, dir, 1, o)
	write(t, j, update(1, 11, "l", `{"a":1}`))
	arm()
	write(t, j, update(2, 12, "l", `{"b":2}`))
	write(t, j, assign(1, 1))
	if names := files(t, filepath.Join(dir, "1")); names != "2.log" {
		t.Errorf("files %s, want 2.log", names)
	}
	want := dump(t, j)
	if got := dump(t, takeOver(t, dir, 2, journal.Options{})); got != want {
		t.Errorf("after takeover\n%s\nwant\n%s", got, want)
	}
}

func files(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// With the disk full, nothing is in effect and everything can be written again
// once there is space; so after other errors of the system that pass.
func TestDiskFullPasses(t *testing.T) {
	tests := []struct {
		name string
		errs map[string]error
		full bool
	}{
		{"write", map[string]error{"write": syscall.ENOSPC}, true},
		{"quota", map[string]error{"write": syscall.EDQUOT}, true},
		{"write, then create", map[string]error{"write": syscall.EIO, "create": syscall.ENOSPC}, true},
		{"write, then no file descriptor", map[string]error{"write": syscall.EIO, "create": syscall.EMFILE}, false},
		{"write in the new file too", map[string]error{"write": syscall.EIO}, false},
		{"nor can the new file be removed", map[string]error{"write": syscall.ENOSPC, "remove": syscall.EIO}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			var f faults
			j := takeOver(t, dir, 1, f.options())
			write(t, j, update(1, 11, "l", "{}"), assign(1, 1))
			before := dump(t, j)
			f.set(tt.errs)
			for range 3 {
				err := tryWrite(j, outcome(1, "reply"), update(2, 12, "l", "[]"))
				if err == nil || errors.Is(err, journal.ErrDiskFull) != tt.full {
					t.Fatalf("got %v, want ErrDiskFull: %v", err, tt.full)
				}
			}
			if got := dump(t, j); got != before {
				t.Errorf("in effect:\n%s\nbefore:\n%s", got, before)
			}
			if err := j.Err(); err != nil {
				t.Errorf("the term ended: %v", err)
			}
			f.set(nil)
			for limit := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) { // it rests after a failure
				if err := tryWrite(j, outcome(1, "reply")); err == nil {
					break
				} else if time.Now().After(limit) {
					t.Fatal(err)
				}
			}
			after := dump(t, j)
			if after == before {
				t.Error("written again, not in effect")
			}
			if names := strings.Fields(files(t, filepath.Join(dir, "1"))); len(names) != 1 {
				t.Errorf("files %v, want one", names)
			}
			if got := dump(t, takeOver(t, dir, 2, journal.Options{})); got != after {
				t.Errorf("after takeover\n%s\nwant\n%s", got, after)
			}
		})
	}
}

// F72: a directory that belongs to another user is named, with who we are.
func TestF72NotAllowed(t *testing.T) {
	f := faults{errs: map[string]error{"mkdir": &os.PathError{Op: "mkdir", Path: "/state/journal", Err: syscall.EACCES}}}
	_, err := journal.TakeOver(filepath.Join(t.TempDir(), "journal"), 1, f.options())
	if !errors.Is(err, journal.ErrUnusable) {
		t.Fatalf("got %v, want ErrUnusable", err)
	}
	for _, want := range []string{"/state/journal", fmt.Sprintf("let uid %d write there", os.Getuid())} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

// TakeOver with a full disk gives a journal to be read, and written later.
func TestTakeOverWithFullDisk(t *testing.T) {
	dir := t.TempDir()
	j := takeOver(t, dir, 1, journal.Options{})
	write(t, j, update(1, 11, "l", "{}"))
	want := dump(t, j)
	var f faults
	f.errs = map[string]error{"write": syscall.ENOSPC}
	j = takeOver(t, dir, 2, f.options())
	if got := dump(t, j); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := tryWrite(j, assign(1, 1)); !errors.Is(err, journal.ErrDiskFull) {
		t.Fatalf("got %v, want ErrDiskFull", err)
	}
	f.set(nil)
	waitWrite(t, j, assign(1, 1))
	if err := j.Check(); err != nil {
		t.Error(err)
	}
}

// A predecessor that was frozen may append to its open file, which is the newest
// there is while there is no space for one: what it writes is not read, and keeps
// no records from the disk.
func TestPredecessorWritesWhileDiskIsFull(t *testing.T) {
	dir := t.TempDir()
	old := takeOver(t, dir, 1, journal.Options{})
	write(t, old, update(1, 11, "l", `"`+strings.Repeat("x", 600<<10)+`"`))
	var full atomic.Bool
	full.Store(true)
	o := journal.Options{RetryAfter: time.Millisecond}
	journal.SetFault(&o, func(op, path string) error {
		if info, err := os.Stat(path); op == "write" && (full.Load() || err == nil && info.Size() > 200<<10) {
			return syscall.ENOSPC // later there is space for a record, not for a snapshot
		}
		return nil
	})
	j := takeOver(t, dir, 2, o)
	write(t, old, assign(1, 1))
	full.Store(false)
	answer := make(chan error, 1)
	j.Write([]journal.Record{outcome(1, `"r"`)}, true, func(err error) { answer <- err })
	select {
	case err := <-answer:
		mustDo(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("the write waits although there is space for it")
	}
	if reply, err := j.Reply(1); err != nil || string(reply) != `"r"` {
		t.Errorf("reply %q, %v", reply, err)
	}
}

// Where there is no space for a snapshot, but for records, they go to a file
// that carries the older ones on, until there is space or less is live.
func TestNoSpaceForSnapshot(t *testing.T) {
	dir := t.TempDir()
	var (
		o    journal.Options
		fail atomic.Int64
	)
	journal.SetFault(&o, func(op, _ string) error {
		if op == "write" && fail.Add(-1) >= 0 {
			return syscall.ENOSPC
		}
		return nil
	})
	j := takeOver(t, dir, 1, o)
	write(t, j, update(1, 11, "l", "{}"), update(2, 12, "l", "{\n}"))
	for i, r := range []journal.Record{outcome(1, "reply"), rec(journal.KindDone, 1)} {
		fail.Store(2) // of the old file, of the snapshot
		write(t, j, r)
		if want := []string{"1.log 2.log", "1.log 2.log 3.log"}[i]; files(t, filepath.Join(dir, "1")) != want {
			t.Errorf("files %s, want %s", files(t, filepath.Join(dir, "1")), want)
		}
		copied := copyTree(t, dir)
		want := dump(t, j)
		if got := dump(t, takeOver(t, copied, 2, journal.Options{})); got != want {
			t.Errorf("after takeover\n%s\nwant\n%s", got, want)
		}
	}
	t.Run("one of the files is gone", func(t *testing.T) {
		mustDo(t, os.Remove(filepath.Join(dir, "1", "1.log")))
		fail.Store(2)
		if err := tryWrite(j, assign(2, 1)); !errors.Is(err, journal.ErrDiskFull) {
			t.Fatalf("got %v, want ErrDiskFull: what is live is in no file", err)
		}
	})
	fail.Store(0)
	waitWrite(t, j, assign(2, 1))
	if names := strings.Fields(files(t, filepath.Join(dir, "1"))); len(names) != 1 {
		t.Errorf("files %v, want one", names)
	}
	want := dump(t, j)
	if got := dump(t, takeOver(t, dir, 2, journal.Options{})); got != want {
		t.Errorf("after takeover\n%s\nwant\n%s", got, want)
	}
}

// A full disk that does not even hold the first directory leaves the term free
// to try again.
func TestFirstTakeOverWithFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	for _, op := range []string{"mkdir", "create"} {
		f := faults{errs: map[string]error{op: syscall.ENOSPC}}
		j, err := journal.TakeOver(dir, 1, f.options())
		if op == "mkdir" {
			if !errors.Is(err, journal.ErrDiskFull) {
				t.Fatalf("got %v, want ErrDiskFull", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = j.Close() }()
		if err := j.Check(); !errors.Is(err, journal.ErrDiskFull) {
			t.Errorf("Check: got %v, want ErrDiskFull", err)
		}
		f.set(nil)
		waitWrite(t, j, update(1, 11, "l", "{}"))
		if err := j.Check(); err != nil {
			t.Error(err)
		}
	}
}

// G2: an fsync that failed ends the term; no later call is taken for a success.
func TestG2FailedSyncEndsTheTerm(t *testing.T) {
	tests := []struct{ name, op string }{
		{"of the file", "sync"},
		{"of a new file", "rotation"},
		{"of the directory", "syncdir"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			var f faults
			o := f.options()
			j := takeOver(t, dir, 1, o)
			write(t, j, update(1, 11, "l", "{}"))
			switch tt.op {
			case "sync":
				f.set(map[string]error{"sync": syscall.EIO})
			default:
				errs := map[string]error{"sync": syscall.EIO}
				if tt.op == "syncdir" {
					errs = map[string]error{"syncdir": syscall.EIO}
				}
				f.set(errs)
				if err := os.Remove(filepath.Join(dir, "1", "1.log")); err != nil {
					t.Fatal(err)
				}
				if err := j.Check(); !errors.Is(err, syscall.EIO) {
					t.Fatalf("Check: %v, want EIO", err)
				}
			}
			if err := tryWrite(j, update(2, 12, "l", "{}")); !errors.Is(err, syscall.EIO) {
				t.Fatalf("got %v, want EIO", err)
			}
			select {
			case <-j.Failed():
			default:
				t.Fatal("Failed is not closed")
			}
			f.set(nil)
			if err := tryWrite(j, update(3, 13, "l", "{}")); !errors.Is(err, syscall.EIO) {
				t.Errorf("later: got %v, want EIO", err)
			}
			if err := j.Check(); !errors.Is(err, syscall.EIO) {
				t.Errorf("Check: got %v, want EIO", err)
			}
			if body, err := j.Body(1); err != nil || string(body) != "{}" {
				t.Errorf("reading ended as well: %q, %v", body, err)
			}
			if err := j.Close(); !errors.Is(err, syscall.EIO) {
				t.Errorf("Close: got %v, want EIO", err)
			}
		})
	}
}

// A rotation that cannot begin leaves the old file in use; one that began does
// not.
func TestRotationThatFails(t *testing.T) {
	dir := t.TempDir()
	var f faults
	o := f.options()
	o.RotateAt = 500
	j := takeOver(t, dir, 1, o)
	f.set(map[string]error{"create": syscall.EMFILE})
	for i := range 50 {
		write(t, j, confirmed(int64(i), false))
	}
	if n := f.times("create"); n > 10 {
		t.Errorf("%d attempts, want at most one for every 500 bytes", n)
	}
	f.set(nil)
	for i := 0; files(t, filepath.Join(dir, "1")) == "1.log"; i++ {
		write(t, j, confirmed(int64(i), false))
		if i == 10_000 {
			t.Fatal("no new file")
		}
	}
}

// G10: attempts to begin a new file, which may copy much, take a bounded share
// of the time however often callers ask.
func TestG10AttemptsAreBounded(t *testing.T) {
	var o journal.Options
	creates := 0
	journal.SetFault(&o, func(op, _ string) error {
		if op == "create" {
			creates++
			time.Sleep(5 * time.Millisecond) // as if there was much to copy
		}
		if op == "write" {
			return syscall.ENOSPC
		}
		return nil
	})
	j := takeOver(t, t.TempDir(), 1, o)
	for range 300 {
		if err := tryWrite(j, confirmed(1, false)); !errors.Is(err, journal.ErrDiskFull) {
			t.Fatal(err)
		}
	}
	mustDo(t, j.Close())
	if creates > 150 {
		t.Errorf("%d attempts for 300 calls", creates)
	}
}

// What asks for no fsync is on disk within SyncWithin nevertheless, and at
// Close.
func TestG2SyncWithin(t *testing.T) {
	f := faults{seen: make(chan string, 1000)}
	o := f.options()
	o.SyncWithin = 10 * time.Millisecond
	j := takeOver(t, t.TempDir(), 1, o)
	drain := func() {
		for len(f.seen) > 0 {
			<-f.seen
		}
	}
	for range 3 {
		drain()
		j.Write([]journal.Record{confirmed(1, false)}, false, nil)
		waitFor(t, f.seen, "sync")
	}
	drain()
	o.SyncWithin = time.Hour
	j = takeOver(t, t.TempDir(), 1, o)
	drain()
	done := make(chan error, 1)
	j.Write([]journal.Record{confirmed(1, false)}, false, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(f.seen) != 1 {
		t.Errorf("%d operations, want the write alone", len(f.seen))
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, f.seen, "sync")
}

func waitFor(t *testing.T, seen chan string, op string) {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		select {
		case got := <-seen:
			if got == op {
				return
			}
		case <-limit:
			t.Fatalf("no %s", op)
		}
	}
}

// Calls that wait while the disk is busy share one write and one fsync, those
// without sync do not wait for it, and answers come in order.
func TestGroupCommit(t *testing.T) {
	var (
		o       journal.Options
		mu      sync.Mutex
		ops     []string
		blocked = make(chan struct{})
		release = make(chan struct{})
		block   = false
	)
	journal.SetFault(&o, func(op, _ string) error {
		mu.Lock()
		ops = append(ops, op)
		wait := block && op == "sync"
		if wait {
			block = false
		}
		mu.Unlock()
		if wait {
			close(blocked)
			<-release
		}
		return nil
	})
	j := takeOver(t, t.TempDir(), 1, o)
	mu.Lock()
	block, ops = true, nil
	mu.Unlock()
	first := make(chan error, 1)
	j.Write([]journal.Record{confirmed(0, false)}, true, func(err error) { first <- err })
	<-blocked
	var order []int
	var group sync.WaitGroup
	for i := range 10 {
		group.Add(1)
		j.Write([]journal.Record{update(uint64(i+1), int64(i+1), "l", "{}")}, i%2 == 0, func(err error) {
			defer group.Done()
			if err != nil {
				t.Error(err)
			}
			if _, ok := j.Seen(int64(i + 1)); !ok {
				t.Errorf("answer %d before it is in effect", i)
			}
			order = append(order, i)
		})
	}
	close(release)
	group.Wait()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	want := []int{1, 3, 5, 7, 9, 0, 2, 4, 6, 8}
	for i := range want {
		if len(order) != len(want) || order[i] != want[i] {
			t.Fatalf("answers in order %v, want %v", order, want)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(ops, " "); got != "write sync write sync" {
		t.Errorf("operations: %s", got)
	}
}

func TestClosed(t *testing.T) {
	j := takeOver(t, t.TempDir(), 1, journal.Options{})
	answers := make(chan error, 100)
	for i := range 100 {
		j.Write([]journal.Record{update(uint64(i+1), int64(i+1), "l", "{}")}, i%2 == 0, func(err error) { answers <- err })
	}
	for range 2 {
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		if err := <-answers; err != nil {
			t.Fatalf("queued before Close: %v", err)
		}
	}
	if err := tryWrite(j, confirmed(1, false)); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Write: %v, want ErrClosed", err)
	}
	if err := j.Check(); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Check: %v, want ErrClosed", err)
	}
	if _, err := j.Body(1); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Body: %v, want ErrClosed", err)
	}
	if err := j.Err(); err != nil {
		t.Errorf("Err: %v", err)
	}
}
