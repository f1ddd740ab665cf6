//go:build unix

package main

import (
	"os"
	"regexp"
	"syscall"
	"testing"
	"time"

	"tgbridge/bot"
	"tgbridge/internal/botapitest"
)

// TestHealth goes through a member's states.
func TestHealth(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.run("health").wants(t, 1, "no state of bot 8112046593")
	leader, follower := f.led(2, "echo")
	healthy := func(args ...string) {
		t.Helper()
		r := f.run(append([]string{"health"}, args...)...)
		r.wants(t, 0)
		if r.stdout+r.stderr != "" || r.took > 10*time.Second {
			t.Errorf("printed %q, took %v", r.stdout+r.stderr, r.took)
		}
	}
	healthy()
	healthy("--ready")

	follower.signal(t, syscall.SIGSTOP)
	r := f.run("health")
	r.wants(t, 1, "member "+follower.name+" (pid", "makes no progress")
	if r.took > 10*time.Second { // 5 s, the time-out of the image's check, on a machine that does nothing else
		t.Errorf("took %v", r.took)
	}
	follower.signal(t, syscall.SIGCONT)
	f.waitMembers(2)
	healthy()

	// The election is under way, or over: both are well.
	leader.signal(t, syscall.SIGKILL)
	healthy()
	follower.signal(t, syscall.SIGSTOP)
	f.run("health").wants(t, 1, "makes no progress")
	follower.signal(t, syscall.SIGKILL)
	follower.wait(t, 5*time.Second)
	f.run("health").wants(t, 1, "no member runs in this PID namespace")
}

// TestHealthWhileTelegramRefuses: the members are well, but not ready.
func TestHealthWhileTelegramRefuses(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.led(2, "echo")
	f.fault(botapitest.Fault{Method: "getUpdates", Act: botapitest.FaultAnswer, Answer: &botapitest.Answer{
		Status: 502, Body: []byte("Bad Gateway"),
	}})
	f.server.EndPolls(botapitest.Answer{})
	eventually(t, 10*time.Second, func() string {
		if r := f.run("health", "--ready"); r.code != 1 {
			return "ready"
		}
		return ""
	})
	f.run("health").wants(t, 0)
	f.run("health", "--ready").wants(t, 1, "polls do not succeed: ")
	f.server.ClearFaults()
	eventually(t, 20*time.Second, func() string {
		if r := f.run("health", "--ready"); r.code != 0 {
			return r.stderr
		}
		return ""
	})
}

var notJoined = regexp.MustCompile(`member lonely \(pid \d+\) has not joined the leader m1`)

// TestHealthNotJoined: a follower that cannot reach the leader is not well.
func TestHealthNotJoined(t *testing.T) {
	t.Parallel()
	f := newFleet(t, quickTimes...)
	f.led(1, "echo")
	e, _ := f.leader()
	// The leader's socket is what a cleaner leaves for less than a second.
	stop := make(chan struct{})
	cleaned := make(chan struct{})
	go func() {
		defer close(cleaned)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				_ = os.Remove(bot.Target(f.dir(), e).Socket)
			}
		}
	}()
	time.Sleep(5 * time.Millisecond)
	f.start("lonely", "echo")
	eventually(t, 10*time.Second, func() string {
		if r := f.run("health"); r.code != 1 || r.stderr != "" && !notJoined.MatchString(r.stderr) {
			return r.stderr
		}
		return ""
	})
	close(stop)
	<-cleaned
	f.waitMembers(2)
	f.run("health").wants(t, 0)
}
