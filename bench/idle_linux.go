package main

import (
	"context"
	"os"
	"time"
)

// quiet is how long processes are left alone before they count as idle.
const quiet = 2 * time.Second

// idle watches processes that have nothing to do, both sides at a time.
func (b *bench) idle(ctx context.Context) error {
	ours, floor, err := b.bothSides(rowIdle)
	if err != nil {
		return err
	}
	defer ours.close()
	defer floor.close()
	leader, err := ours.settle(ctx)
	if err != nil {
		return err
	}
	poller, err := floor.settle(ctx)
	if err != nil {
		return err
	}
	if err := sleep(ctx, quiet); err != nil {
		return err
	}
	b.progress("%s: watching for %d s", rowIdle, b.o.Seconds)
	begin := clock()
	before := cpuTimes(ours.fleet, floor)
	if err := sleep(ctx, time.Duration(b.o.Seconds)*time.Second); err != nil {
		return err
	}
	took := clock() - begin
	after := cpuTimes(ours.fleet, floor)

	look := func(f *fleet, is func(*process) bool) (cpu, memory float64, err error) {
		n := 0.
		for _, p := range f.processes {
			if !is(p) {
				continue
			}
			m, err := rssAnon(p.pid)
			if err != nil {
				return 0, 0, err
			}
			n++
			memory += m
			cpu += float64((after[p] - before[p]).Microseconds()) / took.Seconds()
		}
		return cpu / n, memory / n, nil
	}
	for _, part := range []struct {
		name, floorIs string
		ours, floor   func(*process) bool
	}{
		{"follower", "bare loop that waits in flock", func(p *process) bool { return p != leader }, func(p *process) bool { return p != poller }},
		{"leader", "bare loop that polls", func(p *process) bool { return p == leader }, func(p *process) bool { return p == poller }},
	} {
		cpu, memory, err := look(ours.fleet, part.ours)
		if err != nil {
			return err
		}
		floorCPU, floorMemory, err := look(floor, part.floor)
		if err != nil {
			return err
		}
		b.t.compare(rowIdle, "idle "+part.name+": RssAnon", inBytes, memory, floorMemory, part.floorIs)
		b.t.compare(rowIdle, "idle "+part.name+": CPU", ofCPU, cpu, floorCPU, part.floorIs)
	}
	return b.sizes()
}

func cpuTimes(fleets ...*fleet) map[*process]time.Duration {
	times := map[*process]time.Duration{}
	for _, f := range fleets {
		for _, p := range f.processes {
			times[p] = cpuTime(p.pid)
		}
	}
	return times
}

// sizes compares the binaries.
func (b *bench) sizes() error {
	ours, err := os.Stat(b.bin.tgbridge)
	if err != nil {
		return err
	}
	floor, err := os.Stat(b.bin.bare)
	if err != nil {
		return err
	}
	b.t.compare(rowIdle, "binary", inBytes, float64(ours.Size()), float64(floor.Size()), "bare loop: net/http, encoding/json")
	return nil
}
