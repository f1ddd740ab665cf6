package bot_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tgbridge/internal/botapitest"
)

// A run is one attempt of a delivery in a member process.
type run struct {
	name, delivery, text string
	attempt              int
	ended                string // what its last line says, "" if it has none but "begin"
}

// runs reads what the handlers of member processes logged, in the order in which
// the attempts began.
func (f *fleet) runs() []run {
	f.t.Helper()
	file, err := os.Open(f.handled)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	var out []run
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		part := strings.SplitN(lines.Text(), " ", 6)
		if len(part) != 6 {
			continue // being written
		}
		attempt, _ := strconv.Atoi(part[4])
		if part[0] == "begin" {
			out = append(out, run{name: part[2], delivery: part[3], attempt: attempt, text: part[5]})
			continue
		}
		for i := range out {
			if out[i].name == part[2] && out[i].delivery == part[3] && out[i].attempt == attempt {
				out[i].ended = part[0]
			}
		}
	}
	return out
}

// waitRun waits until an attempt that match accepts was begun.
func (f *fleet) waitRun(match func(run) bool) run {
	f.t.Helper()
	var found run
	eventually(f.t, 15*time.Second, func() string {
		for _, r := range f.runs() {
			if match(r) {
				found = r
				return ""
			}
		}
		return "not begun"
	})
	return found
}

// byName returns the member of that name.
func byName(members []*process, name string) *process {
	for _, m := range members {
		if m.name == name {
			return m
		}
	}
	return nil
}

// TestF13KilledAtWork: the handler blocks, the process is killed; what it had in
// hand and what is behind it is handled after the next start, in order.
func TestF13KilledAtWork(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	m := f.start("m1", "TEST_HANDLER=hang")
	for i := range 3 {
		say(t, server, 42, fmt.Sprint("hang ", i))
	}
	f.waitRun(func(r run) bool { return r.text == "hang 0" })
	f.waitPending(3)
	m.signal(t, syscall.SIGKILL)
	m.wait(t, 5*time.Second)
	f.start("m2")
	waitSent(t, server, 10*time.Second, "m2 hang 0", "m2 hang 1", "m2 hang 2")
	if got := sentTo(server, 42); !slices.Equal(got, []string{"m2 hang 0", "m2 hang 1", "m2 hang 2"}) {
		t.Errorf("sent %v", got)
	}
	if r := f.waitRun(func(r run) bool { return r.name == "m2" && r.text == "hang 0" }); r.attempt != 2 {
		t.Errorf("attempt %d after the death in the first", r.attempt)
	}
}

// TestF22FollowerKilledAtWork: a follower dies with a delivery in hand: it is
// handled by another with the same delivery id, and its lane stays in order.
func TestF22FollowerKilledAtWork(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	f.extra = []string{"TEST_WORK=700ms"}
	members := []*process{f.start("m1"), f.start("m2")}
	f.waitMembers(2)
	e, _ := f.leader()
	var chat int64
	var hit run
	for chat = 100; hit.name == ""; chat++ { // until a lane is the follower's
		for i := range 3 {
			say(t, server, chat, fmt.Sprintf("%d-%d", chat, i))
		}
		r := f.waitRun(func(r run) bool { return r.text == fmt.Sprintf("%d-0", chat) })
		if m := byName(members, r.name); m.pid() != e.PID {
			hit = r
			m.signal(t, syscall.SIGKILL)
		}
	}
	chat--
	survivor := byPID(members, e.PID).name
	want := []string{fmt.Sprintf("%s %d-0", survivor, chat), fmt.Sprintf("%s %d-1", survivor, chat), fmt.Sprintf("%s %d-2", survivor, chat)}
	waitSent(t, server, 15*time.Second, want...)
	if got := sentTo(server, chat); !slices.Equal(got, want) {
		t.Errorf("sent %v, want %v", got, want)
	}
	again := f.waitRun(func(r run) bool { return r.text == hit.text && r.name == survivor })
	if again.delivery != hit.delivery || again.attempt != 2 {
		t.Errorf("redelivered as %+v, was %+v", again, hit)
	}
}

// TestF23KilledAfterTheReply: killed after the reply and before the next poll,
// the update is not handled again, although Telegram sends it again.
func TestF23KilledAfterTheReply(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	fault, err := server.AddFault(botapitest.Fault{Method: "getUpdates", Skip: 1, Act: botapitest.FaultStall})
	if err != nil {
		t.Fatal(err)
	}
	m := f.start("m1")
	say(t, server, 42, "hello")
	waitSent(t, server, 10*time.Second, "m1 hello")
	f.waitPending(0)
	m.signal(t, syscall.SIGKILL)
	m.wait(t, 5*time.Second)
	server.RemoveFault(fault)
	if server.Pending() != 1 {
		t.Fatal("the update was confirmed")
	}
	f.start("m2")
	say(t, server, 42, "next")
	waitSent(t, server, 10*time.Second, "m2 next")
	if n := sentTexts(server)["m2 hello"]; n != 0 {
		t.Error("handled again")
	}
}

// TestF23RestartLoop: an update that ends each process that handles it, as a
// command that restarts the bot does, is given up after its attempts.
func TestF23RestartLoop(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	say(t, server, 42, "exit")
	say(t, server, 42, "next")
	for i := range 3 {
		m := f.start(fmt.Sprint("m", i), "TEST_HANDLER=exit")
		m.wait(t, 10*time.Second)
	}
	f.start("m3", "TEST_HANDLER=exit")
	waitSent(t, server, 10*time.Second, "m3 next", "Sorry, this message could not be handled.")
	var attempts []int
	for _, r := range f.runs() {
		if r.text == "exit" {
			attempts = append(attempts, r.attempt)
		}
	}
	if !slices.Equal(attempts, []int{1, 2, 3}) {
		t.Errorf("attempts %v", attempts)
	}
	if n := f.status().DeadLetters; n != 1 {
		t.Errorf("%d dead letters", n)
	}
}

// TestF3FrozenWithABatch: the leader is frozen, gets a batch that it cannot act
// on; another takes over and handles it; the first wakes: each update is handled
// once, no offset falls, and the woken one follows.
func TestF3FrozenWithABatch(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	f.extra = []string{quickSetting(t)}
	members := []*process{f.start("m1"), f.start("m2")}
	f.waitMembers(2)
	lead, _ := f.leader()
	waitPolling(t, server)
	victim := byPID(members, lead.PID)
	victim.signal(t, syscall.SIGSTOP)
	var want []string
	for i := range 5 {
		say(t, server, int64(100+i), fmt.Sprint("u", i))
	}
	next := f.waitLeader(lead.InstanceID)
	other := byPID(members, next.PID).name
	for i := range 5 {
		want = append(want, fmt.Sprintf("%s u%d", other, i))
	}
	waitSent(t, server, 10*time.Second, want...)
	victim.signal(t, syscall.SIGCONT)
	f.waitMembers(2)
	say(t, server, 42, "after")
	eventually(t, 5*time.Second, func() string {
		if len(sentTo(server, 42)) != 1 {
			return "not answered"
		}
		return ""
	})
	seen := map[string]bool{}
	for _, r := range f.runs() {
		if seen[r.text] {
			t.Errorf("%s was handled twice", r.text)
		}
		seen[r.text] = true
	}
	var offset int64
	for _, r := range requests(server) {
		if r.Begin.Method == "getupdates" && r.Begin.HasOffset {
			if r.Begin.Offset < offset {
				t.Errorf("offset %d after %d", r.Begin.Offset, offset)
			}
			offset = r.Begin.Offset
		}
	}
	if e, _ := f.leader(); e.InstanceID != next.InstanceID {
		t.Error("the lease moved again")
	}
}

// TestF51FrozenFollower: one of three is frozen under load: the others go on at
// once, its idle lanes move after stale-after, what it has in hand is handled
// elsewhere after redeliver-after as a new attempt; thawed it is refused and
// joins anew.
func TestF51FrozenFollower(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	f.extra = []string{quickSetting(t), "TEST_WORK=20ms"}
	members := []*process{f.start("m1"), f.start("m2"), f.start("m3")}
	f.waitMembers(3)
	lead, _ := f.leader()
	i := slices.IndexFunc(members, func(m *process) bool { return m.pid() != lead.PID })
	frozen := members[i]
	// Learn whose lanes are whose.
	owner := map[int64]string{}
	for chat := int64(100); chat < 116; chat++ {
		say(t, server, chat, "first")
	}
	eventually(t, 10*time.Second, func() string {
		for chat := int64(100); chat < 116; chat++ {
			texts := sentTo(server, chat)
			if len(texts) == 0 {
				return "not all answered"
			}
			owner[chat], _, _ = strings.Cut(texts[0], " ")
		}
		return ""
	})
	frozen.signal(t, syscall.SIGSTOP)
	at := server.Now()
	body := strings.Repeat("x", 10<<10/4)
	var load []botapitest.Message
	for n := range 5 {
		for chat := int64(100); chat < 116; chat++ {
			load = append(load, botapitest.Message{User: chat, Text: fmt.Sprintf("%d %s", n, body)})
		}
	}
	if _, err := server.SayAll(load); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, func() string {
		for chat := int64(100); chat < 116; chat++ {
			if n := len(sentTo(server, chat)); n < 6 {
				return fmt.Sprintf("chat %d of %s has %d answers", chat, owner[chat], n)
			}
		}
		return ""
	})
	done := map[int64]time.Duration{}
	events, _ := server.Ledger(0)
	for _, e := range events {
		if e.Kind == botapitest.EventSent && e.At > at {
			done[e.Chat] = e.At - at
		}
	}
	for chat, took := range done {
		limit := 8 * time.Second // 1 s on a machine that does nothing else
		if owner[chat] == frozen.name {
			limit = 15 * time.Second
		}
		if took > limit {
			t.Errorf("chat %d of %s took %v", chat, owner[chat], took)
		}
	}
	frozen.signal(t, syscall.SIGCONT)
	f.waitMembers(3)
	for chat := int64(100); chat < 116; chat++ {
		texts := sentTo(server, chat)
		if len(texts) != 6 {
			t.Errorf("chat %d got %d answers to 6 messages", chat, len(texts))
		}
		for n, text := range texts[1:] {
			if _, rest, _ := strings.Cut(text, " "); !strings.HasPrefix(rest, fmt.Sprint(n, " ")) {
				t.Errorf("chat %d: answer %d is to %.10s", chat, n, rest)
			}
		}
	}
	if e, _ := f.leader(); e.Epoch != lead.Epoch {
		t.Errorf("term %d became %d", lead.Epoch, e.Epoch)
	}
}

// TestG6KilledAtRandom: all members are killed at random times, again and again;
// the next start does not wait for a beat to be stale, and nothing that was said
// is lost.
func TestG6KilledAtRandom(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	const staleAfter = 20 * time.Second
	f.extra = []string{"TEST_WORK=5ms", setting(t, map[string]any{"StaleAfter": staleAfter, "RedeliverAfter": 2 * staleAfter})}
	const rounds = 12
	first := f.start("first") // a registry that was never there is waited for, for 3 s
	f.waitMembers(1)
	first.signal(t, syscall.SIGKILL)
	first.wait(t, 5*time.Second)
	for round := range rounds {
		members := []*process{f.start("a"), f.start("b")}
		say(t, server, 42, fmt.Sprint("r", round))
		time.Sleep(rand.N(400 * time.Millisecond))
		for _, m := range members {
			m.signal(t, syscall.SIGKILL)
		}
		for _, m := range members {
			m.wait(t, 5*time.Second)
		}
	}
	began := time.Now()
	before, _ := f.leader()
	f.start("last")
	eventually(t, 2*staleAfter, func() string {
		if e, held := f.leader(); !held || e.Epoch <= before.Epoch {
			return "nobody leads"
		}
		return ""
	})
	if took := time.Since(began); took > staleAfter/2 {
		t.Errorf("led after %v", took)
	}
	eventually(t, 20*time.Second, func() string {
		answered := map[string]bool{}
		for _, text := range sentTo(server, 42) {
			_, rest, _ := strings.Cut(text, " ")
			answered[rest] = true
		}
		notices := sentTexts(server)["Sorry, this message could not be handled."]
		if len(answered)-min(1, notices)+notices < rounds {
			return fmt.Sprintf("answered: %v", sentTo(server, 42))
		}
		return ""
	})
}

// TestS3SlowStart: Telegram is slow while a leader starts: it beats from the
// acquisition on, and is not overthrown.
func TestS3SlowStart(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	if _, err := server.AddFault(botapitest.Fault{Act: botapitest.FaultDelay, Times: 2, Latency: 4 * time.Second}); err != nil {
		t.Fatal(err)
	}
	o, p := f.options("m1"), f.options("m2")
	quick(&o)
	quick(&p)
	say(t, server, 42, "hello")
	f.run(o, echo("m"))
	f.run(p, echo("m"))
	waitSent(t, server, 15*time.Second, "m hello")
	if e, _ := f.leader(); e.Epoch != 1 {
		t.Errorf("term %d", e.Epoch)
	}
}

// TestS8LosersFollow: the leader dies, one of the others wins, the rest joins it;
// lanes of members that live stay where they were.
func TestS8LosersFollow(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	var members []*process
	for i := range 4 {
		members = append(members, f.start(fmt.Sprint("m", i)))
	}
	f.waitMembers(4)
	lead, _ := f.leader()
	dead := byPID(members, lead.PID)
	for chat := int64(100); chat < 130; chat++ {
		say(t, server, chat, "hello")
	}
	answerers := func(nth int) map[int64]string {
		out := map[int64]string{}
		eventually(t, 10*time.Second, func() string {
			for chat := int64(100); chat < 130; chat++ {
				texts := sentTo(server, chat)
				if len(texts) <= nth {
					return fmt.Sprintf("chat %d has %d answers", chat, len(texts))
				}
				out[chat], _, _ = strings.Cut(texts[nth], " ")
			}
			return ""
		})
		return out
	}
	before := answerers(0)
	dead.signal(t, syscall.SIGKILL)
	f.waitLeader(lead.InstanceID)
	f.waitMembers(3)
	for chat := int64(100); chat < 130; chat++ {
		say(t, server, chat, "again")
	}
	for chat, name := range answerers(1) {
		if was := before[chat]; was != dead.name && name != was {
			t.Errorf("chat %d moved from %s to %s", chat, was, name)
		}
	}
}

// TestG7CallAcrossALeaderKill: a handler's own call is in flight at Telegram when
// the leader that makes it is killed: the message is there once at most, and the
// handler is told that nobody knows.
func TestG7CallAcrossALeaderKill(t *testing.T) {
	t.Parallel()
	for _, effect := range []bool{true, false} {
		t.Run(fmt.Sprintf("effect %v", effect), func(t *testing.T) {
			t.Parallel()
			f, server := newFleet(t)
			f.extra = []string{"TEST_HANDLER=call"}
			members := []*process{f.start("m1"), f.start("m2")}
			f.waitMembers(2)
			lead, _ := f.leader()
			if _, err := server.AddFault(botapitest.Fault{Method: "sendMessage", Act: botapitest.FaultStall, Effect: effect}); err != nil {
				t.Fatal(err)
			}
			var hit run
			for chat := int64(100); hit.name == "" || byName(members, hit.name).pid() == lead.PID; chat++ {
				text := fmt.Sprint("c", chat) // until one is the follower's
				say(t, server, chat, text)
				hit = f.waitRun(func(r run) bool { return r.text == text })
				eventually(t, 5*time.Second, func() string {
					events, _ := server.Ledger(0)
					for _, e := range events {
						if e.Kind == botapitest.EventBegin && e.Method == "sendmessage" && e.Chat == chat {
							return ""
						}
					}
					return "the call did not begin"
				})
			}
			byPID(members, lead.PID).signal(t, syscall.SIGKILL)
			f.waitLeader(lead.InstanceID)
			server.ClearFaults()
			f.waitPending(0)
			for text, n := range sentTexts(server) {
				if n > 1 {
					t.Errorf("%q was sent %d times", text, n)
				}
			}
			eventually(t, 5*time.Second, func() string {
				if r := f.waitRun(func(r run) bool { return r.text == hit.text && r.name == hit.name }); r.ended != "unknown" || r.attempt != 1 {
					return fmt.Sprintf("run %+v, want it told that the outcome is unknown", r)
				}
				return ""
			})
		})
	}
}

// TestAllStopTogether: every member is told to stop, at once or one after the
// other, as docker compose does, with work in hand: all is answered. What is
// finished within the time is not run again, unless the lease was on its way to
// a member that was told to stop at that very moment: then nobody is there to
// take it in.
func TestAllStopTogether(t *testing.T) {
	for _, apart := range []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond} {
		t.Run(apart.String(), func(t *testing.T) {
			t.Parallel()
			f, server := newFleet(t)
			f.extra = []string{"TEST_WORK=400ms"}
			members := []*process{f.start("m1"), f.start("m2"), f.start("m3")}
			f.waitMembers(3)
			lead, _ := f.leader()
			for chat := int64(100); chat < 120; chat++ {
				say(t, server, chat, fmt.Sprint("w", chat))
			}
			eventually(t, 10*time.Second, func() string {
				if n := len(f.runs()); n < 20 {
					return fmt.Sprintf("%d begun", n)
				}
				return ""
			})
			slices.SortFunc(members, func(a, _ *process) int { // the leader first
				if a.pid() == lead.PID {
					return -1
				}
				return 1
			})
			for _, m := range members {
				m.signal(t, syscall.SIGTERM)
				time.Sleep(apart)
			}
			for _, m := range members {
				m.wait(t, 8*time.Second)
			}
			f.stopped(t)
			f.start("n1")
			eventually(t, 10*time.Second, func() string {
				for chat := int64(100); chat < 120; chat++ {
					if n := len(sentTo(server, chat)); n != 1 {
						return fmt.Sprintf("chat %d has %d answers", chat, n)
					}
				}
				return ""
			})
			again := 0
			for _, r := range f.runs() {
				if r.name == "n1" {
					again++
				}
			}
			t.Logf("%d of 20 were run again", again)
			if again > 0 && apart >= 100*time.Millisecond {
				t.Errorf("%d of 20 were run again", again)
			}
		})
	}
}
