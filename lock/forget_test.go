//go:build unix

package lock_test

import (
	"os"
	"testing"

	"tgbridge/lock"
)

// TestAdoptedMeanwhileIsKept: an operation that finds the lease lost drops the
// memory that it looked at, not a lease that was adopted between its look and
// its end (R10 is in reads, which wait for no operation).
func TestAdoptedMeanwhileIsKept(t *testing.T) {
	operations := map[string]func(*lock.Lock) error{
		"release": func(l *lock.Lock) error { _, _, err := l.Release(ctx); return err },
		"raise":   func(l *lock.Lock) error { _, err := l.Raise(ctx, 1); return err },
	}
	for name, operation := range operations {
		t.Run(name, func(t *testing.T) {
			dir := newDir(t)
			m := openMember(t, dir)
			meanwhile := func() {}
			o := testOptions(dir, m)
			o.Observer = lock.NewObserverWith(lock.ObserverOptions{Dir: dir, LocksBelieved: true}, func(f *os.File, exclusive bool) error {
				run := meanwhile
				meanwhile = func() {}
				run()
				return lock.SystemFlock(f, exclusive)
			})
			l, err := lock.New(o)
			if err != nil {
				t.Fatal(err)
			}
			mustAcquire(t, l)
			own := readFile(t, registryOf(dir))
			writeFile(t, registryOf(dir), entryJSON(t, openMember(t, dir), nil))
			ran := false
			meanwhile = func() { // while the operation judges the other owner
				ran = true
				if owns, err := l.Refresh(ctx); owns || err != nil {
					t.Error("refresh:", owns, err)
				}
				writeFile(t, registryOf(dir), own)
				mustOwn(t, l, true)
			}
			if err := operation(l); err != nil {
				t.Fatal(err)
			}
			if !ran {
				t.Fatal("the operation judged nobody")
			}
			// Commit adopts nothing: it needs the memory.
			owns, err := l.Commit(ctx, "shared.json", func([]byte) ([]byte, error) { return []byte("{}"), nil })
			if !owns || err != nil {
				t.Error("the adopted lease was forgotten:", owns, err)
			}
		})
	}
}
