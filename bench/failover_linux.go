package main

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// members of a failover, and messages a second that come in meanwhile.
const (
	fleetSize   = 3
	loadASecond = 100
)

// A takeaway is a way in which a leader goes, and the floor's counterpart.
type takeaway struct {
	row, what string
	ours      func(context.Context, *process) error
	floor     func(context.Context, *process) error
	floorIs   string

	gaps, floorGaps samples
	conflicts       int // answers of 409 on our side
}

// failovers takes the leader away, in each of the ways that processes recover
// from without a time-out, in turns.
func (b *bench) failovers(ctx context.Context) error {
	ours, floor, err := b.bothSides("failover")
	if err != nil {
		return err
	}
	defer ours.close()
	defer floor.close()
	kill, term := sending(syscall.SIGKILL), sending(syscall.SIGTERM)
	var ways []*takeaway
	for _, w := range []*takeaway{
		{row: rowKilled, what: "leader killed to next poll", ours: kill, floor: kill, floorIs: "flock and poll, SIGKILL"},
		{row: rowStopped, what: "leader stopped to next poll", ours: term, floor: term, floorIs: "flock and poll, SIGTERM"},
		{row: rowHandover, what: "handover asked to next poll", ours: ours.handover, floor: term, floorIs: "flock and poll, SIGTERM"},
	} {
		if b.o.has(w.row) {
			ways = append(ways, w)
		}
	}
	for i := range b.o.Events {
		for _, w := range ways {
			if err := b.takeAway(ctx, w, ours.fleet, floor); err != nil {
				return fmt.Errorf("%s, event %d: %w", w.row, i+1, err)
			}
			b.progress("%s %d of %d: %v, floor %v", w.row, i+1, b.o.Events, last(w.gaps), last(w.floorGaps))
		}
	}
	for _, w := range ways {
		b.t.spread(w.row, w.what, w.gaps, w.floorGaps, w.floorIs)
		b.t.tell(w.row, "polls answered with 409", number, float64(w.conflicts))
	}
	return nil
}

func last(s samples) time.Duration { return s[len(s)-1].Round(10 * time.Microsecond) }

// bothSides starts three processes each, and their load.
func (b *bench) bothSides(name string) (*side, *fleet, error) {
	ours, err := b.release(name)
	if err != nil {
		return nil, nil, err
	}
	floor, err := b.bare(name+"-floor", true, 0)
	if err != nil {
		ours.close()
		return nil, nil, err
	}
	ours.load(loadASecond, b.random.Uint64())
	floor.load(loadASecond, b.random.Uint64())
	for _, f := range []*fleet{ours.fleet, floor} {
		if err := f.start(fleetSize); err != nil {
			ours.close()
			floor.close()
			return nil, nil, err
		}
	}
	return ours, floor, nil
}

// takeAway measures one event on each side.
func (b *bench) takeAway(ctx context.Context, w *takeaway, ours, floor *fleet) error {
	return b.inTurns(func() error {
		before := ours.conflicts
		gap, err := ours.gap(ctx, b.random, w.ours)
		w.gaps = append(w.gaps, gap)
		if err != nil {
			return err
		}
		if err := ours.read(nil); err != nil {
			return err
		}
		w.conflicts += ours.conflicts - before
		return nil
	}, func() error {
		gap, err := floor.gap(ctx, b.random, w.floor)
		w.floorGaps = append(w.floorGaps, gap)
		if err != nil {
			return fmt.Errorf("floor: %w", err)
		}
		return nil
	})
}

// staleAfter is how long a member may be silent before it counts as hung.
const staleAfter = 5 * time.Second

// hangs stops leaders in their tracks. The bare loop never recovers from that,
// so the floor is the time that members must wait.
func (b *bench) hangs(ctx context.Context) error {
	ours, err := b.release("hung")
	if err != nil {
		return err
	}
	defer ours.close()
	ours.load(loadASecond, b.random.Uint64())
	if err := ours.start(fleetSize); err != nil {
		return err
	}
	var gaps, floor samples
	for i := range b.o.hangs() {
		gap, err := ours.gap(ctx, b.random, sending(syscall.SIGSTOP))
		if err != nil {
			return fmt.Errorf("event %d: %w", i+1, err)
		}
		gaps, floor = append(gaps, gap), append(floor, staleAfter)
		b.progress("%s %d of %d: %v", rowHung, i+1, b.o.hangs(), last(gaps))
	}
	b.t.spread(rowHung, "leader hung to next poll", gaps, floor, "stale-after; a bare loop hangs for ever")
	return nil
}
