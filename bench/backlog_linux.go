package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// backlog starts processes while very many updates wait, and looks at the rate
// and at the poller's memory as they are drained.
func (b *bench) backlog(ctx context.Context) error {
	var handled book
	ours, err := b.members(rowBacklog, false, handled.note)
	if err != nil {
		return err
	}
	defer ours.close()
	floor, err := b.bare(rowBacklog+"-floor", true, 0)
	if err != nil {
		return err
	}
	defer floor.close()
	var one, other drainedBacklog
	err = b.inTurns(func() (err error) {
		one, err = ours.drainBacklog(ctx, fleetSize, b.o.Backlog, &handled)
		return err
	}, func() (err error) {
		other, err = floor.drainBacklog(ctx, 1, b.o.Backlog, nil)
		return err
	})
	if err != nil {
		return err
	}
	const floorIs = "bare poll loop, keeps nothing"
	for _, part := range []struct {
		name   string
		q0, q1 float64
	}{{"first third", 0, 1. / 3}, {"second third", 1. / 3, 2. / 3}, {"last third", 2. / 3, 1}} {
		b.t.compare(rowBacklog, fmt.Sprintf("%d waiting at start, members: %d, %s", b.o.Backlog, fleetSize, part.name),
			aSecond, one.rate(part.q0, part.q1), other.rate(part.q0, part.q1), floorIs)
	}
	a1, a2, a3 := ends(one.memory)
	b1, b2, b3 := ends(other.memory)
	b.t.compare(rowBacklog, "RssAnon of the leader, at the begin", inBytes, a1, b1, floorIs)
	b.t.compare(rowBacklog, "RssAnon of the leader, in the middle", inBytes, a2, b2, floorIs)
	b.t.compare(rowBacklog, "RssAnon of the leader, at the end", inBytes, a3, b3, floorIs)
	b.t.compare(rowBacklog, "RssAnon of the leader, at most", inBytes, slices.Max(one.memory), slices.Max(other.memory), floorIs)
	return nil
}

type drainedBacklog struct {
	drain
	memory []float64 // of the process that polls, over time
}

// lookEvery is the time between two looks at a process's memory.
const lookEvery = 50 * time.Millisecond

// drainBacklog fills the queue, starts processes and waits until they have
// drained it. It does not wait for all processes before.
func (f *fleet) drainBacklog(ctx context.Context, processes, n int, handled *book) (drainedBacklog, error) {
	var d drainedBacklog
	if err := f.fill(n); err != nil {
		return d, err
	}
	if err := f.start(processes); err != nil {
		return d, err
	}
	poll, err := f.firstPoll(ctx, 0, nil)
	if err != nil {
		return d, err
	}
	leader := f.at(poll.Local)
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		for sleep(watching, lookEvery) == nil {
			if m, err := rssAnon(leader.pid); err == nil {
				d.memory = append(d.memory, m)
			}
		}
	})
	drained, err := f.drain(ctx, n, false, handled)
	stop()
	watch.Wait()
	d.drain = drained
	if err == nil && len(d.memory) == 0 {
		err = errors.New("it took too little time to look at the memory once")
	}
	return d, err
}
