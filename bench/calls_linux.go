package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"tgbridge/lock"
)

const (
	callRounds = 5       // of which the one in the middle counts
	callTime   = "200ms" // that one round of one side takes, about
)

// calls compares what members do all the time with the system calls that it
// must at least make.
func (b *bench) calls(ctx context.Context) error {
	dir, err := b.newDir(rowCalls)
	if err != nil {
		return err
	}
	l, m, err := newLock(dir)
	if err != nil {
		return err
	}
	defer m.Close()
	testing.Init()
	if err := flag.Set("test.benchtime", callTime); err != nil {
		return err
	}
	if err := b.compareCalls(ctx, "ownership check", owns(ctx, l), "open, read, close", readFile(filepath.Join(dir, "locks.json"))); err != nil {
		return err
	}
	beat, done, err := overwrite(filepath.Join(dir, "beat"))
	if err != nil {
		return err
	}
	defer done()
	if err := b.compareCalls(ctx, "beat", m.Beat, "pwrite", beat); err != nil {
		return err
	}
	if _, _, err := l.Release(ctx); err != nil {
		return err
	}
	raw := filepath.Join(dir, "raw")
	if err := b.compareCalls(ctx, "acquire and release", acquireAndRelease(ctx, l), "open, flock, write, fsync, close, twice", func() error {
		return errors.Join(lockFile(raw, true), lockFile(raw, true))
	}); err != nil {
		return err
	}
	return b.compareCalls(ctx, "acquire and release", acquireAndRelease(ctx, l), "open, flock, close: nothing kept", func() error {
		return lockFile(raw, false)
	})
}

// newLock returns a lease of a new directory that is not taken yet, except that
// owns takes it.
func newLock(dir string) (*lock.Lock, *lock.Member, error) {
	m, err := lock.OpenMember(lock.MemberOptions{Dir: dir, Instance: uuid.NewString(), Name: "bench", Role: lock.RoleStarting})
	if err != nil {
		return nil, nil, err
	}
	l, err := lock.New(lock.Options{Dir: dir, Key: "bench", Member: m})
	if err != nil {
		return nil, nil, errors.Join(err, m.Close())
	}
	if r, err := l.Acquire(context.Background(), lock.Plain, nil); err != nil || !r.Acquired {
		return nil, nil, errors.Join(fmt.Errorf("acquire a lease in a new directory: %v", r.State), err, m.Close())
	}
	return l, m, nil
}

func owns(_ context.Context, l *lock.Lock) func() error {
	return func() error {
		owns, err := l.Owns()
		if err == nil && !owns {
			err = errors.New("the lease is not owned")
		}
		return err
	}
}

func acquireAndRelease(ctx context.Context, l *lock.Lock) func() error {
	return func() error {
		if r, err := l.Acquire(ctx, lock.Plain, nil); err != nil || !r.Acquired {
			return errors.Join(errors.New("the lease was not acquired"), err)
		}
		_, _, err := l.Release(ctx)
		return err
	}
}

func readFile(path string) func() error {
	buf := make([]byte, 4096)
	return func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		_, err = f.Read(buf)
		return errors.Join(err, f.Close())
	}
}

// overwrite returns what writes 21 bytes over the same ones.
func overwrite(path string) (write func() error, done func() error, err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, nil, err
	}
	digits := []byte("00000000000000000001\n")
	return func() error {
		_, err := f.WriteAt(digits, 0)
		return err
	}, f.Close, nil
}

// lockFile locks a file, and writes to it so that it is on disk.
func lockFile(path string, durable bool) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	if err == nil && durable {
		_, err = f.WriteAt([]byte(time.Now().String()), 0)
		err = errors.Join(err, f.Sync())
	}
	return errors.Join(err, f.Close())
}

// compareCalls times both in turns and adds a row.
func (b *bench) compareCalls(ctx context.Context, what string, ours func() error, floorIs string, floor func() error) error {
	var times, floorTimes samples
	for range callRounds {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		err := b.inTurns(func() error { return timeCall(ours, &times) }, func() error { return timeCall(floor, &floorTimes) })
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	one, other := times.quantile(0.5), floorTimes.quantile(0.5)
	b.progress("%s %s: %v, floor %v", rowCalls, what, one, other)
	b.t.compare(rowCalls, what, inTime, float64(one), float64(other), floorIs)
	return nil
}

// timeCall appends how long one call takes.
func timeCall(call func() error, times *samples) error {
	var failed error
	r := testing.Benchmark(func(tb *testing.B) {
		for tb.Loop() {
			if failed = call(); failed != nil {
				return
			}
		}
	})
	if failed == nil {
		*times = append(*times, time.Duration(r.NsPerOp()))
	}
	return failed
}
