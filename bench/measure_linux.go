package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// A bench is one run: what it starts has its files in dir.
type bench struct {
	o        options
	dir      string
	bin      binaries
	random   *rand.Rand
	progress func(format string, args ...any)
	t        *table
}

// measure measures the rows that were asked for. With an error it returns those
// that it got to.
func measure(ctx context.Context, o options, progress func(string, ...any)) (_ *table, err error) {
	t := &table{Machine: thisMachine(o.Dir), Events: o.Events, Seconds: o.Seconds, Seed: o.Seed, Rows: []row{}}
	dir, err := os.MkdirTemp(o.Dir, "tgbridge-bench-")
	if err != nil {
		return t, fmt.Errorf("make a directory for the run: %w", err)
	}
	defer func() {
		if err != nil && ctx.Err() == nil {
			progress("what the processes logged is in %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	}()
	if t.Machine.busy() {
		progress("%s", t.Machine.warning())
	}
	progress("building")
	bin, err := build(ctx, dir)
	if err != nil {
		return t, err
	}
	b := &bench{o: o, dir: dir, bin: bin, random: rand.New(rand.NewPCG(o.Seed, 0)), progress: progress, t: t}
	return t, b.run(ctx)
}

// run measures each row that was asked for.
func (b *bench) run(ctx context.Context) error {
	rows := []struct {
		row     string
		measure func(context.Context) error
	}{
		{rowKilled, b.failovers},
		{rowHung, b.hangs},
		{rowLatency, b.latency},
		{rowRate, b.rates},
		{rowBacklog, b.backlog},
		{rowIdle, b.idle},
		{rowStart, b.starts},
		{rowCalls, b.calls},
	}
	for _, r := range rows {
		wanted := b.o.has(r.row)
		if r.row == rowKilled { // the three that share their processes
			wanted = wanted || b.o.has(rowStopped) || b.o.has(rowHandover)
		}
		if !wanted {
			continue
		}
		if err := r.measure(ctx); err != nil {
			return fmt.Errorf("measure %s: %w", r.row, err)
		}
	}
	return nil
}

// newDir makes a directory for one set of processes.
func (b *bench) newDir(name string) (string, error) {
	dir, err := os.MkdirTemp(b.dir, name+"-")
	if err != nil {
		return "", fmt.Errorf("make a directory: %w", err)
	}
	return filepath.Abs(dir)
}

// inTurns calls both in an order that is drawn.
func (b *bench) inTurns(ours, floor func() error) error {
	first, second := ours, floor
	if b.random.IntN(2) == 0 {
		first, second = floor, ours
	}
	if err := first(); err != nil {
		return err
	}
	return second()
}
