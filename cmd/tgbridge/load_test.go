//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"tgbridge/internal/cluster"
)

// TestG3UnderLoad: members that run a command for each message get 100 messages
// a second over 20 chats. None is lost, each chat is answered in order, and no
// command is run again whose member lives on or was told to stop: each message
// is answered once, but for replies on their way when their sender was killed.
func TestG3UnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	tests := []struct {
		name  string
		acts  []act
		kills bool
	}{
		{"nothing happens", nil, false},
		{"members come and go", []act{comeAndGo}, false},
		{"leaders stop and hand over", []act{stop, handOver}, false},
		{"leaders are killed too", []act{kill, stop, kill, handOver}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, runs := underLoad(t, test.acts)
			if r.Received != r.Sent || r.Sent == 0 {
				t.Errorf("sent %d, answered %d", r.Sent, r.Received)
			}
			for _, fault := range append(r.Faults(), runs.Faults...) {
				t.Error(fault)
			}
			if n := runs.Again[cluster.Terminated]; n > 0 {
				t.Errorf("%d commands of members that stopped were run again, %d of them had ended", n, runs.EndedAgain)
			}
			if !test.kills && (runs.Began != r.Sent || len(r.Doubled) > 0 || r.Conflicts > 0) {
				t.Errorf("%d commands for %d messages, doubled %v, %d polls refused", runs.Began, r.Sent, r.Doubled, r.Conflicts)
			}
			t.Logf("%d messages, %d failovers; after kills %d commands were run again and %d replies doubled; latency %+v",
				r.Sent, len(r.Failovers), runs.Again[cluster.Killed], len(r.Doubled), r.Latency)
		})
	}
}

// loadFor is how long messages come in each test.
func loadFor() time.Duration {
	if os.Getenv("LONG_TESTS") != "" {
		return time.Minute
	}
	return 5 * time.Second
}

// underLoad runs three members, does the acts in turn as long as messages come,
// and returns when all are answered.
func underLoad(t *testing.T, acts []act) (cluster.Report, cluster.Runs) {
	t.Helper()
	k, err := cluster.New(cluster.Options{
		Argv:         []string{program(t), "exec", "--", "sh", "-c", cluster.RunsScript},
		HandoverArgv: []string{program(t), "handover"},
		Dir:          t.TempDir(),
		// Members die more often here than a message may be tried by default.
		Env: []string{cluster.WorkVar + "=0.05", "TGBRIDGE_ATTEMPTS=1000", "GORACE=atexit_sleep_ms=0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for range 3 {
		if _, err := k.Start(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), loadFor()+2*time.Minute)
	defer cancel()
	if err := k.WaitFollowing(ctx); err != nil {
		t.Fatal(err)
	}
	load, endLoad := context.WithTimeout(ctx, loadFor())
	defer endLoad()
	loaded := make(chan error, 1)
	go func() { loaded <- k.Run(load, cluster.Load{Chats: 20, PerSecond: 100}) }()
	for i := 0; len(acts) > 0 && load.Err() == nil; i++ {
		if err := errors.Join(acts[i%len(acts)](ctx, k), k.WaitFollowing(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-loaded; err != nil {
		t.Error(err)
	}
	if err := k.Settle(ctx); err != nil {
		t.Error(err)
	}
	r, err := k.Report()
	runs, runsErr := k.Runs()
	if err := errors.Join(err, runsErr); err != nil {
		t.Fatal(err)
	}
	return r, runs
}

// An act is something that happens to members. It returns when those that ended
// were started anew.
type act func(ctx context.Context, k *cluster.Cluster) error

// comeAndGo starts two further members, and stops them when they have joined.
func comeAndGo(ctx context.Context, k *cluster.Cluster) error {
	var guests []*cluster.Member
	for range 2 {
		m, err := k.Start()
		if err != nil {
			return err
		}
		guests = append(guests, m)
	}
	if err := k.WaitFollowing(ctx); err != nil {
		return err
	}
	for _, m := range guests {
		if err := errors.Join(m.Terminate(), ended(ctx, m)); err != nil {
			return err
		}
	}
	return nil
}

func kill(ctx context.Context, k *cluster.Cluster) error {
	return anew(ctx, k, (*cluster.Member).Kill)
}

func stop(ctx context.Context, k *cluster.Cluster) error {
	return anew(ctx, k, (*cluster.Member).Terminate)
}

// anew ends the leader and starts that member again.
func anew(ctx context.Context, k *cluster.Cluster, end func(*cluster.Member) error) error {
	m, _ := k.Leader()
	if err := errors.Join(end(m), ended(ctx, m)); err != nil {
		return err
	}
	if _, err := k.WaitPolling(ctx, m); err != nil {
		return err
	}
	return m.Restart()
}

func handOver(ctx context.Context, k *cluster.Cluster) error {
	m, _ := k.Leader()
	if err := k.HandOver(ctx, ""); err != nil {
		return err
	}
	_, err := k.WaitPolling(ctx, m)
	return err
}

// ended waits for a member's end.
func ended(ctx context.Context, m *cluster.Member) error {
	select {
	case <-m.Ended():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s did not end: %w", m.Name(), context.Cause(ctx))
	}
}
