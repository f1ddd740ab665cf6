package e2e_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"tgbridge/internal/cluster"
)

// tgbridge builds the program and returns its path.
func tgbridge(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tgbridge")
	out, err := exec.Command("go", "build", "-C", "..", "-o", path, "./cmd/tgbridge").CombinedOutput()
	if err != nil {
		t.Fatalf("build tgbridge: %v\n%s", err, out)
	}
	return path
}

// G4: leaders are killed, told to stop and asked to hand over, in turn, under
// load. No message is lost, doubled or answered out of order.
func TestG4Failovers(t *testing.T) {
	const rounds = 5 // of each kind
	program := tgbridge(t)
	c, err := cluster.New(cluster.Options{
		Argv: []string{program, "echo"}, Dir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3 {
		if _, err := c.Start(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	loadCtx, stopLoad := context.WithCancel(ctx)
	loaded := make(chan error, 1)
	go func() { loaded <- c.Run(loadCtx, cluster.Load{Chats: 20, PerSecond: 100}) }()
	for range rounds {
		for _, strike := range []func(context.Context, *cluster.Cluster, *cluster.Member) error{killed, terminated, handedOver} {
			if err := failover(ctx, c, strike); err != nil {
				t.Fatal(err)
			}
		}
	}
	stopLoad()
	if err := <-loaded; err != nil {
		t.Error(err)
	}
	if err := c.Settle(ctx); err != nil {
		t.Error(err)
	}
	r, err := c.Report()
	if err != nil {
		t.Error(err)
	}
	for _, fault := range r.Faults() {
		t.Error(fault)
	}
	for _, kind := range []cluster.IncidentKind{cluster.Killed, cluster.Terminated, cluster.HandedOver} {
		if gaps := r.Gaps(kind); gaps.Count != rounds {
			t.Errorf("%d failovers by %s, want %d", gaps.Count, kind, rounds)
		} else {
			t.Logf("%-8s gap p50 %v, max %v", kind, gaps.P50, gaps.Max)
		}
	}
	t.Logf("%d messages, %d answered twice with a cause, %d conflicts, latency p50 %v, p99 %v",
		r.Sent, len(r.Doubled), r.Conflicts, r.Latency.P50, r.Latency.P99)
}

// failover strikes the leader once another polls as well as can be, and brings
// the member back.
func failover(ctx context.Context, c *cluster.Cluster, strike func(context.Context, *cluster.Cluster, *cluster.Member) error) error {
	leader, err := c.WaitPolling(ctx, nil)
	if err != nil {
		return err
	}
	if err := c.WaitFollowing(ctx); err != nil {
		return err
	}
	if err := strike(ctx, c, leader); err != nil {
		return err
	}
	_, err = c.WaitPolling(ctx, leader)
	return err
}

func killed(_ context.Context, _ *cluster.Cluster, m *cluster.Member) error {
	if err := m.Kill(); err != nil {
		return err
	}
	<-m.Ended()
	return m.Restart()
}

func terminated(_ context.Context, _ *cluster.Cluster, m *cluster.Member) error {
	if err := m.Terminate(); err != nil {
		return err
	}
	<-m.Ended()
	return m.Restart()
}

func handedOver(ctx context.Context, c *cluster.Cluster, _ *cluster.Member) error {
	return c.HandOver(ctx, "")
}
