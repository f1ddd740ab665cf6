package bot_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tgbridge/bot"
	"tgbridge/internal/botapitest"
	"tgbridge/polling"
)

// A smallDisk is a file system of its own for the state of a fleet.
type smallDisk struct {
	t       *testing.T
	mount   string
	ballast string // a file that takes the space
}

// onSmallDisk gives the fleet a disk of so many bytes.
func (f *fleet) onSmallDisk(size int) *smallDisk {
	f.t.Helper()
	if os.Getuid() != 0 {
		f.t.Skip("mounting a tmpfs needs root")
	}
	d := &smallDisk{t: f.t, mount: f.t.TempDir()}
	if err := syscall.Mount("tmpfs", d.mount, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		f.t.Skipf("mount a tmpfs: %v", err)
	}
	f.t.Cleanup(func() { _ = syscall.Unmount(d.mount, syscall.MNT_DETACH) })
	d.ballast = filepath.Join(d.mount, "ballast")
	f.state = filepath.Join(d.mount, "state")
	return d
}

// leave fills the disk up to so many bytes.
func (d *smallDisk) leave(space int64) {
	d.t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(d.mount, &s); err != nil {
		d.t.Fatal(err)
	}
	var has int64
	if info, err := os.Stat(d.ballast); err == nil {
		has = info.Size()
	}
	if has += int64(s.Bavail)*s.Bsize - space; has < 0 {
		d.t.Fatalf("the disk is too small to leave %d", space)
	}
	old, _ := os.ReadFile(d.ballast)
	if err := os.WriteFile(d.ballast, append(old, make([]byte, max(0, has-int64(len(old))))...)[:has], 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// waitPoll waits until the leader's polling is in a state.
func (f *fleet) waitPoll(state string) {
	f.t.Helper()
	eventually(f.t, 10*time.Second, func() string {
		if s := f.status(); s.Poll.State != state {
			return fmt.Sprintf("polling: %+v, want %s", s.Poll, state)
		}
		return ""
	})
}

// waitJournal waits until the leader says of its journal what contains text; ""
// is nothing.
func (f *fleet) waitJournal(text string) {
	f.t.Helper()
	eventually(f.t, 10*time.Second, func() string {
		s := f.status()
		if !strings.Contains(s.JournalError, text) || text == "" && s.JournalError != "" {
			return fmt.Sprintf("the journal: %q, want %q", s.JournalError, text)
		}
		return ""
	})
}

// TestFullDiskFindsNothingTwice: a batch that a full disk refused in half, and
// took once there was little space, is found once by the next leader.
func TestFullDiskFindsNothingTwice(t *testing.T) {
	f, server := newFleet(t)
	disk := f.onSmallDisk(4 << 20)
	var mu sync.Mutex
	handled := map[string]int{}
	hold := make(chan struct{})
	h := bot.HandlerFunc(func(ctx context.Context, u *bot.Update) (bot.Reply, error) {
		name, _, _ := strings.Cut(u.Text(), " ")
		mu.Lock()
		handled[name]++
		mu.Unlock()
		if strings.HasPrefix(name, "old") {
			select {
			case <-hold:
			case <-ctx.Done():
				return bot.Reply{}, context.Cause(ctx)
			}
		}
		return bot.Reply{}, nil
	})
	f.run(f.options("m1"), h)
	f.waitMembers(1)
	f.run(f.options("m2"), h)
	f.waitMembers(2)
	const old, fresh = 300, 60
	big := strings.Repeat("y", 4000)
	for i := range old { // 1.2 MB, in three lanes
		say(t, server, 100+int64(i%3), fmt.Sprintf("old%d %s", i, big))
	}
	f.waitPending(old)
	disk.leave(100 << 10) // less than half of the batch
	var batch []botapitest.Message
	for i := range fresh {
		batch = append(batch, botapitest.Message{User: 200 + int64(i), Text: fmt.Sprintf("new%d %s", i, big)})
	}
	if _, err := server.SayAll(batch); err != nil {
		t.Fatal(err)
	}
	f.waitPoll(polling.StateWaiting)
	disk.leave(700 << 10) // less than a snapshot needs
	runs := func() (distinct, all int) {
		mu.Lock()
		defer mu.Unlock()
		for name, n := range handled {
			if strings.HasPrefix(name, "new") {
				distinct, all = distinct+1, all+n
			}
		}
		return distinct, all
	}
	eventually(t, 20*time.Second, func() string {
		if n, _ := runs(); n != fresh {
			return fmt.Sprintf("%d of %d are handled", n, fresh)
		}
		return ""
	})
	f.waitPending(old)
	disk.leave(2 << 20)
	before, _ := f.leader()
	if err := f.handover(""); err != nil {
		t.Fatal(err)
	}
	f.waitLeader(before.InstanceID)
	f.waitPending(old) // what was found twice is handled by then
	if n, all := runs(); all != n {
		t.Errorf("%d updates were handled again", all-n)
	}
	close(hold)
}

// TestFullDiskKeepsOrder: outcomes wait while the disk is full, nothing is run
// again, and replies come in the order of their lane once there is space.
func TestFullDiskKeepsOrder(t *testing.T) {
	f, server := newFleet(t)
	disk := f.onSmallDisk(1 << 20)
	hold := make(chan struct{})
	h := bot.HandlerFunc(func(ctx context.Context, u *bot.Update) (bot.Reply, error) {
		select {
		case <-hold:
		case <-ctx.Done():
			return bot.Reply{}, context.Cause(ctx)
		}
		name, _, _ := strings.Cut(u.Text(), " ")
		return bot.Reply{Text: "re: " + name + strings.Repeat(" y", 1500)}, nil
	})
	f.run(f.options("m1"), h)
	f.run(f.options("m2"), h)
	f.waitMembers(2)
	const chats, each = 5, 3
	for i := range each {
		for chat := range chats {
			say(t, server, 100+int64(chat), fmt.Sprintf("%d.%d", chat, i))
		}
	}
	f.waitPending(chats * each)
	disk.leave(0)
	close(hold)
	say(t, server, 99, "refused"+strings.Repeat(" x", 2000)) // more than a page
	f.waitPoll(polling.StateWaiting)
	f.waitJournal("no space left")
	disk.leave(512 << 10)
	f.waitPending(0)
	f.waitJournal("")
	eventually(t, 10*time.Second, func() string {
		if n := len(sentTexts(server)); n != chats*each+1 {
			return fmt.Sprintf("%d replies", n)
		}
		return ""
	})
	events, _ := server.Ledger(0)
	sent := map[int64][]string{}
	for _, e := range events {
		if e.Kind == botapitest.EventSent {
			text, _, _ := strings.Cut(strings.TrimPrefix(e.Text, "re: "), " ")
			sent[e.Chat] = append(sent[e.Chat], text)
		}
	}
	for chat := range chats {
		want := []string{fmt.Sprintf("%d.0", chat), fmt.Sprintf("%d.1", chat), fmt.Sprintf("%d.2", chat)}
		if got := sent[100+int64(chat)]; !slices.Equal(got, want) {
			t.Errorf("chat %d got %v, want %v", chat, got, want)
		}
	}
	before, _ := f.leader()
	if err := f.handover(""); err != nil {
		t.Fatal(err)
	}
	f.waitLeader(before.InstanceID)
	f.waitPending(0)
}

// TestFullDiskDoesNotEndTheTerm: a batch of which nothing is to be recorded, as
// its sender is denied, is waited with like any other while the disk is full.
func TestFullDiskDoesNotEndTheTerm(t *testing.T) {
	f, server := newFleet(t)
	disk := f.onSmallDisk(1 << 20)
	hold := make(chan struct{})
	o := f.options("m1")
	o.AllowAll, o.AllowedUsers = false, []int64{42}
	f.run(o, bot.HandlerFunc(func(ctx context.Context, _ *bot.Update) (bot.Reply, error) {
		select {
		case <-hold:
		case <-ctx.Done():
			return bot.Reply{}, context.Cause(ctx)
		}
		return bot.Reply{Text: strings.Repeat("long ", 1000)}, nil // more than a page
	}))
	f.waitMembers(1)
	say(t, server, 42, "hello")
	f.waitPending(1)
	disk.leave(0)
	close(hold)
	f.waitJournal("no space left")
	say(t, server, 43, "denied")
	f.waitPoll(polling.StateWaiting)
	disk.leave(512 << 10)
	f.waitPending(0)
	f.waitPoll(polling.StatePolling)
	if s := f.status(); s.Term != 1 {
		t.Errorf("term %d, want the first", s.Term)
	}
}
