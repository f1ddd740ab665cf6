package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// role is what a member's file in the registry's directory says: who it is,
// and the term that it leads or follows.
type role struct {
	PID    int    `json:"pid"`
	Role   string `json:"role"`
	Joined uint64 `json:"joined"`
}

// beatDigits is how long the counter is that a member's file begins with.
const beatDigits = 20

// WaitFollowing waits until the registry names a leader and every member that
// runs and is not frozen has joined it: a successor is then at hand.
func (c *Cluster) WaitFollowing(ctx context.Context) error {
	ticker := time.NewTicker(2 * lookEvery)
	defer ticker.Stop()
	for {
		missing := c.notJoined()
		if missing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", missing, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// notJoined says what WaitFollowing waits for, "" for nothing.
func (c *Cluster) notJoined() string {
	roles := c.roles()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leading == nil {
		return "a leader"
	}
	for _, m := range c.members {
		r := roles[m.pid]
		joined := (r.Role == "leader" || r.Role == "follower") && r.Joined == c.lease.Term
		if m.pid != 0 && !m.frozen && !joined {
			return fmt.Sprintf("%s to join term %d", m.name, c.lease.Term)
		}
	}
	return ""
}

// roles reads the members' files, by process id. One that cannot be read is
// left out: it is just being made or removed.
func (c *Cluster) roles() map[int]role {
	roles := make(map[int]role)
	dir := filepath.Join(c.botDir, "members")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return roles
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil || len(text) < beatDigits {
			continue
		}
		var r role
		if json.NewDecoder(bytes.NewReader(text[beatDigits:])).Decode(&r) == nil {
			roles[r.PID] = r
		}
	}
	return roles
}
