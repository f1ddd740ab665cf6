package journal_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tgbridge/internal/journal"
)

// A real file system of 1 MiB fills up, and gets some space again.
func TestRealDiskFull(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a tmpfs needs root")
	}
	mount := t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { mustDo(t, syscall.Unmount(mount, 0)) })
	dir := filepath.Join(mount, "journal")
	j, err := journal.TakeOver(dir, 1, journal.Options{})
	mustDo(t, err)
	defer func() { _ = j.Close() }()
	ballast := filepath.Join(mount, "ballast")
	mustDo(t, os.WriteFile(ballast, make([]byte, 600<<10), 0o600))

	body := `"` + strings.Repeat("x", 4000) + `"`
	written := uint64(0)
	for {
		seq := j.Reserve(1)
		err := tryWrite(j, update(seq, int64(seq), "l", body))
		if errors.Is(err, journal.ErrDiskFull) {
			break
		}
		mustDo(t, err)
		written++
		if written > 200 {
			t.Fatal("never full")
		}
	}
	if err := tryWrite(j, outcome(1, "reply")); !errors.Is(err, journal.ErrDiskFull) {
		t.Fatalf("acknowledgement: %v, want ErrDiskFull", err)
	}
	want := dump(t, j)

	// The leader changes while the disk is full.
	mustDo(t, j.Close())
	j, err = journal.TakeOver(dir, 2, journal.Options{RotateAt: 1000})
	mustDo(t, err)
	if got := dump(t, j); got != want {
		t.Errorf("after takeover\n%.300s\nwant\n%.300s", got, want)
	}
	if err := tryWrite(j, outcome(1, "reply")); !errors.Is(err, journal.ErrDiskFull) {
		t.Fatalf("after takeover: %v, want ErrDiskFull", err)
	}

	// There is a little space, less than for a snapshot: outcomes are taken in,
	// and when enough is done the journal becomes one file again.
	mustDo(t, os.Truncate(ballast, 500<<10))
	waitWrite(t, j, outcome(1, "reply"))
	for seq := uint64(2); seq <= written; seq++ {
		write(t, j, rec(journal.KindDone, seq))
	}
	write(t, j, confirmed(0, true))
	for i := range 100 {
		write(t, j, confirmed(int64(i), false))
	}
	if names := strings.Fields(files(t, filepath.Join(dir, "2"))); len(names) != 1 {
		t.Errorf("files %v, want one", names)
	}
	want = dump(t, j)
	mustDo(t, j.Close())
	j, err = journal.TakeOver(dir, 3, journal.Options{})
	mustDo(t, err)
	if got := dump(t, j); got != want {
		t.Errorf("after takeover\n%.300s\nwant\n%.300s", got, want)
	}
}
