package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"tgbridge/bot"
	"tgbridge/internal/botapitest"
)

// A Cluster is a Bot API server with member processes. Make one with New and
// end it with Close. All methods may be called concurrently.
type Cluster struct {
	o      Options
	state  string // the members' state directory
	botDir string
	server *botapitest.Server
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu      sync.Mutex // guards what follows
	judge   *judge
	members []*Member
	started int   // processes so far
	next    []int // number of the next message in each chat
	lease   LeaseChange
	leading *Member
	failed  error         // why judging ended
	changed chan struct{} // closed when any of this has changed
	sayMu   sync.Mutex    // one message after the other; taken before mu
}

// New starts the server; there are no members yet. Errors: an option that is
// wrong, or what the system says.
func New(o Options) (*Cluster, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("make a cluster: %w", err)
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("make a cluster: %w", err)
	}
	o.Dir = dir
	for _, sub := range []string{"state", "logs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("make a cluster: %w", err)
		}
	}
	server, err := botapitest.New(botapitest.Options{NoLimits: !o.Limits, Logger: o.Logger})
	if err != nil {
		return nil, fmt.Errorf("make a cluster: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	state := filepath.Join(dir, "state")
	c := &Cluster{
		o: o, state: state, botDir: bot.BotDir(state, server.ID()),
		server: server, cancel: cancel,
		judge: newJudge(), changed: make(chan struct{}),
	}
	c.tasks.Go(func() { c.followLedger(ctx) })
	c.tasks.Go(func() { c.watchLease(ctx) })
	return c, nil
}

// Server is the cluster's Bot API server, for faults and updates.
func (c *Cluster) Server() *botapitest.Server { return c.server }

// StateDir is the members' state directory.
func (c *Cluster) StateDir() string { return c.state }

// Close kills all members, ends the server and returns when nothing of either
// runs. Reports can still be had.
func (c *Cluster) Close() {
	for _, m := range c.Members() {
		m.end()
	}
	c.cancel()
	c.server.Close()
	c.tasks.Wait()
}

// Report judges what happened so far. The error says that judging had to end,
// because the server's ledger was full; the report is then of the time before.
func (c *Cluster) Report() (Report, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.judge.report(), c.failed
}

// Settle waits until every message was answered. The error tells how many were
// not when ctx ended.
func (c *Cluster) Settle(ctx context.Context) error {
	var waiting int
	err := c.until(ctx, func() bool {
		waiting = c.judge.waiting()
		return waiting == 0
	})
	if err != nil {
		return fmt.Errorf("wait for answers to %d messages: %w", waiting, err)
	}
	return nil
}

// until waits until check, called under c.mu, says yes.
func (c *Cluster) until(ctx context.Context, check func() bool) error {
	for {
		c.mu.Lock()
		done, failed, changed := check(), c.failed, c.changed
		c.mu.Unlock()
		if done {
			return nil
		}
		if failed != nil {
			return failed
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// tell wakes those who wait; c.mu is held.
func (c *Cluster) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// keptEvents is how much of the ledger stays readable behind the judge.
const keptEvents = 20_000

// followLedger lets the judge see each event.
func (c *Cluster) followLedger(ctx context.Context) {
	var seq, forgotten uint64
	for {
		_, err := c.server.WaitEvent(ctx, seq, func(botapitest.Event) bool { return true })
		if err == nil {
			seq, err = c.judgeAfter(seq)
		}
		if err != nil {
			c.mu.Lock()
			if ctx.Err() == nil && !errors.Is(err, botapitest.ErrClosed) {
				c.failed = fmt.Errorf("follow the ledger: %w", err)
			}
			c.tell()
			c.mu.Unlock()
			return
		}
		if !c.o.KeepLedger && seq > forgotten+2*keptEvents {
			forgotten = seq - keptEvents
			c.server.ForgetLedger(forgotten)
		}
	}
}

// judgeAfter judges the events after seq and returns the last one's.
func (c *Cluster) judgeAfter(seq uint64) (uint64, error) {
	events, err := c.server.Ledger(seq)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range events {
		c.judge.event(e)
		seq = e.Seq
	}
	c.tell()
	return seq, err
}

// now is the server's clock.
func (c *Cluster) now() time.Duration { return c.server.Now() }
