package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"tgbridge/internal/journal"
)

// G10: memory for 100,000 waiting entries is bounded whatever their bodies are,
// a rotation needs no more than a little beside, and what is written stays in
// proportion to what was asked to be.
func TestG10Memory(t *testing.T) {
	const entries = 100_000 / share
	dir := filepath.Join(t.TempDir(), "journal")
	written := 0
	o := journal.Options{RotateAt: 16 << 20 / share, MaxPending: entries}
	journal.SetFault(&o, func(op, _ string) error {
		if op == "create" {
			written++
		}
		return nil
	})
	before := heap()
	j := takeOver(t, dir, 1, o)
	text := strings.Repeat("x", 150)
	for i := 0; i < entries; i += 100 {
		recs := make([]journal.Record, 0, 100)
		for k := range int64(100) {
			r := update(j.Reserve(1), int64(i)+k+1, fmt.Sprint("lane", k), `{"text":"`+text+`"}`)
			r.Delivery = fmt.Sprintf("%08x-0000-7000-8000-000000000000", r.Seq) // as long as a UUID
			recs = append(recs, r)
		}
		done := make(chan error, 1)
		j.Write(recs, false, func(err error) { done <- err })
		mustDo(t, <-done)
	}
	if perEntry := (heap() - before) / entries; perEntry > 200 {
		t.Errorf("%d bytes for an entry, want at most 200", perEntry)
	}
	if !j.Full() {
		t.Error("not full")
	}
	if written < 2 || written > 3 {
		t.Errorf("%d files, want new ones when the log has 16 and 32 MiB", written)
	}
	size := func() (sum int64) {
		for _, name := range strings.Fields(files(t, filepath.Join(dir, "1"))) {
			info, err := os.Stat(filepath.Join(dir, "1", name))
			mustDo(t, err)
			sum += info.Size()
		}
		return sum
	}
	if size() < 25<<20/share {
		t.Errorf("%d bytes on disk, want the bodies", size())
	}

	var low runtime.MemStats
	runtime.ReadMemStats(&low)
	name := strings.Fields(files(t, filepath.Join(dir, "1")))[0]
	mustDo(t, os.Remove(filepath.Join(dir, "1", name)))
	mustDo(t, j.Check())
	var high runtime.MemStats
	runtime.ReadMemStats(&high)
	if total := high.TotalAlloc - low.TotalAlloc; total > 16<<20 {
		t.Errorf("a rotation of %d bytes allocated %d", size(), total)
	}

	for seq := uint64(1); seq <= entries; seq += 100 {
		recs := make([]journal.Record, 100)
		for k := range recs {
			recs[k] = rec(journal.KindDone, seq+uint64(k))
		}
		j.Write(recs, false, nil)
	}
	write(t, j, confirmed(0, true))
	if left := heap() - before; left > 4<<20 {
		t.Errorf("%d bytes left when all are done", left)
	}
	mustDo(t, j.Close())
	j = takeOver(t, dir, 2, journal.Options{})
	if size, pending := len(j.Entries()), j.Reserve(1); size != 0 || pending != entries+1 {
		t.Errorf("%d entries, next %d", size, pending)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
