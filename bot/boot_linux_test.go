package bot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tgbridge/lock"
)

// An absent is a member whose boot is not ours, as its files show it. Its process
// id is that of a live process here: this one.
type absent struct {
	dir, instance string
	term          uint64
	role          lock.Role
}

const otherBoot = "11111111-2222-3333-4444-555555555555"

func (a absent) line() string {
	host := lock.ThisHost()
	line, _ := json.Marshal(lock.MemberInfo{
		Instance: a.instance, Name: "absent", PID: host.PID, Host: host.Name, BootID: otherBoot,
		PIDNamespace: host.PIDNamespace, BornAt: host.BornAt, Locks: true, Role: a.role, Joined: a.term, Term: a.term,
	})
	return string(line)
}

// member puts its member file in place.
func (a absent) member(t *testing.T) {
	t.Helper()
	put(t, filepath.Join(a.dir, "members", a.instance), fmt.Sprintf("%020d\n%-1023s\n", 7, a.line()))
}

// beat raises the beat in its file.
func (a absent) beat(beat int) error {
	f, err := os.OpenFile(filepath.Join(a.dir, "members", a.instance), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%020d", beat)
	return errors.Join(err, f.Close())
}

// lease has it hold the lease.
func (a absent) lease(t *testing.T) {
	t.Helper()
	host := lock.ThisHost()
	put(t, filepath.Join(a.dir, theRegistry), fmt.Sprintf(
		`{"tgbridge:%s":{"pid":%d,"cwd":"/","instanceId":%q,"heartbeatMs":1,"leaderEpoch":%d,"runtimeGeneration":1,"busSocketPath":"sockets/%s.sock","busSecret":"%s","name":"absent","bootId":%q,"pidNamespace":%q,"bornAt":%q}}`,
		filepath.Base(a.dir), host.PID, a.instance, a.term, a.instance, strings.Repeat("0", 64), otherBoot, host.PIDNamespace, host.BornAt))
}

// guard has it hold the guard, in the midst of a transaction.
func (a absent) guard(t *testing.T) {
	t.Helper()
	const generation = "0f8fad5b-d9cb-469f-a165-70867728950e"
	host, guard := lock.ThisHost(), filepath.Join(a.dir, "locks.json.transaction")
	if err := os.Mkdir(guard, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(guard, "next."+generation+".json"), `{"half":`)
	put(t, filepath.Join(guard, "owner."+generation+".json"), fmt.Sprintf(
		`{"pid":%d,"acquiredAtMs":1,"generation":%q,"instanceId":%q,"bootId":%q,"pidNamespace":%q,"bornAt":%q}`,
		host.PID, generation, a.instance, otherBoot, host.PIDNamespace, host.BornAt))
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// bootStale is stale-after of the tests of earlier boots.
const bootStale = 1500 * time.Millisecond

// leadsWithin runs a member, m2, which has to lead within twice stale-after and
// a second (G6).
func leadsWithin(t *testing.T, f *fleet) {
	t.Helper()
	o := f.options("m2")
	quick(&o)
	if o.StaleAfter != bootStale {
		t.Fatal("another stale-after")
	}
	began := time.Now()
	f.run(o, echo("m2"))
	eventually(t, 30*time.Second, func() string {
		if e, held := f.leader(); !held || e.Name != "m2" {
			return "m2 does not lead"
		}
		return ""
	})
	if took := time.Since(began); took > 2*bootStale+time.Second {
		t.Errorf("G6: leads after %v", took)
	}
}

// TestG6EarlierBoot: a power cut left files of members of an earlier boot. No
// kernel lock and no pid says that they are dead, and yet they keep nobody from
// leading for longer than twice stale-after and a second; and nothing that was
// pending is lost.
func TestG6EarlierBoot(t *testing.T) {
	old := oldState(t)
	all := []func(absent, *testing.T){absent.member, absent.lease, absent.guard}
	tests := []struct {
		name string
		left []func(absent, *testing.T)
	}{
		{"lease", []func(absent, *testing.T){absent.lease}},
		{"lease and member", []func(absent, *testing.T){absent.member, absent.lease}},
		{"guard", []func(absent, *testing.T){absent.guard}},
		{"guard and member", []func(absent, *testing.T){absent.member, absent.guard}},
		{"guard and lease", []func(absent, *testing.T){absent.guard, absent.lease}},
		{"all", all},
		{"all, guard without content", append(all, func(a absent, t *testing.T) {
			for _, name := range []string{"owner", "next"} {
				put(t, filepath.Join(a.dir, "locks.json.transaction", name+".0f8fad5b-d9cb-469f-a165-70867728950e.json"), "")
			}
		})},
		{"all, registry empty", append(all, func(a absent, t *testing.T) { put(t, filepath.Join(a.dir, theRegistry), "") })},
		{"all, members empty", append(all, func(a absent, t *testing.T) { put(t, filepath.Join(a.dir, "members", a.instance), "") })},
	}
	for _, tt := range tests {
		t.Run("G6 "+tt.name, func(t *testing.T) {
			t.Parallel()
			f, server := resume(t, old)
			for _, left := range tt.left {
				left(absent{dir: f.dir(), instance: "absent-1", term: 1, role: lock.RoleLeader}, t)
			}
			leadsWithin(t, f)
			if e, _ := f.leader(); e.Epoch != 2 {
				t.Errorf("term %d, want 2", e.Epoch)
			}
			resumed(t, server)
			left, err := filepath.Glob(filepath.Join(f.dir(), "locks.json.transaction*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left: %v %v", left, err)
			}
		})
	}
}

// TestG6OtherBootAlive: a leader that shares the directory from another boot (a
// VM) and whose beat moves is not replaced, although it cannot be reached and no
// lock is seen; it is, once the beat stands.
func TestG6OtherBootAlive(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	first := f.run(f.options("m1"), echo("m1"))
	f.waitMembers(1)
	first.end(t)
	a := absent{dir: f.dir(), instance: "absent-1", term: 5, role: lock.RoleLeader}
	a.member(t)
	a.lease(t)
	ctx, stop := context.WithCancel(t.Context())
	var beating sync.WaitGroup
	beating.Go(func() {
		for beat := 8; ctx.Err() == nil; beat++ {
			if err := a.beat(beat); err != nil {
				t.Error(err)
			}
			time.Sleep(bootStale / 8)
		}
	})
	defer beating.Wait()
	defer stop()
	o := f.options("m2")
	quick(&o)
	f.run(o, echo("m2"))
	for end := time.Now().Add(2*bootStale + 2*time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if e, _ := f.leader(); e.InstanceID != a.instance {
			t.Fatalf("%s leads although the leader's beat moves", e.Name)
		}
	}
	stop()
	beating.Wait()
	stood := time.Now()
	f.waitLeader(a.instance)
	if took := time.Since(stood); took < bootStale/2 || took > bootStale+time.Second {
		t.Errorf("leads %v after the last beat, want stale-after (%v)", took, bootStale)
	}
	say(t, server, 42, "hello")
	waitSent(t, server, 10*time.Second, "m2 hello")
}

// TestG6GuardBesideALeader: a guard that nobody releases appears beside a leader
// and a follower. Both watch it, so that it is in nobody's way when the lease is
// given back or taken over.
func TestG6GuardBesideALeader(t *testing.T) {
	for _, how := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run("G6 "+how.String(), func(t *testing.T) {
			t.Parallel()
			f, server := newFleet(t)
			leader := f.start("m1", quickSetting(t))
			f.waitMembers(1)
			f.start("m2", quickSetting(t))
			f.waitMembers(2)
			lead, _ := f.leader()
			absent{dir: f.dir(), instance: "absent-1"}.guard(t)
			time.Sleep(2*bootStale + time.Second) // twice stale-after, and two checks
			leader.signal(t, how)
			gone := time.Now()
			f.waitLeader(lead.InstanceID)
			if took := time.Since(gone); took > bootStale {
				t.Errorf("another leads after %v", took)
			}
			say(t, server, 42, "hello")
			waitSent(t, server, 5*time.Second, "m2 hello")
			if strings.Contains(f.output.String(), "lease not released") {
				t.Error("the lease was not released")
			}
		})
	}
}
