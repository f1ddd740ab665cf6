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

// BenchmarkTakeOver takes over 10,000 entries of 1 KB.
func BenchmarkTakeOver(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "journal")
	j := takeOver(b, dir, 1, journal.Options{})
	body := `{"text":"` + strings.Repeat("x", 1000) + `"}`
	for i := range 100 {
		var recs []journal.Record
		for k := range 100 {
			recs = append(recs, update(j.Reserve(1), int64(i*100+k+1), fmt.Sprint(k), body))
		}
		write(b, j, recs...)
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for i := range b.N {
		j := takeOver(b, dir, uint64(i)+2, journal.Options{})
		if pending, _ := j.Live(); pending != 10_000 {
			b.Fatal(pending)
		}
		if err := j.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
