package polling_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"tgbridge/lock"
	"tgbridge/polling"
)

// newMember makes a member with a real lock in dir, whose beat is decided by
// its poller, as in a bot.
func newMember(t *testing.T, dir, name string) *bench {
	t.Helper()
	member, err := lock.OpenMember(lock.MemberOptions{Dir: dir, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = member.Close() })
	lease, err := lock.New(lock.Options{Dir: dir, Key: "tgbridge:1", Member: member})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(_ *bench, o *polling.Options) { o.Lock = lease })
	ctx, stop := context.WithCancel(context.Background())
	var beating sync.WaitGroup
	beating.Go(func() {
		if err := member.Run(ctx, func() bool { return b.p.Progress().Progressing(time.Now()) }); ctx.Err() == nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); beating.Wait() })
	return b
}

// TestRealLock hands a lease over between two members of one directory.
func TestRealLock(t *testing.T) {
	dir := t.TempDir() + "/state"
	a, b := newMember(t, dir, "a"), newMember(t, dir, "b")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	a.tg.push(1)
	won, err := a.p.Start(ctx, polling.StartRequest{})
	if err != nil || won.Outcome != polling.Leading || won.Lease.Term != 1 {
		t.Fatalf("Start(a) = %+v, %v, want leading under term 1", won, err)
	}
	lost, err := b.p.Start(ctx, polling.StartRequest{Mode: lock.Election})
	if err != nil || lost.Outcome != polling.Refused || lost.Owner == nil || lost.Owner.Name != "a" {
		t.Fatalf("Start(b) = %+v, %v, want refused by a", lost, err)
	}
	if left, err := a.p.Stop(ctx); err != nil || !left.Released {
		t.Fatalf("Stop(a) = %+v, %v, want released", left, err)
	}
	won, err = b.p.Start(ctx, polling.StartRequest{Mode: lock.Election, Expected: lost.Owner})
	if err != nil || won.Outcome != polling.Leading || won.Lease.Term != 2 {
		t.Fatalf("Start(b) = %+v, %v, want leading under term 2", won, err)
	}

	// Suspended, the lease stays and is resumed under its term (P9, A3).
	if err := b.p.Suspend(ctx); err != nil {
		t.Fatal(err)
	}
	won, err = b.p.AutoStart(ctx)
	if err != nil || won.Outcome != polling.Leading || won.Lease.Term != 2 {
		t.Fatalf("AutoStart(b) = %+v, %v, want leading under term 2", won, err)
	}

	// Taken over by force, the deposed one finds out and stops by itself. Of two
	// runtimes in a process only the newer one may take over (A10).
	if left, err := b.p.Stop(ctx); err != nil || !left.Released {
		t.Fatalf("Stop(b) = %+v, %v, want released", left, err)
	}
	a.lead()
	if lost, err = b.p.Start(ctx, polling.StartRequest{}); err != nil || !lost.Takeover {
		t.Fatalf("Start(b) = %+v, %v, want a takeover offered", lost, err)
	}
	won, err = b.p.Start(ctx, polling.StartRequest{Mode: lock.Force})
	if err != nil || won.Outcome != polling.Leading || won.Lease.Term != 4 {
		t.Fatalf("Start(b, force) = %+v, %v, want leading under term 4", won, err)
	}
	a.ended(3*time.Second, polling.ErrLost)
	if left, err := a.p.Stop(ctx); err != nil || left.Released {
		t.Fatalf("Stop(a) = %+v, %v, want nothing released", left, err)
	}
	if left, err := b.p.Stop(ctx); err != nil || !left.Released {
		t.Fatalf("Stop(b) = %+v, %v, want released", left, err)
	}
}
