package journal_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tgbridge/internal/journal"
)

// takeOver takes dir over for a term and closes the journal when the test ends.
func takeOver(t testing.TB, dir string, term uint64, o journal.Options) *journal.Journal {
	t.Helper()
	j, err := journal.TakeOver(dir, term, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// write writes records with fsync and waits.
func write(t testing.TB, j *journal.Journal, recs ...journal.Record) {
	t.Helper()
	if err := tryWrite(j, recs...); err != nil {
		t.Fatal(err)
	}
}

func tryWrite(j *journal.Journal, recs ...journal.Record) error {
	answer := make(chan error, 1)
	j.TryWrite(recs, true, func(err error) { answer <- err })
	return <-answer
}

// waitWrite writes records with fsync and waits, for space too.
func waitWrite(t testing.TB, j *journal.Journal, recs ...journal.Record) {
	t.Helper()
	answer := make(chan error, 1)
	j.Write(recs, true, func(err error) { answer <- err })
	if err := <-answer; err != nil {
		t.Fatal(err)
	}
}

func update(seq uint64, id int64, lane, body string) journal.Record {
	return journal.Record{
		Kind: journal.KindUpdate, Seq: seq, Delivery: "d" + lane, ID: id, Hash: 1<<63 + uint64(id), Lane: lane, Body: []byte(body),
	}
}

// Every line of real updates comes back with the bytes it came in, from the
// log, from a snapshot, and after a takeover.
func TestBodiesAreByteExact(t *testing.T) {
	lines := updateLines(t)
	dir := filepath.Join(t.TempDir(), "state", "journal")
	j := takeOver(t, dir, 1, journal.Options{})
	for i, line := range lines {
		write(t, j, update(j.Reserve(1), int64(i)+1, "lane", line))
	}
	check := func(when string) {
		t.Helper()
		for i, line := range lines {
			body, err := j.Body(uint64(i) + 1)
			if err != nil || string(body) != line {
				t.Fatalf("%s: body %d = %q, %v, want %q", when, i+1, body, err, line)
			}
		}
	}
	check("from the log")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = takeOver(t, dir, 2, journal.Options{})
	check("from a snapshot")
	if err := os.Remove(filepath.Join(dir, "2", "2.log")); err != nil {
		t.Fatal(err)
	}
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	check("from a second snapshot")
}

// Lines of all lengths, close to one another and far apart, come through a
// snapshot, which reads more than one at a time.
func TestSnapshotOfLongLines(t *testing.T) {
	dir := t.TempDir()
	j := takeOver(t, dir, 1, journal.Options{})
	var want []string
	for i, size := range []int{10, 200 << 10, 10, 300 << 10, 5, 1 << 20, 100 << 10, 1, 256 << 10, 256<<10 - 150, 3} {
		want = append(want, `"`+strings.Repeat(string(rune('a'+i)), size)+`"`)
		write(t, j, update(j.Reserve(1), int64(i)+1, "l", want[i]), call("c", 0))
		write(t, j, result("c", `"`+strings.Repeat("r", i%3*20<<10)+`"`))
	}
	for range 2 {
		mustDo(t, os.RemoveAll(filepath.Join(dir, "1")))
		mustDo(t, j.Check())
		for i := range want {
			if body, err := j.Body(uint64(i) + 1); err != nil || string(body) != want[i] {
				t.Errorf("body %d of %d bytes: %d bytes, %v", i+1, len(want[i]), len(body), err)
			}
		}
	}
}

// Lookups, writes and rotations go on side by side.
func TestSideBySide(t *testing.T) {
	j := takeOver(t, memDir(t), 1, journal.Options{RotateAt: 1000})
	write(t, j, update(j.Reserve(1), 1, "l", `"first"`), call("a", 1), result("a", `"result"`))
	var readers, writers sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if body, err := j.Body(1); err != nil || string(body) != `"first"` {
					t.Errorf("body %q, %v", body, err)
					return
				}
				if body, err := j.Result("a"); err != nil || string(body) != `"result"` {
					t.Errorf("result %q, %v", body, err)
					return
				}
				if e := j.Entries(); len(e) == 0 || e[0].Seq != 1 {
					t.Errorf("entries %+v", e)
					return
				}
				j.Seen(1)
				j.Full()
			}
		})
	}
	for range 3 {
		writers.Go(func() {
			for range 60 {
				seq := j.Reserve(1)
				if err := tryWrite(j, update(seq, int64(seq)+1, "l", `"more"`)); err != nil {
					t.Error(err)
				}
				if err := tryWrite(j, rec(journal.KindDone, seq), confirmed(0, true)); err != nil {
					t.Error(err)
				}
				if err := j.Check(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if n := len(j.Entries()); n != 1 {
		t.Errorf("%d entries left, want 1", n)
	}
}
