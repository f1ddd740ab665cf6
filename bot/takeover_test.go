package bot_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tgbridge/bot"
	"tgbridge/internal/botapitest"
)

// A caller is a member of this process whose handler, for chats that are its own,
// makes a call once it is let go.
type caller struct {
	*local
	begun chan int64 // chats
	letGo chan struct{}
	done  chan error // of the calls

	mu   sync.Mutex
	runs int
}

func (f *fleet) runCaller(o bot.Options) *caller {
	c := &caller{begun: make(chan int64, 100), letGo: make(chan struct{}), done: make(chan error, 100)}
	c.local = f.run(o, bot.HandlerFunc(func(ctx context.Context, u *bot.Update) (bot.Reply, error) {
		chat, _ := u.ChatID()
		c.begun <- chat
		<-c.letGo
		_, err := c.Call(ctx, "sendMessage", map[string]any{"chat_id": chat, "text": "called"})
		c.mu.Lock()
		c.runs++
		c.mu.Unlock()
		c.done <- err
		return bot.Reply{}, nil
	}))
	return c
}

// own says things in chat after chat until one is the caller's, and returns it.
func (c *caller) own(t *testing.T, server *botapitest.Server) int64 {
	t.Helper()
	for chat := int64(100); chat < 200; chat++ {
		text := fmt.Sprint("to ", chat)
		say(t, server, chat, text)
		var mine bool
		eventually(t, 10*time.Second, func() string {
			select {
			case <-c.begun:
				mine = true
			default:
				if sentTexts(server)["m1 "+text] == 0 {
					return "nobody has it"
				}
			}
			return ""
		})
		if mine {
			return chat
		}
	}
	t.Fatal("no chat is the caller's")
	return 0
}

// result waits for the end of the call.
func (c *caller) result(t *testing.T) error {
	t.Helper()
	select {
	case err := <-c.done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("the call has no end")
		return nil
	}
}

// TestCallOfAHandlerOutlivesAFrozenLeader: what a handler calls while its leader is
// frozen is made by the next one, once; of what the frozen one had begun the
// handler is told that nobody knows (G7). It is not run again (G3).
func TestCallOfAHandlerOutlivesAFrozenLeader(t *testing.T) {
	for _, begunBefore := range []bool{false, true} {
		t.Run(fmt.Sprintf("begun before %v", begunBefore), func(t *testing.T) {
			t.Parallel()
			f, server := newFleet(t)
			leader := f.start("m1", quickSetting(t))
			f.waitMembers(1)
			o := f.options("m2")
			quick(&o)
			c := f.runCaller(o)
			f.waitMembers(2)
			chat := c.own(t, server)
			end := func() {}
			freeze := func() { leader.signal(t, syscall.SIGSTOP) }
			if begunBefore {
				id, err := server.AddFault(botapitest.Fault{Method: "sendMessage", Act: botapitest.FaultStall})
				if err != nil {
					t.Fatal(err)
				}
				end = func() { server.RemoveFault(id) }
				n, _ := count(server, "sendMessage", 0)
				close(c.letGo)
				waitCount(t, server, "sendMessage", n+1)
				freeze()
			} else {
				freeze()
				close(c.letGo)
			}
			e, _ := f.leader()
			f.waitLeader(e.InstanceID)
			end()
			err := c.result(t)
			want := 1
			if begunBefore {
				want = 0
			}
			if errors.Is(err, bot.ErrOutcomeUnknown) != begunBefore || !begunBefore && err != nil {
				t.Errorf("error %v", err)
			}
			if got := len(sentTo(server, chat)); got != want {
				t.Errorf("%d messages, want %d", got, want)
			}
			f.waitPending(0)
			if c.runs != 1 {
				t.Errorf("the handler was run %d times", c.runs)
			}
		})
	}
}

// endReign makes the leader stop, or hand over to anybody, and waits for neither.
func (f *fleet) endReign(how string, leader *local) {
	f.t.Helper()
	if how == "stops" {
		leader.stop()
	} else if err := f.handover(""); err != nil {
		f.t.Fatal(err)
	}
}

// TestReplyOutlivesAnOutageAndItsLeader: Telegram answers a reply with 5xx and the
// leader goes: the next one sends it when Telegram is back, once.
func TestReplyOutlivesAnOutageAndItsLeader(t *testing.T) {
	for _, how := range []string{"hands over", "stops"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f, server := newFleet(t)
			first := f.run(f.options("m1"), echo("m"))
			f.waitMembers(1)
			f.run(f.options("m2"), echo("m"))
			f.waitMembers(2)
			end := answering(t, server, "sendMessage", 0, botapitest.Answer{Status: 502, Body: []byte(page)})
			say(t, server, 42, "hello")
			waitCount(t, server, "sendMessage", 1)
			e, _ := f.leader()
			f.endReign(how, first)
			f.waitLeader(e.InstanceID)
			n, _ := count(server, "sendMessage", 0)
			waitCount(t, server, "sendMessage", n+2) // also the successor's
			end()
			waitSent(t, server, 20*time.Second, "m hello")
			f.waitPending(0)
			if n := f.status().DeadLetters; n != 0 {
				t.Errorf("%d dead letters", n)
			}
		})
	}
}

// TestQueuedCallsOutliveTheirLeader: calls that wait for their turn in a chat when
// the leader goes are made by the next one, each once, and none is of unknown
// outcome.
func TestQueuedCallsOutliveTheirLeader(t *testing.T) {
	for _, how := range []string{"hands over", "stops"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f, server := newFleet(t)
			first := f.run(f.options("m1"), echo("m"))
			f.waitMembers(1)
			second := f.run(f.options("m2"), echo("m"))
			f.waitMembers(2)
			say(t, server, 42, "hello") // the chat is known from now on
			waitSent(t, server, 10*time.Second, "m hello")
			// The first one takes its time; the others wait for its end.
			if _, err := server.AddFault(botapitest.Fault{Method: "sendMessage", Times: 1, Act: botapitest.FaultDelay, Latency: 700 * time.Millisecond}); err != nil {
				t.Fatal(err)
			}
			const n = 12
			var calls sync.WaitGroup
			for i := range n {
				calls.Go(func() {
					if _, err := second.Call(context.Background(), "sendMessage", map[string]any{"chat_id": 42, "text": fmt.Sprint("c", i)}); err != nil {
						t.Errorf("call %d: %v", i, err)
					}
				})
			}
			waitCount(t, server, "sendMessage", 2)
			e, _ := f.leader()
			f.endReign(how, first)
			f.waitLeader(e.InstanceID)
			calls.Wait()
			for i := range n {
				if got := sentTexts(server)[fmt.Sprint("c", i)]; got != 1 {
					t.Errorf("call %d was made %d times", i, got)
				}
			}
		})
	}
}

// TestSlowTakeoverKeepsTheLease: a journal whose takeover takes longer than a
// leader may hang does not make the members take turns for ever; what waits is
// handled by the first of them.
func TestSlowTakeoverKeepsTheLease(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	m := f.run(f.options("m0"), echo("m0"))
	f.waitMembers(1)
	m.end(t)
	if err := os.RemoveAll(filepath.Join(f.dir(), "journal")); err != nil {
		t.Fatal(err)
	}
	say(t, server, 42, "hello")
	// This line is written in the course of a takeover.
	slow := stuckAt{
		Writer: f.output, text: "there is no journal of an earlier term",
		stuck: make(chan struct{}, 100), freed: make(chan struct{}),
	}
	var o bot.Options
	for _, name := range []string{"m1", "m2"} {
		o = f.options(name)
		quick(&o)
		o.Logger = zerolog.New(slow).With().Timestamp().Str("m", name).Logger()
		f.run(o, echo("m"))
	}
	eventually(t, 10*time.Second, func() string {
		if len(slow.stuck) == 0 {
			return "no journal is being taken over"
		}
		return ""
	})
	e := f.waitLeader("")
	for until := time.Now().Add(3 * o.StaleAfter); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if now, held := f.leader(); !held || !now.SameOwner(e) {
			t.Error("the lease moved while the journal was taken over")
			break
		}
	}
	close(slow.freed)
	waitSent(t, server, 20*time.Second, "m hello")
}

// TestTokenRefusedAtATakeover: while Telegram refuses a token that it took before,
// a leader stops: the next ones wait it out, instead of ending one by one.
func TestTokenRefusedAtATakeover(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	var all []*local
	for i := range 3 {
		all = append(all, f.run(f.options(fmt.Sprint("m", i+1)), echo("m")))
		f.waitMembers(i + 1)
	}
	end := answering(t, server, "getUpdates", 0, refusal(401, "Unauthorized"))
	for i := range 2 { // and again
		e, _ := f.leader()
		for j, m := range all {
			if m.name == e.Name {
				m.end(t)
				all = append(all[:j:j], all[j+1:]...)
				break
			}
		}
		f.waitLeader(e.InstanceID)
		n, _ := count(server, "getUpdates", 0)
		waitCount(t, server, "getUpdates", n+3)
		for _, m := range all {
			select {
			case <-m.done:
				t.Fatalf("%s has gone: %v", m.name, m.err)
			default:
			}
		}
		if len(all) != 2-i {
			t.Fatalf("%d members are left", len(all))
		}
	}
	end()
	say(t, server, 42, "hello")
	waitSent(t, server, 30*time.Second, "m hello")
	if f.warnings("Telegram refuses the token") == 0 {
		t.Error("the log does not say that the token is refused")
	}
}

// TestReplyBegunByAnotherVersion: the journal says that a part of a reply was
// begun in other words than this version has. Whether it arrived is not known, so
// it is not sent; its lane goes on.
func TestReplyBegunByAnotherVersion(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	id, err := server.AddFault(botapitest.Fault{Method: "sendMessage", Act: botapitest.FaultStall})
	if err != nil {
		t.Fatal(err)
	}
	m := f.start("m1")
	say(t, server, 42, "one")
	waitCount(t, server, "sendMessage", 1)
	m.signal(t, syscall.SIGKILL)
	m.wait(t, 5*time.Second)
	server.RemoveFault(id)
	if n := f.rewriteJournal(regexp.MustCompile(`("kind":"call".*"hash":")\d+"`), `${1}1"`); n != 1 {
		t.Fatalf("%d calls in the journal, want 1", n)
	}
	say(t, server, 42, "two")
	f.run(f.options("m2"), echo("m2"))
	waitSent(t, server, 20*time.Second, "m2 two")
	f.waitPending(0)
	if s := f.status(); s.DeadLetters != 1 || sentTexts(server)["m1 one"] != 0 {
		t.Errorf("%d dead letters, sent %v, want one for the reply that was begun", s.DeadLetters, sentTexts(server))
	}
}

// rewriteJournal replaces what the pattern finds in the objects of the journal's
// lines, and returns in how many.
func (f *fleet) rewriteJournal(pattern *regexp.Regexp, with string) (changed int) {
	f.t.Helper()
	paths, _ := filepath.Glob(filepath.Join(f.dir(), "journal", "*", "*.log"))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.t.Fatal(err)
		}
		var out strings.Builder
		for line := range strings.Lines(string(text)) {
			if pattern.MatchString(line) {
				changed++
				object := pattern.ReplaceAllString(strings.TrimSuffix(line[9:], "\n"), with)
				line = fmt.Sprintf("%08x %s\n", crc32.Checksum([]byte(object), crc32.MakeTable(crc32.Castagnoli)), object)
			}
			out.WriteString(line)
		}
		if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	return changed
}
