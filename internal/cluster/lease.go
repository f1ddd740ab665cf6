package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tgbridge/bot"
	"tgbridge/lock"
)

// lookEvery is how often the registry is looked at.
const lookEvery = 2 * time.Millisecond

// ErrNoLeader means that the registry names no member of the cluster.
var ErrNoLeader = errors.New("nobody leads")

// watchLease follows the lease in the registry. It reads the file only when
// that is another one than before.
func (c *Cluster) watchLease(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var last os.FileInfo
	looked := c.now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		at := c.now()
		info, err := os.Stat(filepath.Join(c.botDir, "locks.json"))
		if err == nil && (last == nil || !os.SameFile(info, last) || !info.ModTime().Equal(last.ModTime())) {
			if e, err := lock.ReadLease(c.botDir, bot.LeaseKey(c.server.ID())); err == nil {
				last = info
				c.noteLease(e, looked)
			}
		}
		looked = at
	}
}

// noteLease tells the judge of a lease that differs from the one before.
func (c *Cluster) noteLease(e lock.Entry, after time.Duration) {
	at := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	change := LeaseChange{After: after, At: at, Term: e.Epoch}
	var holder *Member
	for _, m := range c.members {
		if e.Held() && m.pid == e.PID {
			holder = m
			change.Process, change.Member = m.process, m.name
		}
	}
	if change.Process == c.lease.Process && change.Term == c.lease.Term {
		return
	}
	c.lease, c.leading = change, holder
	c.judge.lease(change)
	c.tell()
}

// Leader is the member that the registry names, nil if none, and the term.
func (c *Cluster) Leader() (*Member, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leading, c.lease.Term
}

// WaitPolling waits until a member other than not, which may be nil, holds the
// lease and has polled since, and returns it.
func (c *Cluster) WaitPolling(ctx context.Context, not *Member) (*Member, error) {
	var leader *Member
	err := c.until(ctx, func() bool {
		leader = c.leading
		if leader == nil || leader == not {
			return false
		}
		last := c.judge.lastPoll[leader.process]
		return last != nil && last.begin >= c.lease.After
	})
	if err != nil {
		return nil, fmt.Errorf("wait for a leader that polls: %w", err)
	}
	return leader, nil
}
