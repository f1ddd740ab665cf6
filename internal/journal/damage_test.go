package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"tgbridge/internal/journal"
)

// harms are what may be done to a file that stays the one at its path.
var harms = []struct {
	name string
	lost int // 1: texts are
	do   func(t *testing.T, path string, data []byte)
}{
	{"cut in half", 1, func(t *testing.T, path string, data []byte) { mustDo(t, os.Truncate(path, int64(len(data)/2))) }},
	{"emptied", 1, func(t *testing.T, path string, _ []byte) { mustDo(t, os.Truncate(path, 0)) }},
	{"one byte less", 0, func(t *testing.T, path string, data []byte) { mustDo(t, os.Truncate(path, int64(len(data)-1))) }},
	{"overwritten", 1, func(t *testing.T, path string, _ []byte) {
		mustDo(t, os.WriteFile(path, bytes.Repeat([]byte("noise\n"), 9), 0o600))
	}},
	{"longer", 0, func(t *testing.T, path string, data []byte) {
		mustDo(t, os.WriteFile(path, append(bytes.Clone(data), "noise\n"...), 0o600))
	}},
	{"longer without a line feed", 0, func(t *testing.T, path string, data []byte) {
		mustDo(t, os.WriteFile(path, append(bytes.Clone(data), "noise"...), 0o600))
	}},
}

// S16: a file that is cut off or overwritten under a leader is given up with the
// next write or check. No entry vanishes for it, nor a call: what cannot be read
// any more is lost, and told once; all else is in the new file.
func TestS16DamageUnderLeader(t *testing.T) {
	for _, harm := range harms {
		for _, next := range []string{"Check", "Write", "Write without sync"} {
			t.Run(harm.name+", then "+next, func(t *testing.T) {
				dir := t.TempDir()
				var log bytes.Buffer
				j := takeOver(t, dir, 1, journal.Options{Logger: zerolog.New(&log)})
				write(t, j, call("a", 1), result("a", "1"), call("b", 1))
				for seq := range uint64(7) {
					write(t, j, update(j.Reserve(1), 11+int64(seq), "l", fmt.Sprintf(`{"n":%d}`, seq+1)))
				}
				write(t, j, assign(2, 1), outcome(3, "reply"), rec(journal.KindDone, 4), dead(5))
				before := j.Entries()
				path := filepath.Join(dir, "1", "1.log")
				data, err := os.ReadFile(path)
				mustDo(t, err)
				harm.do(t, path, data)
				if next != "Check" {
					done := make(chan error, 1)
					j.Write([]journal.Record{update(j.Reserve(1), 21, "l", `"new"`)}, next == "Write", func(err error) { done <- err })
					mustDo(t, <-done)
					if body, err := j.Body(8); err != nil || string(body) != `"new"` {
						t.Errorf("written after it: %q, %v", body, err)
					}
				}
				mustDo(t, j.Check())
				if names := files(t, filepath.Join(dir, "1")); strings.Contains(names, "1.log") || !strings.Contains(names, "2.log") {
					t.Errorf("files %s, want a new one", names)
				}
				checkLost(t, j, harm.name, before)
				told := strings.Count(log.String(), "lost")
				if kept := strings.Contains(files(t, filepath.Join(dir, "1")), "1.kept"); told != harm.lost || kept != (told > 0) {
					t.Errorf("told %d times, put aside: %v: %s", told, kept, log.String())
				}
				write(t, j, assign(1, 1))
				want := dump(t, j)
				j = takeOver(t, dir, 2, journal.Options{})
				if got := dump(t, j); got != want {
					t.Errorf("after takeover\n%s\nwant\n%s", got, want)
				}
				write(t, j, dead(1))
				if got := len(j.DeadLetters()); got != 2 {
					t.Errorf("%d dead letters, want 2", got)
				}
			})
		}
	}
}

// checkLost compares a journal that was harmed with its entries before.
func checkLost(t *testing.T, j *journal.Journal, harm string, before []journal.Entry) {
	t.Helper()
	after := j.Entries()
	for i, e := range before {
		if i >= len(after) || after[i].Seq != e.Seq || after[i].State != e.State || after[i].Delivery != e.Delivery || after[i].Hash != e.Hash {
			t.Fatalf("%+v became of %+v", after, before)
		}
		body, err := j.Body(e.Seq)
		switch {
		case harm == "emptied" || harm == "overwritten":
			if !errors.Is(err, journal.ErrDamaged) {
				t.Errorf("body %d: %q, %v", e.Seq, body, err)
			}
		case harm == "one byte less" || strings.HasPrefix(harm, "longer") || e.Seq == 1:
			want := fmt.Sprintf(`{"n":%d}`, e.Seq)
			if err != nil || string(body) != want {
				t.Errorf("body %d: %q, %v, want %s", e.Seq, body, err, want)
			}
		}
	}
	if calls := j.Calls(); len(calls) != 2 || calls[0].Done == calls[1].Done {
		t.Errorf("calls %+v, want a done and b not", calls)
	}
}

// S16: what is overwritten in place is found when it is read, which gives the file
// up, and passed on by no snapshot; all else is.
func TestS16OverwrittenInPlace(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	j := takeOver(t, dir, 1, journal.Options{Logger: zerolog.New(&log)})
	write(t, j, update(1, 11, "l", `{"n":1}`), update(2, 12, "l", `{"n":2}`), outcome(2, `"reply"`), call("a", 1), result("a", `"result"`))
	path := filepath.Join(dir, "1", "1.log")
	data, err := os.ReadFile(path)
	mustDo(t, err)
	for _, text := range []string{`"n":1`, `"reply"`, `"result"`} {
		data = bytes.ReplaceAll(data, []byte(text), []byte(strings.ToUpper(text)))
	}
	mustDo(t, os.WriteFile(path, data, 0o600))
	if body, err := j.Body(1); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("body %q, %v", body, err)
	}
	mustDo(t, j.Check())
	if names := files(t, filepath.Join(dir, "1")); strings.Contains(names, "1.log") {
		t.Errorf("files %s, want a new one", names)
	}
	for term := uint64(2); term <= 3; term++ {
		if body, err := j.Body(1); !errors.Is(err, journal.ErrDamaged) {
			t.Errorf("body 1: %q, %v", body, err)
		}
		if body, err := j.Body(2); err != nil || string(body) != `{"n":2}` {
			t.Errorf("body 2: %q, %v", body, err)
		}
		if reply, err := j.Reply(2); !errors.Is(err, journal.ErrDamaged) || len(j.Entries()) != 2 || j.Entries()[1].State != journal.Outcome {
			t.Errorf("reply %q, %v, of %+v", reply, err, j.Entries())
		}
		if result, err := j.Result("a"); err != nil || len(result) != 0 || !j.Calls()[0].Done {
			t.Errorf("result %q, %v, of %+v, want none of a call that is done", result, err, j.Calls())
		}
		want := dump(t, j)
		mustDo(t, j.Close())
		j = takeOver(t, dir, term, journal.Options{})
		if got := dump(t, j); got != want {
			t.Errorf("after takeover\n%s\nwant\n%s", got, want)
		}
	}
	if n := strings.Count(log.String(), "lost"); n != 1 {
		t.Errorf("told %d times: %s", n, log.String())
	}
}

// An update has a body: none is what is left of one that was lost.
func TestUpdateWithoutBody(t *testing.T) {
	j := takeOver(t, t.TempDir(), 1, journal.Options{})
	if err := tryWrite(j, update(1, 11, "l", "")); !errors.Is(err, journal.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
}

// A read that fails is no damage: nothing is taken for lost, and it may be tried
// again; the error names the file.
func TestReadFails(t *testing.T) {
	dir := t.TempDir()
	var f faults
	j := takeOver(t, dir, 1, f.options())
	write(t, j, update(1, 11, "l", "{}"))
	eio := map[string]error{"read": syscall.EIO}
	named := func(err error) bool {
		return errors.Is(err, syscall.EIO) && !errors.Is(err, journal.ErrDamaged) && strings.Contains(err.Error(), ".log")
	}
	f.set(eio)
	if _, err := j.Body(1); !named(err) {
		t.Errorf("Body: %v, want EIO", err)
	}
	f.set(nil)
	if body, err := j.Body(1); err != nil || string(body) != "{}" {
		t.Errorf("Body: %q, %v", body, err)
	}
	f.set(map[string]error{"write": syscall.EIO, "read": syscall.EIO}) // for a snapshot
	if err := tryWrite(j, assign(1, 1)); !named(err) {
		t.Errorf("Write: %v, want EIO", err)
	}
	f.set(eio)
	mustDo(t, os.Rename(filepath.Join(dir, "1", "1.log"), filepath.Join(dir, "1", "moved")))
	if err := j.Check(); !named(err) {
		t.Errorf("Check: %v, want EIO", err)
	}
	<-j.Failed()
	mustDo(t, os.Rename(filepath.Join(dir, "1", "moved"), filepath.Join(dir, "1", "1.log")))
	if _, err := journal.TakeOver(dir, 2, f.options()); !named(err) {
		t.Errorf("TakeOver: %v, want EIO", err)
	}
	f.set(nil)
	if body, err := takeOver(t, dir, 3, f.options()).Body(1); err != nil || string(body) != "{}" {
		t.Errorf("Body for the next leader: %q, %v", body, err)
	}
}

// On a file system that became read-only the errors say where, and that somebody
// has to do something about it.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	var f faults
	j := takeOver(t, dir, 1, f.options())
	write(t, j, update(1, 11, "l", "{}"))
	f.set(map[string]error{
		"create": &os.PathError{Op: "open", Path: filepath.Join(dir, "1", "2.log"), Err: syscall.EROFS},
		"write":  syscall.EROFS,
		"rename": &os.LinkError{Op: "rename", Old: filepath.Join(dir, "1"), New: filepath.Join(dir, "2"), Err: syscall.EROFS},
	})
	for _, try := range []struct {
		name string
		do   func() error
	}{
		{"Write", func() error { return tryWrite(j, assign(1, 1)) }},
		{"TakeOver", func() error { _, err := journal.TakeOver(dir, 2, f.options()); return err }},
	} {
		if err := try.do(); !errors.Is(err, journal.ErrUnusable) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "writable") {
			t.Errorf("%s: %v, want ErrUnusable, %s, and what to do", try.name, err, dir)
		}
	}
	if body, err := j.Body(1); err != nil || string(body) != "{}" {
		t.Errorf("Body: %q, %v", body, err)
	}
}
