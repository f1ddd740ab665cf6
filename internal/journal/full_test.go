package journal_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"tgbridge/internal/journal"
)

// fullDisk returns options for a disk that is full while the switch is set: no
// file can be made, or none written to.
func fullDisk(op string) (o journal.Options, full *atomic.Bool) {
	full = new(atomic.Bool)
	o = journal.Options{RetryAfter: time.Millisecond}
	journal.SetFault(&o, func(now, _ string) error {
		if (now == op || now == "write") && full.Load() {
			return syscall.ENOSPC
		}
		return nil
	})
	return o, full
}

// Write waits for space, TryWrite does not and is not taken before what waits.
func TestWriteWaitsForSpace(t *testing.T) {
	for _, op := range []string{"create", "write"} {
		t.Run(op, func(t *testing.T) {
			o, full := fullDisk(op)
			dir := t.TempDir()
			j := takeOver(t, dir, 1, o)
			write(t, j, update(1, 11, "l", "{}"))
			full.Store(true)
			var order []int
			answer := make(chan error, 5)
			for i, r := range []journal.Record{assign(1, 1), outcome(1, `"r"`), call("a", 1), rec(journal.KindDone, 1)} {
				j.Write([]journal.Record{r}, i%2 == 0, func(err error) {
					order = append(order, i)
					answer <- err
				})
			}
			if err := tryWrite(j, update(2, 12, "l", "{}")); !errors.Is(err, journal.ErrDiskFull) {
				t.Fatalf("TryWrite: %v, want ErrDiskFull", err)
			}
			if err := j.Check(); !errors.Is(err, journal.ErrDiskFull) {
				t.Errorf("Check: %v, want ErrDiskFull", err)
			}
			if len(answer) > 0 {
				t.Fatal("answered without space")
			}
			if e := j.Entries(); len(e) != 1 || e[0].State != journal.Pending {
				t.Errorf("in effect: %+v", e)
			}
			full.Store(false)
			for range 4 {
				mustDo(t, <-answer)
			}
			if e := j.Entries(); len(e) != 1 || e[0].State != journal.Done || len(j.Calls()) != 1 {
				t.Errorf("not in effect: %+v, %+v", e, j.Calls())
			}
			write(t, j, update(2, 12, "l", "{}"))
			want := dump(t, j)
			if got := dump(t, takeOver(t, dir, 2, journal.Options{})); got != want {
				t.Errorf("after takeover\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Close does not wait for space.
func TestCloseWithFullDisk(t *testing.T) {
	o, full := fullDisk("create")
	o.RetryAfter = time.Hour
	j := takeOver(t, t.TempDir(), 1, o)
	full.Store(true)
	answer := make(chan error, 1)
	j.Write([]journal.Record{confirmed(1, false)}, false, func(err error) { answer <- err })
	mustDo(t, j.Close())
	if err := <-answer; !errors.Is(err, journal.ErrDiskFull) {
		t.Errorf("got %v, want ErrDiskFull", err)
	}
}

// A record that does not fit leaves nothing behind, however often it is tried:
// what little space there is stays free.
func TestFullDiskIsNotFilledByRetries(t *testing.T) {
	dir := t.TempDir()
	var (
		log     bytes.Buffer
		o       = journal.Options{RetryAfter: time.Millisecond, Logger: zerolog.New(&log)}
		full    atomic.Bool
		creates int
		writes  int // to the file made last
	)
	journal.SetFault(&o, func(op, _ string) error {
		switch op {
		case "create":
			creates, writes = creates+1, 0
		case "write":
			writes++
			if full.Load() && (creates%2 == 0 || writes > 1) { // neither snapshots nor records fit, a base does
				return syscall.ENOSPC
			}
		}
		return nil
	})
	j := takeOver(t, dir, 1, o)
	write(t, j, update(1, 11, "l", "{}"))
	full.Store(true)
	for range 30 {
		if err := tryWrite(j, assign(1, 1)); !errors.Is(err, journal.ErrDiskFull) {
			t.Fatal(err)
		}
	}
	if creates < 40 {
		t.Errorf("%d files were begun, want two for each try", creates)
	}
	if names := files(t, filepath.Join(dir, "1")); names != "1.log" {
		t.Errorf("files %s", names)
	}
	if n := strings.Count(log.String(), "\n"); n > 2 {
		t.Errorf("told %d times:\n%s", n, log.String())
	}
	full.Store(false)
	waitWrite(t, j, assign(1, 1))
	want := dump(t, j)
	if got := dump(t, takeOver(t, dir, 2, journal.Options{})); got != want {
		t.Errorf("after takeover\n%s\nwant\n%s", got, want)
	}
}

// TestOrderModel writes random records, patient ones and others, with a disk that
// is full at times. What was not refused took effect in the order of the calls.
func TestOrderModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var refuse atomic.Int64 // so many writes of files
		o := journal.Options{RetryAfter: time.Millisecond, MaxDead: 2, RotateAt: rapid.SampledFrom([]int64{300, 1 << 20}).Draw(rt, "rotate at")}
		journal.SetFault(&o, func(op, _ string) error {
			if op == "write" && refuse.Add(-1) >= 0 {
				return syscall.ENOSPC
			}
			return nil
		})
		dir := memDir(t)
		j := takeOver(t, dir, 1, o)
		defer func() { _ = j.Close() }()
		type call struct {
			recs    []journal.Record
			patient bool
			answer  chan error
		}
		var calls []call
		ids := map[int64]bool{0: true}
		pass := func() {
			gate := make(chan struct{}) // so that the journal finds all calls of a pass at once
			defer close(gate)
			j.TryWrite(nil, false, func(error) { <-gate })
			refuse.Store(rapid.Int64Range(0, 8).Draw(rt, "refused"))
			for range rapid.IntRange(1, 8).Draw(rt, "calls") {
				c := call{rapid.SliceOfN(recordGen(j, ids), 1, 3).Draw(rt, "records"), rapid.Bool().Draw(rt, "patient"), make(chan error, 1)}
				write := j.TryWrite
				if c.patient {
					write = j.Write
				}
				write(c.recs, rapid.Bool().Draw(rt, "sync"), func(err error) { c.answer <- err })
				if rapid.IntRange(0, 3).Draw(rt, "ends a batch") == 0 {
					j.TryWrite([]journal.Record{{}}, false, nil) // it is invalid
				}
				calls = append(calls, c)
			}
		}
		for range rapid.IntRange(1, 8).Draw(rt, "passes") {
			pass()
			if rapid.Bool().Draw(rt, "wait") {
				_ = j.Check()
			}
		}
		refuse.Store(0)
		m := &model{entries: map[uint64]*modelEntry{}, calls: map[string]*modelCall{}, maxDead: o.MaxDead}
		for _, c := range calls {
			err := <-c.answer
			if err != nil && (c.patient || !errors.Is(err, journal.ErrDiskFull)) {
				rt.Fatal(err)
			}
			for _, r := range c.recs {
				if err == nil {
					m.apply(r)
				}
			}
		}
		want := m.String()
		if got := dump(t, j); got != want {
			rt.Fatalf("got\n%s\nwant\n%s", got, want)
		}
		mustDo(t, j.Close())
		if got := dump(t, takeOver(t, dir, 2, journal.Options{MaxDead: 2})); got != want {
			rt.Fatalf("after takeover\n%s\nwant\n%s", got, want)
		}
	})
}
