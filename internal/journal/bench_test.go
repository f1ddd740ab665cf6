package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tgbridge/internal/journal"
)

// bareSync returns how long one write of size bytes and an fsync take in dir.
func bareSync(b *testing.B, dir string, size int) time.Duration {
	b.Helper()
	f, err := os.Create(filepath.Join(dir, "bare"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	line := make([]byte, size)
	const rounds = 200
	start := time.Now()
	for range rounds {
		if _, err := f.Write(line); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start) / rounds
}

// BenchmarkDurableUpdate writes one update after the other with fsync. The
// metric x-bare compares with one bare write and fsync.
func BenchmarkDurableUpdate(b *testing.B) {
	dir := b.TempDir()
	j := takeOver(b, filepath.Join(dir, "journal"), 1, journal.Options{})
	body := updateLines(b)[0]
	bare := bareSync(b, dir, len(body)+150)
	b.ResetTimer()
	for range b.N {
		seq := j.Reserve(1)
		write(b, j, update(seq, int64(seq), "lane", body))
		j.Write([]journal.Record{{Kind: journal.KindDone, Seq: seq}, {Kind: journal.KindConfirmed, Empty: true}}, false, nil)
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(bare), "x-bare")
}

// BenchmarkSharedSync lets 64 goroutines write with fsync at once.
func BenchmarkSharedSync(b *testing.B) {
	dir := b.TempDir()
	j := takeOver(b, filepath.Join(dir, "journal"), 1, journal.Options{})
	bare := bareSync(b, dir, 200)
	b.ResetTimer()
	var group sync.WaitGroup
	for w := range 64 {
		group.Go(func() {
			for i := w; i < b.N; i += 64 {
				write(b, j, journal.Record{Kind: journal.KindConfirmed, Offset: int64(i)})
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(bare), "x-bare")
}

// BenchmarkAtTheLimit takes over, and begins a new file, with as much as can be
// live: 100,000 updates of 1 KB, or 256 MiB of longer ones. It is in memory where
// the system has that.
func BenchmarkAtTheLimit(b *testing.B) {
	for _, size := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			dir := filepath.Join(memDir(b), "journal")
			j := takeOver(b, dir, 1, journal.Options{})
			body := `{"text":"` + strings.Repeat("some text ", size/10) + `"}`
			for !j.Full() {
				var recs []journal.Record
				for range 100 {
					seq := j.Reserve(1)
					recs = append(recs, update(seq, int64(seq), fmt.Sprint(seq%1000), body))
				}
				write(b, j, recs...)
			}
			pending, _ := j.Live()
			var begin time.Duration
			b.ResetTimer()
			for term := range uint64(b.N) {
				mustDo(b, j.Close())
				j = takeOver(b, dir, term+2, journal.Options{})
				if n, _ := j.Live(); n != pending {
					b.Fatal(n)
				}
				b.StopTimer()
				files, _ := filepath.Glob(filepath.Join(dir, "*", "*.log"))
				for _, path := range files {
					mustDo(b, os.Remove(path))
				}
				start := time.Now()
				mustDo(b, j.Check())
				begin += time.Since(start)
				b.StartTimer()
			}
			b.ReportMetric(float64(begin.Milliseconds())/float64(b.N), "ms/new-file")
		})
	}
}
