//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tgbridge/internal/botapitest"
)

// TestSend sends to a chat, a topic, from stdin and in parts, and prints ids.
func TestSend(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.server.SetChat(botapitest.Chat{ID: 42})
	f.server.SetChat(botapitest.Chat{ID: -1001, IsForum: true})
	f.server.AddTopic(-1001, 7, "topic")
	f.led(2, "echo")
	ids := func(r result, n int) {
		t.Helper()
		r.wants(t, 0)
		var id int64
		lines := strings.Fields(r.stdout)
		for _, line := range lines {
			if _, err := fmt.Sscan(line, &id); err != nil || id <= 0 {
				t.Errorf("printed %q", r.stdout)
			}
		}
		if len(lines) != n || r.stderr != "" {
			t.Errorf("printed %q, %q; want %d ids", r.stdout, r.stderr, n)
		}
	}
	ids(f.run("send", "--chat", "42", "hello"), 1)
	ids(f.runWith("from\nstdin\n\n", nil, "send", "--chat", "42"), 1)
	ids(f.run("send", "--chat", "-1001", "--thread", "7", "to the topic"), 1)
	f.wantSent(42, "hello", "from\nstdin")
	long := strings.Repeat(strings.Repeat("x", 99)+"\n", 100)
	ids(f.runWith(long, nil, "send", "--chat", "42"), 3)
	if got := strings.Join(f.sent(42)[2:], "\n") + "\n"; got != long {
		t.Errorf("the long text came as %d bytes, want %d", len(got), len(long))
	}
	events, _ := f.server.Ledger(0)
	for _, e := range events {
		if e.Kind == botapitest.EventSent && e.Chat == -1001 && (e.Thread != 7 || e.Text != "to the topic") {
			t.Errorf("sent %q to thread %d", e.Text, e.Thread)
		}
	}
	f.run("send", "--chat", "43", "x").wants(t, 1,
		"tgbridge: sendMessage: telegram answered 400: Bad Request: chat not found (43 is no chat's id, or the bot is not in it: a user has to write to it first, a group to add it)")
	f.run("send", "--chat", "-1001", "--thread", "8", "x").wants(t, 1, "message thread not found")
}

// TestSendUsage: what is wrong is told before anything is sent.
func TestSendUsage(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.led(1, "echo")
	tests := []struct {
		name, stdin string
		args        []string
		want        string
	}{
		{"no chat", "", []string{"x"}, "--chat is needed"},
		{"name of a chat", "", []string{"--chat", "@name", "x"}, `invalid argument "@name" for "--chat" flag: it must be a number`},
		{"file", "", []string{"--chat", "42", "--file", "/etc/hostname"}, "--file: this version sends text alone, no files"},
		{"two texts", "", []string{"--chat", "42", "a", "b"}, "put it in quotes"},
		{"nothing", "", []string{"--chat", "42"}, "there is no text to send"},
		{"blank", " \n", []string{"--chat", "42"}, "there is no text to send"},
		{"too long", strings.Repeat("x", maxSendText+1), []string{"--chat", "42"}, "more than 65536 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f.runWith(tt.stdin, nil, append([]string{"send"}, tt.args...)...).wants(t, 2, tt.want, "See 'tgbridge send --help'.")
		})
	}
	if got := f.sent(42); len(got) > 0 {
		t.Errorf("sent %q", got)
	}
}

// TestSendWithoutLeader fails within stale-after and a second, and says why.
func TestSendWithoutLeader(t *testing.T) {
	t.Parallel()
	f := newFleet(t, quickTimes...)
	leader, _ := f.led(1, "echo")
	leader.signal(t, syscall.SIGKILL)
	leader.wait(t, 5*time.Second)
	r := f.run("send", "--chat", "42", "x")
	r.wants(t, 1, "nothing was sent: nobody leads this bot now: start a member (tgbridge echo), or try again in a moment (m1, pid")
	if r.took > 8*time.Second { // 2.5 s on a machine that does nothing else
		t.Errorf("took %v", r.took)
	}
	next := f.start("m2", "echo")
	f.waitLeader(1, 15*time.Second)
	next.signal(t, syscall.SIGTERM)
	next.wait(t, 5*time.Second)
	r = f.run("send", "--chat", "42", "x")
	r.wants(t, 1, "nothing was sent: nobody leads this bot now: start a member (tgbridge echo), or try again in a moment\n")
	if r.took > 8*time.Second {
		t.Errorf("took %v", r.took)
	}
}

// TestSendToFrozenLeader: nobody is there to take over: it is told that the
// message may have been sent, and is given up soon.
func TestSendToFrozenLeader(t *testing.T) {
	t.Parallel()
	f := newFleet(t, quickTimes...)
	leader, _ := f.led(1, "echo")
	leader.signal(t, syscall.SIGSTOP)
	r := f.run("send", "--chat", "42", "x")
	r.wants(t, 1, "it is not known whether the message was sent", "m1 (pid", "makes no progress")
	if r.took > 12*time.Second {
		t.Errorf("took %v", r.took)
	}
}

// TestSendAcrossDeaths: the leader is killed or frozen before it acts on the
// message, and the successor sends it, once. Killed in the middle of its call:
// then nobody knows, and that is told (G7).
func TestSendAcrossDeaths(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		signal syscall.Signal
		stall  bool // the call is under way when it happens
		code   int
		want   string
	}{
		{"killed while it waits", syscall.SIGKILL, false, 0, ""},
		{"frozen before", syscall.SIGSTOP, false, 0, ""},
		{"killed in mid-call", syscall.SIGKILL, true, 1, "it is not known whether the message was sent"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, quickTimes...)
			f.server.SetChat(botapitest.Chat{ID: 42})
			leader, _ := f.led(2, "echo")
			if tt.stall {
				f.fault(botapitest.Fault{Method: "sendMessage", Act: botapitest.FaultStall, Effect: true, Times: 1})
			} else {
				leader.signal(t, syscall.SIGSTOP) // it gets the request, and does nothing
			}
			done := make(chan result)
			go func() { done <- f.run("send", "--chat", "42", "once") }()
			if tt.stall {
				f.waitCall("sendmessage")
			} else {
				time.Sleep(300 * time.Millisecond) // for the request to be on its way; sooner is right, too
			}
			leader.signal(t, tt.signal)
			r := <-done
			r.wants(t, tt.code, tt.want)
			if tt.signal == syscall.SIGSTOP {
				leader.signal(t, syscall.SIGCONT)
				f.waitMembers(2)
			}
			f.wantSent(42, "once")
		})
	}
}

// TestSendWaitsForTelegram: a leader that makes progress is waited for, however
// long its call takes (here: longer than an election).
func TestSendWaitsForTelegram(t *testing.T) {
	t.Parallel()
	f := newFleet(t, quickTimes...)
	f.server.SetChat(botapitest.Chat{ID: 42})
	f.led(1, "echo")
	f.fault(botapitest.Fault{Method: "sendMessage", Act: botapitest.FaultDelay, Latency: 4 * time.Second, Times: 1})
	r := f.run("send", "--chat", "42", "slow")
	r.wants(t, 0)
	if r.took < 4*time.Second {
		t.Errorf("took %v", r.took)
	}
	f.wantSent(42, "slow")
	f.fault(botapitest.Fault{Method: "sendMessage", Act: botapitest.FaultCut, Effect: true, Times: 1})
	f.run("send", "--chat", "42", "cut").wants(t, 1, "it is not known whether the message was sent: look into the chat before you send it again")
	f.wantSent(42, "slow", "cut")
}

// TestDamagedRegistry: commands say that it passes, and send and health wait for
// it; watching goes on.
func TestDamagedRegistry(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.server.SetChat(botapitest.Chat{ID: 42})
	f.led(2, "echo")
	watch := f.start("watch", "status", "--watch", "--json")
	registry := filepath.Join(f.dir(), "locks.json")
	if err := os.WriteFile(registry, []byte(`{"tg`), 0o600); err != nil {
		t.Fatal(err)
	}
	f.run("send", "--chat", "42", "through").wants(t, 0)
	f.wantSent(42, "through")
	eventually(t, 10*time.Second, func() string {
		if r := f.run("health"); r.code != 0 {
			return r.stderr
		}
		return ""
	})
	watch.signal(t, syscall.SIGINT)
	if code := watch.wait(t, 5*time.Second); code != 0 {
		t.Errorf("exit code %d: %s", code, watch.said)
	}
}

// TestDamagedRegistryAlone: without members nobody repairs it; the next start
// does.
func TestDamagedRegistryAlone(t *testing.T) {
	t.Parallel()
	f := newFleet(t, quickTimes...)
	if err := os.MkdirAll(f.dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	registry := filepath.Join(f.dir(), "locks.json")
	if err := os.WriteFile(registry, []byte(`{"tg`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"status"}, {"send", "--chat", "42", "x"}, {"handover"}} {
		f.run(args...).wants(t, 4, registry, "registry is damaged", "or the next one that starts does")
	}
	f.run("health").wants(t, 1, "no member runs in this PID namespace")
	f.led(1, "echo")
	f.run("status").wants(t, 0)
}
