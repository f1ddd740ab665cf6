package bot_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"tgbridge/bot"
)

// TestAttemptsOutliveTheLeader: an attempt that failed counts under the next
// leader too, and one that was given back does not.
func TestAttemptsOutliveTheLeader(t *testing.T) {
	f, server := newFleet(t)
	var mu sync.Mutex
	var attempts []int
	begun := func() []int {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(attempts)
	}
	failing := func(waits bool) bot.Handler {
		return bot.HandlerFunc(func(ctx context.Context, u *bot.Update) (bot.Reply, error) {
			mu.Lock()
			attempts = append(attempts, u.Attempt())
			mu.Unlock()
			if waits {
				<-ctx.Done()
				return bot.Reply{}, context.Cause(ctx)
			}
			return bot.Reply{}, errors.New("no")
		})
	}
	// waitAttempts waits until so many were begun, and the last one is recorded.
	waitAttempts := func(want ...int) {
		t.Helper()
		eventually(t, 15*time.Second, func() string {
			if got := begun(); !slices.Equal(got, want) {
				return fmt.Sprintf("attempts %v, want %v", got, want)
			}
			for _, m := range f.status().Members {
				if m.InFlight > 0 {
					return "in flight"
				}
			}
			return ""
		})
	}
	first := f.run(f.options("m1"), failing(true))
	f.waitMembers(1)
	say(t, server, 42, "hello")
	eventually(t, 10*time.Second, func() string {
		if len(begun()) == 0 {
			return "not begun"
		}
		return ""
	})
	first.end(t) // it gives the first attempt back
	second := f.run(f.options("m2"), failing(false))
	waitAttempts(1, 1)
	second.end(t)
	f.run(f.options("m3"), failing(false))
	waitAttempts(1, 1, 2, 3)
	f.waitPending(0)
	if s := f.status(); s.DeadLetters != 1 {
		t.Errorf("%d dead letters, want 1", s.DeadLetters)
	}
}
