//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tgbridge/bot"
	"tgbridge/internal/botapitest"
)

// keys are the names in a JSON object, sorted.
func keys(t *testing.T, raw json.RawMessage) []string {
	t.Helper()
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return slices.Sorted(maps.Keys(object))
}

func member(t *testing.T, raw string, path ...string) json.RawMessage {
	t.Helper()
	at := json.RawMessage(raw)
	for _, name := range path {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(at, &object); err != nil {
			t.Fatalf("%v in %s", err, at)
		}
		at = object[name]
	}
	return at
}

// TestStatusFields: the documented names are there, also when the files alone
// tell.
func TestStatusFields(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	leader, follower := f.led(2, "echo")
	f.say(42, "hello")
	f.waitSent(42, 1)
	check := func(code int) bot.Status {
		t.Helper()
		r := f.run("status", "--json")
		r.wants(t, code)
		for _, want := range []struct {
			path  []string
			names string
		}{
			{nil, "bot_id dead_letters leader members pending poll role term"},
			{[]string{"leader"}, "host instance last_poll name pid since"},
			{[]string{"poll"}, "conflicts last_error state"},
		} {
			if diff := cmp.Diff(strings.Fields(want.names), keys(t, member(t, r.stdout, want.path...))); diff != "" {
				t.Errorf("%v (-want +got)\n%s", want.path, diff)
			}
		}
		var members []json.RawMessage
		if err := json.Unmarshal(member(t, r.stdout, "members"), &members); err != nil {
			t.Fatal(err)
		}
		for _, m := range members {
			for _, name := range strings.Fields("instance name pid host role lanes in_flight last_seen") {
				if !slices.Contains(keys(t, m), name) {
					t.Errorf("no %s in %s", name, m)
				}
			}
		}
		if n := strings.Count(r.stdout, "\n"); n != 1 {
			t.Errorf("%d lines", n)
		}
		var s bot.Status
		if err := json.Unmarshal([]byte(r.stdout), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := check(0)
	if s.BotID != 8112046593 || s.Role != "leader" || s.Term != 1 || s.Leader.PID != leader.pid() || s.Leader.LastPoll == nil ||
		s.Poll.State != "polling" || time.Since(s.Leader.Since) > time.Minute {
		t.Errorf("status %+v, leader %+v", s, s.Leader)
	}
	roles := map[string]string{}
	for _, m := range s.Members {
		roles[m.Name] = m.Role
	}
	if diff := cmp.Diff(map[string]string{leader.name: "leader", follower.name: "follower"}, roles); diff != "" {
		t.Errorf("roles (-want +got)\n%s", diff)
	}
	leader.signal(t, syscall.SIGSTOP)
	if s := check(1); s.Role != "none" || s.Leader.PID != leader.pid() || s.Leader.LastPoll != nil || len(s.Members) != 2 {
		t.Errorf("from the files: %+v", s)
	}
	leader.signal(t, syscall.SIGCONT)
	eventually(t, 10*time.Second, func() string {
		if r := f.run("status"); r.code != 0 {
			return r.stderr
		}
		return ""
	})
}

// TestStatusOfFrozenLeader: the files answer in its place, soon, and say so.
func TestStatusOfFrozenLeader(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	leader, _ := f.led(1, "echo")
	leader.signal(t, syscall.SIGSTOP)
	r := f.run("status")
	r.wants(t, 1, fmt.Sprintf("the leader m1 (pid %d) does not answer", leader.pid()))
	if r.took > 8*time.Second { // 2 s on a machine that does nothing else
		t.Errorf("took %v", r.took)
	}
	for _, want := range []string{
		`leader +m1 \(pid \d+ on \S+\), term 1, since `,
		`source +the files: no leader answered`,
		`pending +not known`,
		`m1 +\d+ +\S+ +leader +0 +0 +[2-9]s ago`,
	} {
		if !regexp.MustCompile(want).MatchString(r.stdout) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
}

// TestStatusRoles: the lease says who leads, and no member's own file, which one
// that hangs does not write.
func TestStatusRoles(t *testing.T) {
	t.Parallel()
	f := newFleet(t, quickTimes...)
	leader, follower := f.led(2, "echo")
	leader.signal(t, syscall.SIGSTOP)
	f.waitLeader(1, 15*time.Second)
	eventually(t, 10*time.Second, func() string {
		r := f.run("status")
		for _, want := range []string{leader.name + ` +\d+ +\S+ +follower `, follower.name + ` +\d+ +\S+ +leader `} {
			if !regexp.MustCompile(want).MatchString(r.stdout) {
				return fmt.Sprintf("no %q in\n%s", want, r.stdout)
			}
		}
		return ""
	})
}

// TestStatusForPeople is the table on a quiet day, and what happened on others.
func TestStatusForPeople(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "TGBRIDGE_ALLOW_ALL=false", "TGBRIDGE_ALLOWED_USERS=42")
	leader, follower := f.led(2, "echo")
	f.waitCall("getupdates")
	r := f.run("status")
	r.wants(t, 0)
	if want := `(?m)^telegram +(starting|polling), first poll under way, conflicts 0$`; !regexp.MustCompile(want).MatchString(r.stdout) {
		t.Errorf("no %q in\n%s", want, r.stdout)
	}
	f.say(666, "let me in")
	f.say(42, "hello")
	f.waitSent(42, 1)
	r = f.run("status")
	r.wants(t, 0)
	for _, want := range []string{
		`(?m)^bot +8112046593$`,
		`(?m)^leader +` + leader.name + ` \(pid \d+ on \S+\), term 1, since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$`,
		`(?m)^telegram +polling, last answer \d+s ago, conflicts 0$`,
		`(?m)^pending +0, dead letters 0$`,
		`(?m)^MEMBER +PID +HOST +ROLE +LANES +IN FLIGHT +LAST SEEN$`,
		`(?m)^` + follower.name + ` +\d+ +\S+ +follower +\d+ +0 +\ds ago$`,
		`(?m)^DENIED +KIND +AT$`,
		`(?m)^666 +message +\d{4}-`,
	} {
		if !regexp.MustCompile(want).MatchString(r.stdout) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	if strings.Contains(r.stdout, "\x1b") {
		t.Errorf("escapes in a pipe: %q", r.stdout)
	}
	f.fault(botapitest.Fault{ID: "conflict", Method: "getUpdates", Act: botapitest.FaultConflict})
	f.server.EndPolls(botapitest.Answer{})
	eventually(t, 10*time.Second, func() string {
		r = f.run("status")
		if r.code != 1 || !strings.Contains(r.stdout, "telegram    conflict,") || !strings.Contains(r.stderr, "polling does not succeed: ") {
			return r.stdout + r.stderr
		}
		return ""
	})
}

// TestStatusWatch prints each second, and ends well when it is interrupted.
func TestStatusWatch(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.led(1, "echo")
	cmd := exec.Command(program(t), "status", "--watch", "--json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := f.startCommand("watch", cmd)
	lines := bufio.NewScanner(out)
	for range 2 {
		if !lines.Scan() || keys(t, lines.Bytes()) == nil {
			t.Fatalf("line %q: %v", lines.Text(), lines.Err())
		}
	}
	p.signal(t, syscall.SIGINT)
	for lines.Scan() {
	}
	if code := p.wait(t, 5*time.Second); code != 0 {
		t.Errorf("exit code %d: %s", code, p.said)
	}
}

// TestFindsTheBot: by --bot, by the token, or as the only one there is.
func TestFindsTheBot(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	const other = "111222333:AAother-not-a-real-token-000000000000"
	run := func(token string, args ...string) result {
		t.Helper()
		return f.runWith("", []string{"TELEGRAM_BOT_TOKEN=" + token}, args...)
	}
	for _, command := range [][]string{{"status"}, {"health"}, {"handover"}, {"send", "--chat", "42", "x"}} {
		run("", command...).wants(t, 1, "no bot's state in "+f.state+": start a member first")
		run(other, command...).wants(t, 1, "no state of bot 111222333 in "+f.state)
		run("", append(command, "--bot", "7")...).wants(t, 1, "no state of bot 7 in ")
	}
	f.led(1, "echo")
	run("", "status").wants(t, 0)
	run(other, "status").wants(t, 1, "no state of bot 111222333")
	run(other, "status", "--bot", "8112046593").wants(t, 0)
	if err := os.Mkdir(filepath.Join(f.state, "111222333"), 0o700); err != nil {
		t.Fatal(err)
	}
	run("", "status").wants(t, 2, "holds 2 bots [111222333 8112046593]: say which with --bot ID")
	run(botapitest.DefaultToken, "status").wants(t, 0)
	run("", "status", "--bot", "8112046593").wants(t, 0)
	run("", "status", "--bot", "111222333").wants(t, 1, "nobody leads")
}

// TestF2ShortLivedStarts: 20 of them within 10 s beside a leader, and the same
// process polls throughout, without a 409.
func TestF2ShortLivedStarts(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.server.SetChat(botapitest.Chat{ID: 42})
	leader, _ := f.led(1, "echo")
	began := time.Now()
	for i := range 20 {
		switch i % 4 {
		case 0:
			f.run("status").wants(t, 0)
		case 1:
			f.run("send", "--chat", "42", fmt.Sprint("n", i)).wants(t, 0)
		case 2:
			p := f.start("short", "echo")
			f.waitMembers(2)
			p.signal(t, syscall.SIGTERM)
			if code := p.wait(t, 5*time.Second); code != 0 {
				t.Errorf("exit code %d", code)
			}
		case 3:
			p := f.start("killed", "echo")
			f.waitMembers(2)
			p.signal(t, syscall.SIGKILL)
			p.wait(t, 5*time.Second)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Logf("took %v", took)
	}
	if e, _ := f.leader(); e.Epoch != 1 || e.PID != leader.pid() {
		t.Errorf("pid %d leads under term %d, want %d under 1", e.PID, e.Epoch, leader.pid())
	}
	conns := map[string]bool{}
	for _, r := range f.polls() {
		conns[r.Begin.Conn] = true
		if r.End.Status == 409 {
			t.Error("a poll was answered with 409")
		}
	}
	if len(conns) != 1 {
		t.Errorf("polls came by %d connections", len(conns))
	}
	if got := f.sent(42); len(got) != 5 {
		t.Errorf("sent %q", got)
	}
}
