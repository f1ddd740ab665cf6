package main

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"
)

// starts measures from the start of a process to its first poll: in a directory
// that does not exist yet, in one whose last leader was stopped, and in one whose
// last leader was killed. One process at a time.
func (b *bench) starts(ctx context.Context) error {
	ours, err := b.release(rowStart)
	if err != nil {
		return err
	}
	defer ours.close()
	floor, err := b.bare(rowStart+"-floor", true, 0)
	if err != nil {
		return err
	}
	defer floor.close()
	ways := []struct {
		what string
		end  syscall.Signal // of the process before; 0: a directory without one
		ours samples
		bare samples
	}{
		{what: "start to first poll, new directory"},
		{what: "start to first poll, after a stop", end: syscall.SIGTERM},
		{what: "start to first poll, after a kill", end: syscall.SIGKILL},
	}
	for i := range b.o.Events {
		for w := range ways {
			way := &ways[w]
			err := b.inTurns(func() error {
				if way.end == 0 {
					ours.use(filepath.Join(ours.dir, fmt.Sprintf("state-%d", i)))
				} else if _, err := ours.life(ctx, way.end); err != nil {
					return err
				}
				took, err := ours.life(ctx, syscall.SIGKILL)
				way.ours = append(way.ours, took)
				return err
			}, func() error {
				took, err := floor.life(ctx, syscall.SIGKILL)
				way.bare = append(way.bare, took)
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", way.what, err)
			}
			b.progress("%s %d of %d: %v, floor %v", way.what, i+1, b.o.Events, last(way.ours), last(way.bare))
		}
	}
	for _, way := range ways {
		b.t.spread(rowStart, way.what, way.ours, way.bare, "bare loop")
	}
	return nil
}

// life starts a process, ends it by a signal when it has polled, and returns how
// long it took to begin that.
func (f *fleet) life(ctx context.Context, end syscall.Signal) (time.Duration, error) {
	if err := f.start(1); err != nil {
		return 0, err
	}
	p := f.processes[0]
	defer f.remove(p)
	poll, err := f.firstPoll(ctx, p.started, nil)
	if err != nil {
		return 0, err
	}
	if err := p.signal(end); err != nil {
		return 0, err
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		return 0, fmt.Errorf("%s did not end within %v of %v", p.name, patience, end)
	}
	return poll.At - p.started, f.read(nil)
}
