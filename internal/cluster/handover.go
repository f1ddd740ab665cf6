package cluster

import (
	"context"
	"fmt"
	"os/exec"

	"tgbridge/bot"
	"tgbridge/bus"
	"tgbridge/lock"
)

// HandOver asks the leader to hand over, to a certain heir if to is not empty:
// by Options.HandoverArgv, or else on the bus. The incident's instant is before
// that command starts, so that its start counts, or before the request is made.
// Errors: ErrNoLeader; what the command wrote, if it failed; what the leader
// answered, if it refused.
func (c *Cluster) HandOver(ctx context.Context, to string) error {
	ask, err := c.handover(to)
	if err != nil {
		return fmt.Errorf("hand over: %w", err)
	}
	c.mu.Lock()
	if c.leading == nil {
		c.mu.Unlock()
		return fmt.Errorf("hand over: %w", ErrNoLeader)
	}
	i := c.leading.incident(HandedOver, c.now())
	c.judge.incident(i)
	c.mu.Unlock()
	if err := ask(ctx); err != nil {
		c.mu.Lock()
		c.judge.forget(i)
		c.mu.Unlock()
		return fmt.Errorf("hand over: %w", err)
	}
	return nil
}

// handover prepares the asking, so that little is left to do.
func (c *Cluster) handover(to string) (ask func(context.Context) error, err error) {
	if argv := c.o.HandoverArgv; len(argv) > 0 {
		return func(ctx context.Context) error { return c.runHandover(ctx, argv, to) }, nil
	}
	e, err := lock.ReadLease(c.botDir, bot.LeaseKey(c.server.ID()))
	if err != nil {
		return nil, err
	}
	if !e.Held() {
		return nil, ErrNoLeader
	}
	return func(ctx context.Context) error {
		client := bus.NewClient(bot.Target(c.botDir, e), "cluster")
		defer client.Close()
		return client.Handover(ctx, to)
	}, nil
}

func (c *Cluster) runHandover(ctx context.Context, argv []string, to string) error {
	if to != "" {
		argv = append(argv[:len(argv):len(argv)], "--to", to)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = c.o.environment("handover", "http://127.0.0.1:9", c.state)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
