package bot_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tgbridge/bot"
	"tgbridge/lock"
)

// TestS14Sweep: of a state directory where everything is old a leader removes the
// file and the socket of the dead member, and nothing else: no live member's, no
// journal, no registry, and nothing that is not of tgbridge's own forms.
func TestS14Sweep(t *testing.T) {
	f, server := newFleet(t)
	dead := f.start("m0")
	f.waitMembers(1)
	e, _ := f.leader()
	dead.signal(t, syscall.SIGKILL)
	dead.wait(t, 5*time.Second)
	leader := f.run(f.options("m1"), echo("m1"))
	f.waitLeader(e.InstanceID)
	follower := f.start("m2")
	f.waitMembers(2)
	for _, name := range []string{"notes.txt", "members/notes.txt", "sockets/other.sock", "journal/notes", "locks.json.old", "sockets/" + e.InstanceID} {
		if err := os.WriteFile(filepath.Join(f.dir(), name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	daysAgo := time.Now().Add(-72 * time.Hour)
	before := f.files()
	for _, name := range before {
		if err := os.Chtimes(filepath.Join(f.dir(), name), daysAgo, daysAgo); err != nil {
			t.Fatal(err)
		}
	}
	if !bot.Sweep(leader.Bridge) {
		t.Fatal("m1 does not lead")
	}
	want := slices.DeleteFunc(slices.Clone(before), func(name string) bool {
		return name == "members/"+e.InstanceID || name == "sockets/"+e.InstanceID+".sock"
	})
	if len(want) != len(before)-2 {
		t.Fatalf("the dead member left nothing: %v", before)
	}
	if after := f.files(); !slices.Equal(after, want) {
		t.Errorf("left:\n%s\nwant:\n%s", strings.Join(after, "\n"), strings.Join(want, "\n"))
	}
	follower.signal(t, syscall.SIGSTOP) // alive, and silent for no hour
	bot.Sweep(leader.Bridge)
	if after := f.files(); !slices.Equal(after, want) {
		t.Errorf("left after a member was stopped:\n%s", strings.Join(after, "\n"))
	}
	follower.signal(t, syscall.SIGCONT)
	say(t, server, 42, "hello")
	eventually(t, 10*time.Second, func() string {
		if len(sentTo(server, 42)) != 1 {
			return "no answer"
		}
		return ""
	})
}

// TestG10ManyDeadMembers: while members die often, their files are removed after a
// minute, for each who acquires the lease reads them all; files of the last
// minute stay.
func TestG10ManyDeadMembers(t *testing.T) {
	t.Parallel()
	f, _ := newFleet(t)
	leader := f.run(f.options("m1"), echo("m1"))
	f.waitMembers(1)
	const dead = 70
	minutesAgo := time.Now().Add(-2 * time.Minute)
	for i := range dead {
		m, err := lock.OpenMember(lock.MemberOptions{Dir: f.dir()})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if err := os.Chtimes(filepath.Join(f.dir(), "members", m.Instance()), minutesAgo, minutesAgo); err != nil {
				t.Fatal(err)
			}
		}
	}
	members := func() int {
		return len(slices.DeleteFunc(f.files(), func(name string) bool { return !strings.HasPrefix(name, "members/") }))
	}
	if !bot.Sweep(leader.Bridge) {
		t.Fatal("m1 does not lead")
	}
	if got, want := members(), dead/2+1; got != want {
		t.Errorf("%d files of members are left, want %d", got, want)
	}
	bot.Sweep(leader.Bridge)
	if got, want := members(), dead/2+1; got != want {
		t.Errorf("%d files of members are left without a crowd, want %d", got, want)
	}
}

// files returns the names of all that is in the bot's directory but directories,
// sorted.
func (f *fleet) files() []string {
	f.t.Helper()
	var names []string
	err := filepath.WalkDir(f.dir(), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(f.dir(), path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return names
}
