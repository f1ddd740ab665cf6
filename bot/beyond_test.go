package bot_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tgbridge/bot"
	"tgbridge/bus"
	"tgbridge/internal/botapitest"
)

// resume copies the state that oldState made into a new fleet.
func resume(t *testing.T, old string) (*fleet, *botapitest.Server) {
	t.Helper()
	f, server := newFleet(t)
	if err := os.CopyFS(f.state, os.DirFS(old)); err != nil {
		t.Fatal(err)
	}
	for _, chat := range []int64{42, 43} {
		server.SetChat(botapitest.Chat{ID: chat})
	}
	return f, server
}

// resumed checks that the member m2 handles what was pending and what is new,
// and nothing that was done.
func resumed(t *testing.T, server *botapitest.Server) {
	t.Helper()
	say(t, server, 44, "new")
	waitSent(t, server, 15*time.Second, "m2 pending", "m2 new")
	if sentTexts(server)["m2 done"] > 0 {
		t.Error("what was acknowledged and confirmed came back")
	}
}

// TestS16TermsBeyond: terms that there cannot be, wherever they stand, keep
// nobody from leading, and use up no numbers; who reads the log learns where the
// damage is.
func TestS16TermsBeyond(t *testing.T) {
	old := oldState(t)
	const most = "9007199254740990"
	inMember := func(dir string) error {
		return editAll(filepath.Join(dir, theMembers), `"term":\d+`, `"term":`+most)
	}
	inLease := func(dir string) error {
		return editAll(filepath.Join(dir, theRegistry), `"leaderEpoch":\d+`, `"leaderEpoch":`+most)
	}
	inHeldLease := func(dir string) error {
		return editAll(filepath.Join(dir, theRegistry), `"leaderEpoch":\d+`, `"pid":1,"instanceId":"gone","bootId":"other","leaderEpoch":`+most)
	}
	inJournal := func(dir string) error { return os.MkdirAll(filepath.Join(dir, "journal", most, "x"), 0o700) }
	large := func(dir string) error { return os.Truncate(filepath.Join(dir, theRegistry), 16<<20+1) }
	tests := []struct {
		name   string
		damage []func(dir string) error
		told   []string // what of paths
	}{
		{"member file", []func(string) error{inMember}, nil},
		{"released lease", []func(string) error{inLease}, []string{"locks.json.damaged."}},
		{"held lease", []func(string) error{inHeldLease}, []string{"locks.json.damaged."}},
		{"journal", []func(string) error{inJournal}, []string{filepath.Join("journal", most)}},
		{"everywhere", []func(string) error{inMember, inLease, inJournal}, []string{"locks.json.damaged.", filepath.Join("journal", most)}},
		{"registry of more than 16 MiB", []func(string) error{large}, []string{"locks.json.damaged."}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, server := resume(t, old)
			for _, damage := range tt.damage {
				if err := damage(f.dir()); err != nil {
					t.Fatal(err)
				}
			}
			f.run(f.options("m2"), echo("m2"))
			f.run(f.options("m3"), echo("m2"))
			f.waitMembers(2)
			resumed(t, server)
			if e, _ := f.leader(); e.Epoch != 2 {
				t.Errorf("term %d, want 2", e.Epoch)
			}
			for _, path := range tt.told {
				if n := strings.Count(f.output.String(), filepath.Join(f.dir(), path)); n != 1 {
					t.Errorf("%s was told %d times, want once", path, n)
				}
			}
		})
	}
}

// TestS16TermsBeyondUnderALeader: the same under a leader and a follower. What
// the leader holds or does not count it goes on with; a lease that was damaged is
// lost, as in a registry of more than 16 MiB, and one of them leads again under
// the next term.
func TestS16TermsBeyondUnderALeader(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	members := []*local{f.run(f.options("m1"), echo("m")), f.run(f.options("m2"), echo("m"))}
	f.waitMembers(len(members))
	said := 0
	answered := func(term uint64) {
		t.Helper()
		said++
		say(t, server, 42, fmt.Sprint("hello ", said))
		waitSent(t, server, 20*time.Second, fmt.Sprint("m hello ", said))
		if e, held := f.leader(); held && e.Epoch != term {
			t.Errorf("term %d, want %d", e.Epoch, term)
		}
		f.waitMembers(len(members))
	}
	const most = "9007199254740990"
	err := errors.Join(
		editAll(filepath.Join(f.dir(), theMembers), `"term":1`, `"term":`+most),
		os.MkdirAll(filepath.Join(f.dir(), "journal", most, "x"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(2500 * time.Millisecond) // two checks of everything
	answered(1)
	for i, damage := range []func() error{
		func() error {
			return editAll(filepath.Join(f.dir(), theRegistry), `"leaderEpoch":1`, `"leaderEpoch":`+most)
		},
		func() error { return os.Truncate(filepath.Join(f.dir(), theRegistry), 16<<20+1) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		next := uint64(i + 2)
		eventually(t, 15*time.Second, func() string {
			if e, held := f.leader(); !held || e.Epoch != next {
				return fmt.Sprintf("term %d, want %d", e.Epoch, next)
			}
			return ""
		})
		f.waitMembers(len(members))
		answered(next)
	}
	if n := strayPolls(server); n > 0 {
		t.Errorf("G1: %d polls of a deposed leader", n)
	}
	for _, m := range members {
		select {
		case <-m.done:
			t.Errorf("%s ended: %v", m.name, m.err)
		default:
		}
	}
}

// TestTermBeyondInJoin: a member that says it saw such a term is refused, and the
// leader does not rise above it.
func TestTermBeyondInJoin(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	f.run(f.options("m1"), echo("m1"))
	f.waitMembers(1)
	lead, _ := f.leader()
	c := f.client(lead)
	defer c.Close()
	for _, highest := range []uint64{1<<51 + 1, 1 << 52, math.MaxUint64} {
		_, err := c.Join(t.Context(), bus.JoinRequest{
			Instance: "test-command", Name: "other", HighestTerm: highest, Concurrency: 1, Settings: bot.SettingsOf(f.options("other")),
		})
		if !bus.IsRefused(err, bus.CodeBody) {
			t.Errorf("%d: %v, want a refusal", highest, err)
		}
	}
	say(t, server, 42, "hello")
	waitSent(t, server, 10*time.Second, "m1 hello")
	if e, _ := f.leader(); !e.SameOwner(lead) {
		t.Errorf("term %d, want %d", e.Epoch, lead.Epoch)
	}
}

// TestHighestTermOfAll: lock, journal and bus mean the same by it.
func TestHighestTermOfAll(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	const highest = "4503599627370495" // 2^52 - 1: there is one above it
	if err := os.MkdirAll(filepath.Join(f.dir(), "journal", highest), 0o700); err != nil {
		t.Fatal(err)
	}
	f.run(f.options("m1"), echo("m"))
	f.run(f.options("m2"), echo("m"))
	f.waitMembers(2)
	say(t, server, 42, "hello")
	waitSent(t, server, 10*time.Second, "m hello")
	if e, _ := f.leader(); e.Epoch != 1<<52 {
		t.Errorf("term %d, want 2^52", e.Epoch)
	}
}

// editAll replaces what a pattern matches in each file that a glob names, in
// place: a member's file stays the one that is locked. It has to be there.
func editAll(files, pattern, by string) error {
	paths, err := filepath.Glob(files)
	if err != nil || len(paths) == 0 {
		return fmt.Errorf("%s: no such file (%w)", files, err)
	}
	expression := regexp.MustCompile(pattern)
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		edited := expression.ReplaceAll(content, []byte(by))
		if bytes.Equal(edited, content) {
			return fmt.Errorf("%s: nothing like %s", path, pattern)
		}
		if err := os.WriteFile(path, edited, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// TestS16LeaseMisnamesItsHolder: a lease that somebody edited, so that it names a
// live member not exactly, is held by nobody. Nobody else can know that, so the
// member that it names takes it, at once, whether it is alone or not. A lease that
// names nobody's instance is taken when its owner's beat was absent for stale-after.
func TestS16LeaseMisnamesItsHolder(t *testing.T) {
	edits := []struct{ name, pattern, with string }{
		{"epoch broken", `"leaderEpoch":\d+`, `"leaderEpoch":1.5`},
		{"epoch a text", `"leaderEpoch":\d+`, `"leaderEpoch":"7"`},
		{"epoch zero", `"leaderEpoch":\d+`, `"leaderEpoch":0`},
		{"epoch missing", `"leaderEpoch":\d+,`, ``},
		{"epoch higher", `"leaderEpoch":\d+`, `"leaderEpoch":40`},
		{"cwd", `"cwd":"[^"]*"`, `"cwd":"/elsewhere"`},
		{"generation", `"runtimeGeneration":\d+`, `"runtimeGeneration":4102444800000`},
		{"pid", `"pid":\d+`, `"pid":1`},
		{"instance of nobody", `"instanceId":"[^"]*"`, `"instanceId":"nobody"`},
		{"no instance, other cwd", `"cwd":"[^"]*","instanceId":"[^"]*"`, `"cwd":"/elsewhere"`},
		{"instance of a follower", "", ""},
	}
	for _, members := range []int{1, 3} {
		t.Run(fmt.Sprint("of ", members), func(t *testing.T) {
			t.Parallel()
			f, server := newFleet(t)
			for range members {
				f.run(f.options("m"), echo("m"))
			}
			f.waitMembers(members)
			for i, edit := range edits {
				e, held := f.leader()
				if !held {
					t.Fatal("nobody leads")
				}
				if edit.pattern == "" {
					if members == 1 {
						continue
					}
					edit.pattern, edit.with = e.InstanceID, anotherMember(t, f.dir(), e.InstanceID)
				}
				if err := editAll(filepath.Join(f.dir(), theRegistry), edit.pattern, edit.with); err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				text := fmt.Sprint("hello ", i)
				say(t, server, 42, text)
				waitSent(t, server, 15*time.Second, "m "+text)
				t.Logf("%s: answered after %v", edit.name, time.Since(begin))
				f.waitMembers(members)
				if now, held := f.leader(); !held || now.Epoch <= e.Epoch {
					t.Errorf("%s: term %d (held: %v) after %d", edit.name, now.Epoch, held, e.Epoch)
				}
			}
		})
	}
}

// anotherMember returns the instance of a member in a bot's directory, but not that
// one.
func anotherMember(t *testing.T, dir, instance string) string {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(dir, "members"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := f.Name(); name != instance && name[0] != '.' {
			return name
		}
	}
	t.Fatal("there is no other member")
	return ""
}
