package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"tgbridge/internal/journal"
)

func TestHighestTerm(t *testing.T) {
	tests := []struct {
		name  string
		names []string
		want  uint64
	}{
		{"no directory", nil, 0},
		{"empty", []string{""}, 0},
		{"numbers, not text", []string{"9", "10"}, 10},
		{"other names", []string{"9", "010", "x", "-11", "1e9", "12.log", "18446744073709551616"}, 9},
		{"the greatest", []string{"4503599627370496"}, 1 << 52},
		{"beyond", []string{"9", "4503599627370497", "9007199254740990", "18446744073709551615"}, 9},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "journal")
			for _, name := range tt.names {
				if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			got, err := journal.HighestTerm(dir)
			if err != nil || got != tt.want {
				t.Errorf("got %d, %v, want %d", got, err, tt.want)
			}
		})
	}
}

func TestSuperseded(t *testing.T) {
	dir := t.TempDir()
	old := takeOver(t, dir, 5, journal.Options{})
	write(t, old, update(1, 11, "l", "{}"))
	for _, term := range []uint64{4, 5} {
		if _, err := journal.TakeOver(dir, term, journal.Options{}); !errors.Is(err, journal.ErrSuperseded) {
			t.Errorf("term %d: got %v, want ErrSuperseded", term, err)
		}
	}
	if err := old.Check(); err != nil {
		t.Fatal(err)
	}
	j := takeOver(t, dir, 7, journal.Options{})
	want := dump(t, j)
	if err := old.Check(); !errors.Is(err, journal.ErrSuperseded) {
		t.Errorf("Check of the predecessor: got %v, want ErrSuperseded", err)
	}
	<-old.Failed()
	if err := tryWrite(old, rec(journal.KindDone, 1)); !errors.Is(err, journal.ErrSuperseded) {
		t.Errorf("Write of the predecessor: got %v, want ErrSuperseded", err)
	}
	if names := files(t, dir); names != "7" {
		t.Errorf("terms %s, want 7", names)
	}
	if got := dump(t, j); got != want {
		t.Errorf("changed to\n%s\nfrom\n%s", got, want)
	}
}

// A leader is stopped before each operation, a successor takes over and writes,
// then the leader goes on (TakeOver, rotation, Check). It must learn that it is
// superseded, and the successor must neither notice nor lose anything.
func TestG5StoppedAtEachStep(t *testing.T) {
	for stop := 0; ; stop++ {
		dir := filepath.Join(memDir(t), "journal")
		var (
			n         int
			stoppedAt string
			successor *journal.Journal
			o         = journal.Options{RotateAt: 100}
		)
		journal.SetFault(&o, func(op, path string) error {
			if n++; n == stop+1 {
				stoppedAt = op + " " + strings.TrimPrefix(path, dir)
				successor = takeOver(t, dir, 6, journal.Options{})
				write(t, successor, update(successor.Reserve(1), 1000, "new", `"of the successor"`))
			}
			return nil
		})
		j, err := journal.TakeOver(dir, 5, o)
		acknowledged := 0
		if err == nil {
			for i := range 6 {
				if tryWrite(j, update(j.Reserve(1), int64(i+1), "old", `"of the predecessor"`)) != nil || j.Check() != nil {
					break // an answer counts only with the check after it
				}
				acknowledged++
			}
			err = j.Check()
			_ = j.Close()
		}
		if successor == nil {
			if stop < 15 {
				t.Errorf("only %d steps", stop)
			}
			return
		}
		if !errors.Is(err, journal.ErrSuperseded) {
			t.Errorf("stopped before %s: got %v, want ErrSuperseded", stoppedAt, err)
		}
		if names := files(t, dir); names != "6" {
			t.Errorf("stopped before %s: terms %s, want 6", stoppedAt, names)
		}
		if err := successor.Check(); err != nil {
			t.Errorf("stopped before %s: successor: %v", stoppedAt, err)
		}
		if _, ok := successor.Seen(1000); !ok {
			t.Errorf("stopped before %s: lost what the successor wrote", stoppedAt)
		}
		for i := range acknowledged {
			if _, ok := successor.Seen(int64(i + 1)); !ok {
				t.Errorf("stopped before %s: lost update %d", stoppedAt, i+1)
			}
		}
		want := dump(t, successor)
		if err := successor.Close(); err != nil {
			t.Fatal(err)
		}
		if got := dump(t, takeOver(t, dir, 7, journal.Options{})); got != want {
			t.Errorf("stopped before %s: third leader has\n%s\nwant\n%s", stoppedAt, got, want)
		}
	}
}

// Of several directories the highest counts, empty others go, and others that
// hold something are told and left alone.
func TestSeveralTerms(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"3", "4/x", "notes"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	j := takeOver(t, dir, 9, journal.Options{})
	write(t, j, update(1, 11, "l", "{}"))
	if err := os.Mkdir(filepath.Join(dir, "8"), 0o700); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	j = takeOver(t, dir, 10, journal.Options{Logger: zerolog.New(&log)})
	if pending, _ := j.Live(); pending != 1 {
		t.Errorf("%d pending, want 1", pending)
	}
	if names := files(t, dir); names != "10 notes" {
		t.Errorf("left %q", names)
	}
	if err := os.MkdirAll(filepath.Join(dir, "7", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	takeOver(t, dir, 11, journal.Options{Logger: zerolog.New(&log)})
	if names := files(t, dir); names != "11 7 notes" {
		t.Errorf("left %q", names)
	}
	if !strings.Contains(log.String(), filepath.Join(dir, "7")) {
		t.Errorf("not told: %s", log.String())
	}
}

// Empty directories of higher terms hide no journal: no leader leaves one above
// another. The terms are above theirs all the same.
func TestEmptyTermAbove(t *testing.T) {
	dir := t.TempDir()
	write(t, takeOver(t, dir, 3, journal.Options{}), update(1, 11, "l", "{}"))
	for _, name := range []string{"40", "50"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if highest, err := journal.HighestTerm(dir); highest != 50 || err != nil {
		t.Errorf("highest term %d %v, want 50", highest, err)
	}
	j := takeOver(t, dir, 51, journal.Options{})
	if pending, _ := j.Live(); pending != 1 {
		t.Errorf("%d pending, want 1", pending)
	}
	if names := files(t, dir); names != "51" {
		t.Errorf("left %q", names)
	}
}

// What is named like a term or a file that there cannot be is told and left alone,
// also when it appears under a leader.
func TestTermsBeyond(t *testing.T) {
	for _, name := range []string{"4503599627370497", "9007199254740990", "18446744073709551615"} {
		dir, term := t.TempDir(), uint64(5)
		if err := os.MkdirAll(filepath.Join(dir, name, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		own := filepath.Join(dir, fmt.Sprint(term))
		j := takeOver(t, dir, term, journal.Options{})
		write(t, j, update(1, int64(term), "l", "{}"))
		if err := os.WriteFile(filepath.Join(own, name+".log"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		term++
		j = takeOver(t, dir, term, journal.Options{Logger: zerolog.New(&log)})
		own = filepath.Join(dir, fmt.Sprint(term))
		for _, path := range []string{filepath.Join(dir, name), filepath.Join(own, name+".log")} {
			if told := strings.Count(log.String(), path+`"`); told != 1 {
				t.Errorf("%s was told %d times: %s", path, told, log.String())
			}
			if _, err := os.Lstat(path); err != nil {
				t.Error(err)
			}
		}
		if pending, _ := j.Live(); pending != 1 {
			t.Errorf("%d pending, want 1", pending)
		}
		if err := os.RemoveAll(filepath.Join(dir, fmt.Sprint(term))); err != nil {
			t.Fatal(err)
		}
		if err := j.Check(); err != nil {
			t.Error("check:", err)
		}
		write(t, j, update(term, int64(term), "l", "{}"))
	}
}

// What the journal did not make is named and not touched.
func TestUnusable(t *testing.T) {
	newer, err := journal.Line(journal.SnapshotRecord("base", 0, 0, false, 2, 1))
	if err != nil {
		t.Fatal(err)
	}
	link := func(path string) error { return os.Symlink(os.TempDir(), path) }
	file := func(path string) error { return os.WriteFile(path, newer, 0o600) }
	mkdir := func(path string) error { return os.MkdirAll(path, 0o700) }
	tests := []struct {
		name, path string // of what is in the way
		make       func(path string) error
		remedy     string
	}{
		{"file for the directory", "journal", file, "move it away"},
		{"link for the directory", "journal", link, "move it away"},
		{"file for a term", "journal/4", file, "move it away"},
		{"link for a term", "journal/4", link, "move it away"},
		{"file for a higher term", "journal/44", file, "move it away"},
		{"directory for a file", "journal/4/1.log", mkdir, "move it away"},
		{"link for a file", "journal/4/1.log", link, "move it away"},
		{"newer version", "journal/4/1.log", file, "start the newer tgbridge"},
		{"the highest number", "journal/4/4503599627370496.log", func(path string) error { return os.WriteFile(path, nil, 0o600) }, "rename it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			path := filepath.Join(root, tt.path)
			if err := mkdir(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
			if err := tt.make(path); err != nil {
				t.Fatal(err)
			}
			_, err := journal.TakeOver(filepath.Join(root, "journal"), 5, journal.Options{})
			if !errors.Is(err, journal.ErrUnusable) {
				t.Fatalf("got %v, want ErrUnusable", err)
			}
			moved := strings.Replace(path, filepath.Join("journal", "4"), filepath.Join("journal", "5"), 1)
			if text := err.Error(); !strings.Contains(text, path) && !strings.Contains(text, moved) || !strings.Contains(text, tt.remedy) {
				t.Errorf("%q names not %s or what to do", text, path)
			}
			if _, err := os.Lstat(path); err != nil {
				if _, err := os.Lstat(moved); err != nil {
					t.Error("it is gone")
				}
			}
		})
	}
}

// F35, S16: whatever is deleted or emptied under a leader, Check makes anew with
// all that is live, and a journal that is lost while nobody leads begins anew.
func TestS16LostFiles(t *testing.T) {
	tests := []struct {
		name string
		harm func(t *testing.T, dir string)
	}{
		{"file deleted", func(t *testing.T, dir string) { mustDo(t, os.Remove(filepath.Join(dir, "1", "1.log"))) }},
		{"file replaced", func(t *testing.T, dir string) {
			path := filepath.Join(dir, "1", "1.log")
			mustDo(t, os.Remove(path))
			mustDo(t, os.WriteFile(path, []byte("other\n"), 0o600))
		}},
		{"file moved", func(t *testing.T, dir string) {
			mustDo(t, os.Rename(filepath.Join(dir, "1", "1.log"), filepath.Join(dir, "1", "moved")))
		}},
		{"directory of the term deleted", func(t *testing.T, dir string) { mustDo(t, os.RemoveAll(filepath.Join(dir, "1"))) }},
		{"directory deleted", func(t *testing.T, dir string) { mustDo(t, os.RemoveAll(dir)) }},
		{"directory replaced by an older one", func(t *testing.T, dir string) {
			mustDo(t, os.RemoveAll(filepath.Join(dir, "1")))
			mustDo(t, os.MkdirAll(filepath.Join(dir, "0", "x"), 0o700))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "journal")
			j := takeOver(t, dir, 1, journal.Options{})
			write(t, j, update(1, 11, "l", "{}"), outcome(1, "reply"), call("a", 1), result("a", "1"), update(2, 12, "l", "[]"))
			want := dump(t, j)
			tt.harm(t, dir)
			if err := j.Check(); err != nil {
				t.Fatal(err)
			}
			if got := dump(t, j); got != want {
				t.Errorf("after Check\n%s\nwant\n%s", got, want)
			}
			write(t, j, assign(2, 1))
			want = dump(t, j)
			if got := dump(t, takeOver(t, dir, 2, journal.Options{})); got != want {
				t.Errorf("after takeover\n%s\nwant\n%s", got, want)
			}
		})
	}
	for _, harm := range []string{"emptied", "deleted"} {
		t.Run(harm+" while nobody leads", func(t *testing.T) {
			dir := t.TempDir()
			j := takeOver(t, dir, 1, journal.Options{})
			write(t, j, update(1, 11, "l", "{}"))
			mustDo(t, j.Close())
			path := filepath.Join(dir, "1", "1.log")
			if harm == "emptied" {
				mustDo(t, os.Truncate(path, 0))
			} else {
				mustDo(t, os.Remove(path))
			}
			var log bytes.Buffer
			j = takeOver(t, dir, 2, journal.Options{Logger: zerolog.New(&log)})
			if !strings.Contains(log.String(), "warn") {
				t.Errorf("not told: %s", log.String())
			}
			write(t, j, update(j.Reserve(1), 11, "l", "{}"))
		})
	}
}

func mustDo(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A directory that was deleted under a leader is not made again where a
// successor made its own in the meantime.
func TestG5RemakeAfterTakeOver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	var (
		o         journal.Options
		successor *journal.Journal
		armed     atomic.Bool
	)
	journal.SetFault(&o, func(op, _ string) error {
		if op == "mkdir" && armed.Swap(false) {
			successor = takeOver(t, dir, 6, journal.Options{})
		}
		return nil
	})
	j := takeOver(t, dir, 5, o)
	write(t, j, update(1, 11, "l", "{}"))
	mustDo(t, os.RemoveAll(filepath.Join(dir, "5")))
	armed.Store(true)
	if err := j.Check(); !errors.Is(err, journal.ErrSuperseded) {
		t.Errorf("got %v, want ErrSuperseded", err)
	}
	if names := files(t, dir); names != "6" {
		t.Errorf("terms %q, want 6", names)
	}
	mustDo(t, successor.Check())
}

// S16: damage loses what the damaged lines said and nothing else; it is told,
// the file is put aside, and numbers that may have been lost are not used again.
func TestS16Damage(t *testing.T) {
	dir := t.TempDir()
	j := takeOver(t, dir, 1, journal.Options{})
	for i := range 5 {
		write(t, j, update(j.Reserve(1), int64(i+1), "l", fmt.Sprintf(`{"n":%d}`, i+1)))
	}
	write(t, j, confirmed(1, false))
	mustDo(t, j.Close())
	path := filepath.Join(dir, "1", "1.log")
	data, err := os.ReadFile(path)
	mustDo(t, err)
	lines := bytes.SplitAfter(data, []byte("\n")) // base, complete, five updates, confirmed, nothing
	tests := []struct {
		name    string
		data    []byte
		missing string // seqs
		warned  bool
	}{
		{"one line", bytes.Replace(data, []byte(`"n":3`), []byte(`"n":8`), 1), "3", true},
		{"the base", bytes.Replace(data, []byte(`"base"`), []byte(`"bass"`), 1), "", true},
		{"complete", bytes.Replace(data, []byte(`"complete"`), []byte(`"compleat"`), 1), "", true},
		{"a line feed", bytes.Replace(data, []byte("}}\n"), []byte("}} "), 1), "1 2", true},
		{"NULs", bytes.Replace(data, lines[4], make([]byte, len(lines[4])-1), 1), "3 4", true},
		{"half a line in between", bytes.Replace(data, lines[4], append(lines[4][:20:20], '\n'), 1), "3", true},
		{"the last update", bytes.Replace(data, []byte(`"n":5`), []byte(`"n":8`), 1), "5", true},
		{"last line", data[:len(data)-3], "", false},
		{"NULs at the end", append(bytes.Clone(data), make([]byte, 5000)...), "", false},
		{"a very long line", slices.Concat(data, make([]byte, journal.MaxLine+5), []byte("\n"), lines[1]), "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			mustDo(t, os.Mkdir(filepath.Join(dir, "1"), 0o700))
			mustDo(t, os.WriteFile(filepath.Join(dir, "1", "1.log"), tt.data, 0o600))
			var log bytes.Buffer
			j := takeOver(t, dir, 2, journal.Options{Logger: zerolog.New(&log)})
			var missing []string
			for seq := uint64(1); seq <= 5; seq++ {
				body, err := j.Body(seq)
				if errors.Is(err, journal.ErrNotFound) {
					missing = append(missing, fmt.Sprint(seq))
				} else if err != nil || string(body) != fmt.Sprintf(`{"n":%d}`, seq) {
					t.Errorf("body %d: %q, %v", seq, body, err)
				}
			}
			if got := strings.Join(missing, " "); got != tt.missing {
				t.Errorf("missing %q, want %q", got, tt.missing)
			}
			if warned := strings.Contains(log.String(), "journal is damaged"); warned != tt.warned {
				t.Errorf("warned: %v, want %v: %s", warned, tt.warned, log.String())
			}
			names := "2.log"
			if tt.warned {
				names = "1.kept 2.log"
			}
			if got := files(t, filepath.Join(dir, "2")); got != names {
				t.Errorf("files %q, want %q", got, names)
			}
			if next := j.Reserve(1); next < 6 {
				t.Errorf("next number %d was used before", next)
			}
			want := dump(t, j)
			if got := dump(t, takeOver(t, dir, 3, journal.Options{})); got != want {
				t.Errorf("after another takeover\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// S11: records of kinds that a newer version writes, or an older one wrote, are
// passed over, told, and put aside.
func TestUnknownKind(t *testing.T) {
	dir := t.TempDir()
	j := takeOver(t, dir, 1, journal.Options{})
	write(t, j, update(1, 11, "l", "{}"))
	mustDo(t, j.Close())
	path := filepath.Join(dir, "1", "1.log")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	mustDo(t, err)
	for _, object := range []string{
		`{"kind":"later","seq":1}`,
		`{"kind":"outcome","seq":1,"attempt":1,"body":"r"}`,
		`{"kind":"sending","seq":1,"part":1,"by":"x"}`,
		`{"kind":"sent","seq":1,"part":1}`,
		`{"kind":"update","seq":2,"delivery":"d2","id":12,"hash":"1","lane":"l","body":{}}`,
		`{"kind":"state","seq":2,"attempt":1,"part":1,"by":"x","state":"assigned","member":"m"}`,
	} {
		_, err = f.Write(journal.AppendLine(nil, []byte(object)))
		mustDo(t, err)
	}
	mustDo(t, f.Close())
	var log bytes.Buffer
	j = takeOver(t, dir, 2, journal.Options{Logger: zerolog.New(&log)})
	if reply, err := j.Reply(1); err != nil || string(reply) != `"r"` {
		t.Errorf("reply %q, %v", reply, err)
	}
	if e, ok := j.Seen(12); !ok || e.State != journal.Assigned || e.Member != "m" {
		t.Errorf("entry after them: %+v, %v", e, ok)
	}
	for _, kind := range []string{`"later"`, `"sending"`, `"sent"`} {
		if !strings.Contains(log.String(), kind) {
			t.Errorf("%s not told: %s", kind, log.String())
		}
	}
	if names := files(t, filepath.Join(dir, "2")); names != "1.kept 2.log" {
		t.Errorf("files %q", names)
	}
}

// Whatever the length to which a small file is cut, all lines before are there.
func TestTornTailAtEveryByte(t *testing.T) {
	dir := t.TempDir()
	j := takeOver(t, dir, 1, journal.Options{})
	write(t, j, update(1, 11, "l", "{}"))
	mustDo(t, j.Close())
	j = takeOver(t, dir, 2, journal.Options{})
	write(t, j, update(2, 12, "l", "{\n}"))
	write(t, j, outcome(1, "reply"))
	mustDo(t, j.Close())
	data, err := os.ReadFile(filepath.Join(dir, "2", "2.log"))
	mustDo(t, err)
	for n := range len(data) + 1 {
		dir := memDir(t)
		mustDo(t, os.Mkdir(filepath.Join(dir, "2"), 0o700))
		mustDo(t, os.WriteFile(filepath.Join(dir, "2", "2.log"), data[:n], 0o600))
		whole := bytes.Count(data[:n], []byte("\n")) // base, update, complete, update, outcome
		want := []string{"", "", "1:pending", "1:pending", "1:pending 2:pending", "1:outcome 2:pending"}[whole]
		j, err := journal.TakeOver(dir, 3, journal.Options{})
		mustDo(t, err)
		var got []string
		for _, e := range j.Entries() {
			got = append(got, fmt.Sprintf("%d:%v", e.Seq, e.State))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%d bytes: got %q, want %q", n, got, want)
		}
		mustDo(t, j.Close())
	}
}
