//go:build unix

package lock_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tgbridge/lock"
)

// Each benchmark times the bare system calls as well, and reports how many
// times as long the package takes ("x-raw").

func ratio(b *testing.B, raw func() error) {
	b.Helper()
	n := max(b.N, 200)
	start := time.Now()
	for range n {
		if err := raw(); err != nil {
			b.Fatal(err)
		}
	}
	perRaw := float64(time.Since(start)) / float64(n)
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/perRaw, "x-raw")
	b.ReportMetric(perRaw, "raw-ns/op")
}

func BenchmarkOwns(b *testing.B) {
	dir := newDir(b)
	l := newLock(b, dir, openMember(b, dir))
	mustAcquire(b, l)
	for b.Loop() {
		if owns, err := l.Owns(); !owns || err != nil {
			b.Fatal(owns, err)
		}
	}
	path, buf := filepath.Join(dir, "locks.json"), make([]byte, 4096)
	ratio(b, func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		if _, err := f.Read(buf); err != nil {
			return err
		}
		return f.Close()
	})
}

func BenchmarkBeat(b *testing.B) {
	dir := newDir(b)
	m := openMember(b, dir)
	for b.Loop() {
		if err := m.Beat(); err != nil {
			b.Fatal(err)
		}
	}
	f, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	digits := []byte("00000000000000000001\n")
	ratio(b, func() error {
		_, err := f.WriteAt(digits, 0)
		return err
	})
}

func BenchmarkLook(b *testing.B) {
	dir := newDir(b)
	m := openMember(b, dir)
	o := lock.NewObserver(lock.ObserverOptions{Dir: dir, LocksBelieved: true})
	for b.Loop() {
		if r, err := o.Look(m.Instance()); err != nil || r.Kernel != lock.LockHeld {
			b.Fatal(r, err)
		}
	}
	path, buf := filepath.Join(dir, "members", m.Instance()), make([]byte, 4096)
	ratio(b, func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		if _, err := f.Read(buf); err != nil {
			return err
		}
		_ = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		return f.Close()
	})
}

// BenchmarkAcquireRelease compares with a lock file that is made, locked,
// written, synced and closed, twice: what the two transactions must at least do
// to be as durable.
func BenchmarkAcquireRelease(b *testing.B) {
	dir := newDir(b)
	l := newLock(b, dir, openMember(b, dir))
	ctx := context.Background()
	for b.Loop() {
		if res, err := l.Acquire(ctx, lock.Plain, nil); err != nil || !res.Acquired {
			b.Fatal(res, err)
		}
		if _, released, err := l.Release(ctx); err != nil || !released {
			b.Fatal(released, err)
		}
	}
	path := filepath.Join(dir, "raw")
	ratio(b, func() error {
		for range 2 {
			if err := lockWriteSync(path); err != nil {
				return err
			}
		}
		return nil
	})
}

func lockWriteSync(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	if _, err := f.WriteAt([]byte(time.Now().String()), 0); err != nil {
		return err
	}
	return f.Sync()
}
