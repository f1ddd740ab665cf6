//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
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
	return 4 * time.Second
}

// underLoad runs three members, does the acts in turn as long as messages come,
// and returns when all are answered.
func underLoad(t *testing.T, acts []act) (cluster.Report, cluster.Runs) {
	t.Helper()
	k := newCluster(t, "0.05")
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
	return settled(t, ctx, k)
}

// newCluster makes a cluster whose members work on each message for so many
// seconds.
func newCluster(t *testing.T, work string) *cluster.Cluster {
	t.Helper()
	k, err := cluster.New(cluster.Options{
		Argv:         []string{program(t), "exec", "--", "sh", "-c", cluster.RunsScript},
		HandoverArgv: []string{program(t), "handover"},
		Dir:          t.TempDir(),
		// Members die more often here than a message may be tried by default.
		Env: []string{cluster.WorkVar + "=" + work, "TGBRIDGE_ATTEMPTS=1000", "GORACE=atexit_sleep_ms=0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// settled returns what became of the messages and the commands once all are
// answered and a leader polls.
func settled(t *testing.T, ctx context.Context, k *cluster.Cluster) (cluster.Report, cluster.Runs) {
	t.Helper()
	_, err := k.WaitPolling(ctx, nil)
	if err := errors.Join(k.Settle(ctx), err); err != nil {
		t.Error(err)
	}
	r, err := k.Report()
	runs, runsErr := k.Runs()
	if err := errors.Join(err, runsErr); err != nil {
		t.Fatal(err)
	}
	return r, runs
}

// TestG3AllStopAtOnce: all members are told to stop within some milliseconds, as
// `docker compose restart` does, with commands in hand that end soon. Each
// outcome is taken in before the last member is gone: after the restart no
// command is run again.
func TestG3AllStopAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	const rounds, members, chats = 30, 3, 12
	k := newCluster(t, "0.2")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for range members {
		if _, err := k.Start(); err != nil {
			t.Fatal(err)
		}
	}
	sent := 0
	for round := range rounds {
		if err := k.WaitFollowing(ctx); err != nil {
			t.Fatal(err)
		}
		if err := k.Run(ctx, cluster.Load{Chats: chats, PerSecond: 1e6, Total: chats}); err != nil {
			t.Fatal(err)
		}
		sent += chats
		eventually(t, 20*time.Second, func() string { // half of them are under way, or were
			runs, err := k.Runs()
			if err != nil || runs.Began < sent-chats/2 {
				return fmt.Sprintf("%d commands of %d began (%v)", runs.Began, sent, err)
			}
			return ""
		})
		// The leader is the first, in the middle, the last to be told.
		leader, _ := k.Leader()
		all := slices.DeleteFunc(k.Members(), func(m *cluster.Member) bool { return m == leader })
		for i, m := range slices.Insert(all, round%members, leader) {
			if i > 0 {
				time.Sleep(time.Duration(round%10) * time.Millisecond)
			}
			if err := m.Terminate(); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range all {
			if err := ended(ctx, m); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range k.Members() {
			if err := errors.Join(ended(ctx, m), m.Restart()); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, runs := settled(t, ctx, k)
	for _, fault := range append(r.Faults(), runs.Faults...) {
		t.Error(fault)
	}
	if r.Received != sent || runs.Began != sent || len(r.Doubled) > 0 {
		t.Errorf("%d messages, %d answered, %d commands (%d of those run again had ended), doubled %v",
			sent, r.Received, runs.Began, runs.EndedAgain, r.Doubled)
	}
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
