package bot_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tgbridge/internal/botapitest"
)

// TestG3FirstMemberAnswers is the simplest life: one member, one message.
func TestG3FirstMemberAnswers(t *testing.T) {
	f, server := newFleet(t)
	f.start("m1")
	if _, err := server.Say(botapitest.Message{User: 42, Text: "hello"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, func() string {
		if n := sentTexts(server)["m1 hello"]; n != 1 {
			return fmt.Sprintf("answered %d times", n)
		}
		return ""
	})
}

// load says perChat messages in each chat, evenly spread, and returns a channel
// that is closed afterwards.
func load(t *testing.T, server *botapitest.Server, chats, perChat int) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range perChat {
			for c := range chats {
				if _, err := server.Say(botapitest.Message{User: int64(100 + c), Text: token(c, i)}); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(30 * time.Millisecond)
		}
	}()
	return done
}

// token is the text of message i in chat c.
func token(c, i int) string { return fmt.Sprintf("c%d-%03d", c, i) }

// answers returns the tokens answered in each chat, in the order of the answers.
func answers(server *botapitest.Server) map[int64][]string {
	out := map[int64][]string{}
	events, _ := server.Ledger(0)
	for _, e := range events {
		if e.Kind == botapitest.EventSent {
			_, token, _ := strings.Cut(e.Text, " ")
			out[e.Chat] = append(out[e.Chat], token)
		}
	}
	return out
}

// waitAnswered waits until every message of a load has an answer, and checks the
// order of first answers in each chat. It returns how many came twice.
func waitAnswered(t *testing.T, server *botapitest.Server, chats, perChat int) (doubled []string) {
	t.Helper()
	defer func() {
		if n := sentTexts(server)["Sorry, this message could not be handled."]; n > 0 {
			t.Errorf("%d messages became dead letters", n)
		}
	}()
	eventually(t, 45*time.Second, func() string {
		missing := []string{}
		got := answers(server)
		for c := range chats {
			for i := range perChat {
				if !slices.Contains(got[int64(100+c)], token(c, i)) {
					missing = append(missing, token(c, i))
				}
			}
		}
		if len(missing) > 0 {
			return fmt.Sprintf("%d of %d not answered: %v", len(missing), chats*perChat, missing[:min(10, len(missing))])
		}
		return ""
	})
	for chat, tokens := range answers(server) {
		var first []string
		for _, token := range tokens {
			if slices.Contains(first, token) {
				doubled = append(doubled, token)
			} else {
				first = append(first, token)
			}
		}
		if !slices.IsSorted(first) {
			t.Errorf("chat %d answered out of order: %v", chat, first)
		}
	}
	return doubled
}

// firstPoll waits for the first poll of a new leader after an instant of the
// server's clock: one without an offset.
func firstPoll(t *testing.T, server *botapitest.Server, after time.Duration) time.Duration {
	t.Helper()
	var at time.Duration
	eventually(t, 15*time.Second, func() string {
		events, _ := server.Ledger(0)
		for _, e := range events {
			if e.Kind == botapitest.EventBegin && e.Method == "getupdates" && e.At > after && !e.HasOffset {
				at = e.At
				return ""
			}
		}
		return "no first poll"
	})
	return at
}

// conflicts counts the polls that were answered with 409.
func conflicts(server *botapitest.Server) int {
	n := 0
	events, _ := server.Ledger(0)
	for _, e := range events {
		if e.Kind == botapitest.EventEnd && e.Method == "getupdates" && e.Status == 409 {
			n++
		}
	}
	return n
}

// strayPolls returns how many polls with an offset were begun by another member
// than the one whose first poll, without an offset, came last (G1). Members are
// told apart by the program that they say they are.
func strayPolls(server *botapitest.Server) (stray int) {
	leader := ""
	for _, r := range requests(server) {
		switch {
		case r.Begin.Method != "getupdates":
		case !r.Begin.HasOffset:
			leader = r.Begin.Client
		case r.Begin.Client != leader:
			stray++
		}
	}
	return stray
}

// TestG4LeaderGone takes the leader away under load in each of the ways in which
// one goes, three times each, and checks that every message is answered, in the
// order of its chat.
func TestG4LeaderGone(t *testing.T) {
	tests := []struct {
		name   string
		take   func(f *fleet, m *process)
		within time.Duration
		once   bool // no answer comes twice
		calm   bool // no 409
	}{
		{"G4 killed", func(_ *fleet, m *process) { _ = m.cmd.Process.Kill() }, time.Second, false, false},
		{"G4 stopped", func(_ *fleet, m *process) { _ = m.cmd.Process.Signal(syscall.SIGTERM) }, time.Second, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, server := newFleet(t)
			// Three leaders die: on a slow machine one message may be with each of them.
			f.extra = []string{"TEST_WORK=5ms", setting(t, map[string]any{"Attempts": 100})}
			members := []*process{f.start("m1"), f.start("m2"), f.start("m3")}
			lead := f.waitLeader("")
			const chats, perChat = 8, 60
			loaded := load(t, server, chats, perChat)
			for round := range 3 {
				time.Sleep(300 * time.Millisecond)
				victim := byPID(members, lead.PID)
				if victim == nil {
					t.Fatalf("round %d: leader has pid %d, none of ours", round, lead.PID)
				}
				taken := server.Now()
				tt.take(f, victim)
				lead = f.waitLeader(lead.InstanceID)
				gap := firstPoll(t, server, taken) - taken
				t.Logf("round %d: %s gone, gap %v, term %d", round, victim.name, gap, lead.Epoch)
				if gap > tt.within {
					t.Errorf("round %d: gap %v, want at most %v", round, gap, tt.within)
				}
				members = append(members, f.start(fmt.Sprintf("n%d", round)))
			}
			<-loaded
			doubled := waitAnswered(t, server, chats, perChat)
			t.Logf("doubled: %v", doubled)
			if tt.once && len(doubled) > 0 {
				t.Errorf("answered twice: %v", doubled)
			}
			if n := conflicts(server); tt.calm && n > 0 {
				t.Errorf("%d polls were answered with 409", n)
			}
			if n := strayPolls(server); n > 0 {
				t.Errorf("G1: %d polls of a deposed leader", n)
			}
		})
	}
}

// TestG4FrozenLeader freezes the leader, lets another take over, and wakes it:
// each message is answered, and what the woken one still does confirms nothing.
func TestG4FrozenLeader(t *testing.T) {
	f, server := newFleet(t)
	f.extra = []string{"TEST_WORK=5ms"}
	members := []*process{f.start("m1"), f.start("m2"), f.start("m3")}
	lead := f.waitLeader("")
	const chats, perChat = 4, 300
	loaded := load(t, server, chats, perChat)
	time.Sleep(300 * time.Millisecond)
	victim := byPID(members, lead.PID)
	frozen := server.Now()
	if err := victim.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	lead = f.waitLeader(lead.InstanceID)
	gap := firstPoll(t, server, frozen) - frozen
	t.Logf("gap %v", gap)
	if gap > 6*time.Second {
		t.Errorf("gap %v, want at most 6s", gap)
	}
	if err := victim.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	<-loaded
	if doubled := waitAnswered(t, server, chats, perChat); len(doubled) > 0 {
		t.Logf("doubled: %v", doubled)
	}
	if n := strayPolls(server); n > 1 { // the one that it had begun when it was frozen
		t.Errorf("G1: %d polls of a deposed leader", n)
	}
}

// stuckAt is a log that takes no line with a certain text until it is freed; who
// writes one hangs.
type stuckAt struct {
	io.Writer
	text  string
	stuck chan struct{} // gets one for each that hangs
	freed chan struct{}
}

func (s stuckAt) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(s.text)) {
		s.stuck <- struct{}{}
		<-s.freed
	}
	return s.Writer.Write(p)
}

// TestF41WedgedPollLoop: the leader's poll loop hangs while all else of it lives.
// It steps down by itself, another leads within stale-after + 1 s and handles what
// came; the first goes on as a follower, and polls no more when its loop goes on.
func TestF41WedgedPollLoop(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	o := f.options("m1")
	log := stuckAt{Writer: f.output, text: "no usable answer from Telegram", stuck: make(chan struct{}, 1), freed: make(chan struct{})}
	o.Logger = zerolog.New(log).With().Timestamp().Str("m", "m1").Logger()
	f.run(o, echo("m"))
	f.waitMembers(1)
	f.run(f.options("m2"), echo("m"))
	f.waitMembers(2)
	before, _ := f.leader()
	end := answering(t, server, "getUpdates", 0, botapitest.Answer{Status: 502, Body: []byte(page)})
	say(t, server, 42, "first") // ends the poll that waits
	eventually(t, 10*time.Second, func() string {
		if len(log.stuck) == 0 {
			return "the poll loop has not hung"
		}
		return ""
	})
	wedged := time.Now()
	end()
	say(t, server, 42, "second")
	after := f.waitLeader(before.InstanceID)
	gap := time.Since(wedged)
	t.Logf("another led after %v", gap)
	if gap > 6*time.Second {
		t.Errorf("another led after %v, want at most 6 s", gap)
	}
	eventually(t, 10*time.Second, func() string { // told when the step-down is done
		if !strings.Contains(f.output.String(), "own deadline passed") {
			return "the first one did not step down by itself"
		}
		return ""
	})
	waitSent(t, server, 10*time.Second, "m first", "m second")
	f.waitMembers(2)
	close(log.freed)
	say(t, server, 42, "third")
	waitSent(t, server, 10*time.Second, "m third")
	if e, _ := f.leader(); !e.SameOwner(after) {
		t.Error("the lease moved again")
	}
	if n := strayPolls(server); n > 0 {
		t.Errorf("G1: %d polls of a deposed leader", n)
	}
}

// TestF1SlotTakenAfterACrash: after the leader was killed Telegram refuses polls
// for a while, although nobody polls. The next leader stays and says so, asks
// ever less often, and handles what waits soon after the slot's return.
func TestF1SlotTakenAfterACrash(t *testing.T) {
	t.Parallel()
	refusing := 8 * time.Second
	if os.Getenv("LONG_TESTS") != "" {
		refusing = 55 * time.Second
	}
	f, server := newFleet(t)
	first := f.start("m1")
	f.waitMembers(1)
	f.run(f.options("m2"), echo("m2"))
	f.waitMembers(2)
	if _, err := server.AddFault(botapitest.Fault{Method: "getUpdates", Act: botapitest.FaultConflict, AfterDisconnect: true, For: refusing}); err != nil {
		t.Fatal(err)
	}
	_, since := count(server, "getUpdates", 0)
	first.signal(t, syscall.SIGKILL)
	killed := time.Now()
	first.wait(t, 5*time.Second)
	say(t, server, 42, "waits")
	eventually(t, 10*time.Second, func() string {
		if s := f.status(); s.Poll.State != "conflict" || !strings.Contains(s.Poll.LastError, "409") {
			return fmt.Sprintf("poll state %+v", s.Poll)
		}
		return ""
	})
	e, _ := f.leader()
	waitSent(t, server, refusing+15*time.Second-time.Since(killed), "m2 waits")
	if n, _ := count(server, "getUpdates", since); n >= 20+2 { // one that was answered, and one since
		t.Errorf("%d polls, want less than 20 while it is refused", n)
	}
	if conflicts(server) < 2 {
		t.Errorf("%d polls were refused", conflicts(server))
	}
	if now, _ := f.leader(); !now.SameOwner(e) {
		t.Error("the lease moved")
	}
}
