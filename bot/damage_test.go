package bot_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tgbridge/bot"
	"tgbridge/internal/botapitest"
)

// damages are what may happen to a file.
var damages = []struct {
	name string
	do   func(path string) error
}{
	{"deleted", os.RemoveAll},
	{"truncated", func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, info.Size()/2)
	}},
	{"emptied", func(path string) error { return os.Truncate(path, 0) }},
	{"random", func(path string) error {
		noise := make([]byte, 4096)
		_, _ = rand.Read(noise)
		return os.WriteFile(path, noise, 0o600)
	}},
	{"zeros", func(path string) error { return os.WriteFile(path, make([]byte, 4096), 0o600) }},
	{"directory", func(path string) error { return errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o700)) }},
	{"symlink", func(path string) error { return errors.Join(os.RemoveAll(path), os.Symlink("/dev/null", path)) }},
}

// damage does one of damages to each file that matches the pattern.
func damage(t *testing.T, dir, pattern, how string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: no such file in %s (%v)", pattern, dir, err)
	}
	for _, d := range damages {
		if d.name != how {
			continue
		}
		for _, path := range paths {
			if err := d.do(path); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	t.Fatalf("no such damage: %s", how)
}

const (
	theRegistry = "locks.json"
	theJournal  = "journal/*/*.log"
	theMembers  = "members/*"
)

// oldState makes the state of a bot that handled "done" and has "pending" in its
// journal, both confirmed to Telegram, and was stopped.
func oldState(t *testing.T) string {
	t.Helper()
	f, server := newFleet(t)
	m := f.run(f.options("m1"), bot.HandlerFunc(func(ctx context.Context, u *bot.Update) (bot.Reply, error) {
		if u.Text() == "pending" {
			<-ctx.Done()
			return bot.Reply{}, context.Cause(ctx)
		}
		return bot.Reply{Text: u.Text()}, nil
	}))
	say(t, server, 42, "done")
	waitSent(t, server, 10*time.Second, "done")
	say(t, server, 43, "pending")
	f.waitPending(1)
	eventually(t, 5*time.Second, func() string {
		if server.Pending() > 0 {
			return "not confirmed"
		}
		return ""
	})
	m.end(t)
	return f.state
}

// TestS16BetweenRuns damages the files of a bot that was stopped in every way,
// one by one and together, and starts it again.
func TestS16BetweenRuns(t *testing.T) {
	old := oldState(t)
	type change struct{ pattern, how string }
	type test struct {
		changes []change
		refused string // in the error of Run; "": it leads
		kept    bool   // what was pending is handled
	}
	var tests []test
	for _, d := range damages {
		tests = append(tests, test{changes: []change{{theMembers, d.name}}, kept: true})
		if d.name == "directory" || d.name == "symlink" { // somebody else's
			tests = append(tests,
				test{changes: []change{{theRegistry, d.name}}, refused: "locks.json"},
				test{changes: []change{{theJournal, d.name}}, refused: "journal"})
		} else {
			tests = append(tests,
				test{changes: []change{{theRegistry, d.name}}, kept: true},
				test{changes: []change{{theJournal, d.name}}},
				test{changes: []change{{theRegistry, d.name}, {theMembers, d.name}}, kept: true},
				test{changes: []change{{theRegistry, d.name}, {theJournal, d.name}}},
				test{changes: []change{{theJournal, d.name}, {theMembers, d.name}}},
				test{changes: []change{{theRegistry, d.name}, {theJournal, d.name}, {theMembers, d.name}}})
		}
	}
	tests = append(tests, test{changes: []change{{"journal", "deleted"}}})
	for _, tt := range tests {
		var name strings.Builder
		for _, c := range tt.changes {
			fmt.Fprintf(&name, "%s %s ", filepath.Base(c.pattern), c.how)
		}
		t.Run(strings.ReplaceAll(name.String(), "*", "files"), func(t *testing.T) {
			t.Parallel()
			f, server := newFleet(t)
			if err := os.CopyFS(f.state, os.DirFS(old)); err != nil {
				t.Fatal(err)
			}
			for _, c := range tt.changes {
				damage(t, f.dir(), c.pattern, c.how)
			}
			for chat := range int64(3) { // those of the old state
				server.SetChat(botapitest.Chat{ID: 42 + chat})
			}
			say(t, server, 44, "new")
			m := f.run(f.options("m2"), echo("m2"))
			if tt.refused != "" {
				err := m.result(t, 10*time.Second)
				if !errors.Is(err, bot.ErrState) || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("error %v, want ErrState that names %s", err, tt.refused)
				}
				return
			}
			waitSent(t, server, 15*time.Second, "m2 new")
			if tt.kept {
				waitSent(t, server, 5*time.Second, "m2 pending")
			} else if tt.changes[0].how == "truncated" || tt.changes[len(tt.changes)-1].how == "truncated" {
				// What was cut off looks like what a crash never wrote.
			} else if sentTexts(server)["m2 pending"] == 0 && !strings.Contains(f.output.String(), `"level":"warn"`) {
				t.Error("what was pending vanished silently")
			}
			if sentTexts(server)["m2 done"] > 0 {
				t.Error("what was acknowledged and confirmed came back")
			}
		})
	}
}

// TestS16UnderALeader damages the files of a bot under a leader and a follower:
// one leads afterwards, and each message is answered once; or, where something
// foreign stands in the registry's place, both end and say so.
func TestS16UnderALeader(t *testing.T) {
	for _, pattern := range []string{theRegistry, theJournal, theMembers, "sockets/*"} {
		for _, d := range damages {
			if pattern == "sockets/*" && d.name != "deleted" {
				continue // S4, F47
			}
			t.Run(strings.ReplaceAll(filepath.Base(pattern)+" "+d.name, "*", "files of "+filepath.Dir(pattern)), func(t *testing.T) {
				t.Parallel()
				f, server := newFleet(t)
				members := []*local{f.run(f.options("m1"), echo("m")), f.run(f.options("m2"), echo("m"))}
				f.waitMembers(2)
				say(t, server, 42, "before")
				waitSent(t, server, 10*time.Second, "m before")
				damage(t, f.dir(), pattern, d.name)
				foreign := d.name == "directory" || d.name == "symlink"
				if foreign && (pattern == theRegistry || pattern == theJournal) {
					say(t, server, 42, "goes nowhere")
					for _, m := range members {
						err := m.result(t, 20*time.Second)
						if !errors.Is(err, bot.ErrState) || !strings.Contains(err.Error(), f.dir()) {
							t.Errorf("error %v, want ErrState that names a path", err)
						}
					}
					return
				}
				for i := range 3 {
					say(t, server, 42, fmt.Sprint("after ", i))
					waitSent(t, server, 20*time.Second, fmt.Sprint("m after ", i))
					time.Sleep(700 * time.Millisecond)
				}
				if !foreign { // else the members are no longer told of in their files
					f.waitMembers(2)
				}
				waitSent(t, server, time.Second, "m before", "m after 0", "m after 1", "m after 2")
				if n := strayPolls(server); n > 0 {
					t.Errorf("G1: %d polls of a deposed leader", n)
				}
			})
		}
	}
}

// TestS16TextsLost: a journal file is cut off under a leader. What was in hand and
// what waited becomes dead letters that say so, each told once; the lanes go on;
// all is known to the next leader too.
func TestS16TextsLost(t *testing.T) {
	for _, how := range []string{"emptied", "zeros"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f, server := newFleet(t)
			hold := make(chan struct{})
			h := bot.HandlerFunc(func(ctx context.Context, u *bot.Update) (bot.Reply, error) {
				if u.Text() == "in hand" {
					select {
					case <-hold:
					case <-ctx.Done():
						return bot.Reply{}, context.Cause(ctx)
					}
				}
				return bot.Reply{Text: "re: " + u.Text()}, nil
			})
			f.run(f.options("m1"), h)
			f.run(f.options("m2"), h)
			f.waitMembers(2)
			for chat := range int64(2) {
				say(t, server, 42+chat, "in hand")
				say(t, server, 42+chat, "waits")
			}
			f.waitPending(4)
			damage(t, f.dir(), theJournal, how)
			say(t, server, 44, "other lane")
			waitSent(t, server, 10*time.Second, "re: other lane")
			close(hold)
			for chat := range int64(2) {
				say(t, server, 42+chat, fmt.Sprint("after ", chat))
			}
			waitSent(t, server, 10*time.Second, "re: after 0", "re: after 1")
			for range 2 {
				f.waitPending(0)
				if s := f.status(); s.DeadLetters != 4 {
					t.Errorf("%d dead letters, want 4", s.DeadLetters)
				}
				before, _ := f.leader()
				if err := f.handover(""); err != nil {
					t.Fatal(err)
				}
				f.waitLeader(before.InstanceID)
				f.waitMembers(2)
			}
			out := f.output.String()
			if n := strings.Count(out, `"reason":"its text was lost`); n != 4 {
				t.Errorf("%d dead letters told, want 4", n)
			}
			if n := strings.Count(out, "reply not sent"); n > 0 {
				t.Errorf("replies that cannot be sent were tried again %d times", n)
			}
		})
	}
}

// TestF53FailureAfterTheLease: what stands in the journal's way ends the member
// with a message that names it; the lease is released, and once it is gone the
// next start leads within 3 s.
func TestF53FailureAfterTheLease(t *testing.T) {
	f, server := newFleet(t)
	first := f.run(f.options("m0"), echo("m0"))
	f.waitMembers(1)
	first.end(t)
	foreign := filepath.Join(f.dir(), "journal", "1", "7.log")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	err := f.run(f.options("m1"), echo("m1")).result(t, 10*time.Second)
	if !errors.Is(err, bot.ErrState) || !strings.Contains(err.Error(), "7.log") {
		t.Errorf("error %v, want ErrState that names 7.log", err)
	}
	f.stopped(t)
	places, err := filepath.Glob(filepath.Join(f.dir(), "journal", "*", "7.log"))
	if err != nil || len(places) != 1 {
		t.Fatalf("the foreign file is gone: %v %v", places, err)
	}
	if err := os.Remove(places[0]); err != nil {
		t.Fatal(err)
	}
	say(t, server, 42, "hello")
	f.run(f.options("m2"), echo("m2"))
	waitSent(t, server, 3*time.Second, "m2 hello")
}

// TestF53ForeignJournal: a plain file in the journal's place ends the member
// before it has a lease, and stays as it is.
func TestF53ForeignJournal(t *testing.T) {
	t.Parallel()
	f, _ := newFleet(t)
	if err := os.MkdirAll(f.dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	journal := filepath.Join(f.dir(), "journal")
	if err := os.WriteFile(journal, []byte("not ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := f.run(f.options("m1"), echo("m1")).result(t, 10*time.Second)
	if !errors.Is(err, bot.ErrState) || !strings.Contains(err.Error(), journal) {
		t.Errorf("error %v, want ErrState that names %s", err, journal)
	}
	f.stopped(t)
	if text, _ := os.ReadFile(journal); !bytes.Equal(text, []byte("not ours")) {
		t.Error("the foreign file was touched")
	}
}

// TestS4SocketRemoved: the leader makes its socket anew under the same term, and
// polls on; followers stay.
func TestS4SocketRemoved(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	f.run(f.options("m1"), echo("m"))
	f.waitMembers(1)
	f.run(f.options("m2"), echo("m"))
	f.waitMembers(2)
	e, _ := f.leader()
	if err := os.RemoveAll(filepath.Join(f.dir(), "sockets")); err != nil {
		t.Fatal(err)
	}
	_, since := count(server, "getUpdates", 0)
	eventually(t, 2*time.Second, func() string {
		sockets, _ := filepath.Glob(filepath.Join(f.dir(), "sockets", "*.sock"))
		if len(sockets) != 2 {
			return fmt.Sprintf("sockets: %v", sockets)
		}
		return ""
	})
	say(t, server, 42, "hello")
	waitSent(t, server, 5*time.Second, "m hello")
	if s := f.status(); s.Term != e.Epoch || len(s.Members) != 2 {
		t.Errorf("status %+v", s)
	}
	if n, _ := count(server, "getUpdates", since); n > 3 {
		t.Errorf("polling was touched: %d polls", n)
	}
	f.run(f.options("m3"), echo("m"))
	f.waitMembers(3)
}

// TestF47ForeignFileForASocket: a plain file in the place of the leader's socket
// is named and left alone; nobody is promoted although the bus cannot be reached
// (S7); once the file is gone the socket is there again and the member joins.
func TestF47ForeignFileForASocket(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	f.run(f.options("m1"), echo("m1"))
	say(t, server, 42, "first")
	waitSent(t, server, 10*time.Second, "m1 first")
	e, _ := f.leader()
	socket := bot.Target(f.dir(), e).Socket
	if err := errors.Join(os.Remove(socket), os.WriteFile(socket, []byte("not ours"), 0o600)); err != nil {
		t.Fatal(err)
	}
	f.run(f.options("m2"), echo("m2"))
	time.Sleep(2500 * time.Millisecond)
	if now, _ := f.leader(); now.Epoch != 1 || now.InstanceID != e.InstanceID {
		t.Errorf("S7: %s leads under term %d", now.Name, now.Epoch)
	}
	if text, _ := os.ReadFile(socket); string(text) != "not ours" {
		t.Error("the foreign file was touched")
	}
	if n := strings.Count(f.output.String(), socket+" is not a socket"); n != 1 {
		t.Errorf("the foreign file was named %d times, want once", n)
	}
	say(t, server, 42, "hello")
	waitSent(t, server, 5*time.Second, "m1 hello")
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	f.waitMembers(2)
}

// TestF24TwoBots: bots of one state directory never meet, and a new secret of a
// bot finds its old state.
func TestF24TwoBots(t *testing.T) {
	const other = "222:AAanother-bot-of-this-test-0000000000"
	server, err := botapitest.New(botapitest.Options{NoLimits: true, Bots: []botapitest.BotOptions{
		{Token: botapitest.DefaultToken}, {Token: other},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	running, err := server.Start("")
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	f, _ := newFleet(t)
	if err := os.CopyFS(f.state, os.DirFS(oldState(t))); err != nil {
		t.Fatal(err)
	}
	f.server, f.api = server, running.URL
	server.SetChat(botapitest.Chat{ID: 43})
	g := *f
	g.token = other
	second := g.run(g.options("222"), echo("222"))
	if _, err := server.BotByID(222).Say(botapitest.Message{User: 42, Text: "hello"}); err != nil {
		t.Fatal(err)
	}
	waitSent(t, server, 10*time.Second, "222 hello")
	g.waitPending(0)
	if s := g.status(); s.BotID != 222 || s.Term != 1 {
		t.Errorf("status of 222: %+v", s)
	}
	first := f.run(f.options("111"), echo("111"))
	waitSent(t, server, 10*time.Second, "111 pending")
	if s := f.status(); s.Term != 2 {
		t.Errorf("term %d, want the one after the old state's", s.Term)
	}
	if s := g.status(); s.Term != 1 {
		t.Errorf("222 leads under term %d", s.Term)
	}
	first.end(t)
	second.end(t)
}
