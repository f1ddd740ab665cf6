//go:build unix

package main

import (
	"context"
	"testing"
	"time"

	"tgbridge/internal/cluster"
)

// TestExecUnderLoad: three members, each with a command per message, get 100
// messages a second over 20 chats: none is lost, each is answered once, each
// chat in order.
func TestExecUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 15 seconds")
	}
	k, err := cluster.New(cluster.Options{Argv: []string{program(t), "exec", "--", "cat"}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for range 3 {
		if _, err := k.Start(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := k.WaitFollowing(ctx); err != nil {
		t.Fatal(err)
	}
	if err := k.Run(ctx, cluster.Load{Chats: 20, PerSecond: 100, Total: 1000}); err != nil {
		t.Fatal(err)
	}
	if err := k.Settle(ctx); err != nil {
		t.Error(err)
	}
	r, err := k.Report()
	if err != nil {
		t.Fatal(err)
	}
	if faults := r.Faults(); len(faults) > 0 || r.Sent != 1000 || r.Received != 1000 || len(r.Doubled) > 0 || r.Conflicts > 0 {
		t.Errorf("sent %d, received %d, doubled %d, conflicts %d; %q", r.Sent, r.Received, len(r.Doubled), r.Conflicts, faults)
	}
	t.Logf("latency %+v", r.Latency)
}
