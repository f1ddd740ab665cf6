package bot_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"tgbridge/bot"
	"tgbridge/bus"
	"tgbridge/internal/botapitest"
	"tgbridge/lock"
)

// handover asks the leader to hand over, and returns its answer.
func (f *fleet) handover(to string) error {
	f.t.Helper()
	e, held := f.leader()
	if !held {
		return fmt.Errorf("nobody leads")
	}
	c := f.client(e)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return c.Handover(ctx, to)
}

// pollGap is the time between the end of the last poll before an instant of the
// server's clock, and the beginning of the first one without an offset after it.
func pollGap(t *testing.T, server *botapitest.Server, after time.Duration) time.Duration {
	t.Helper()
	return firstPoll(t, server, after) - after
}

// TestG4Handover: to anybody, to a name, back again, under load: no 409, no gap,
// each message answered once, followers stay, and sockets too (F49).
func TestG4Handover(t *testing.T) {
	f, server := newFleet(t)
	names := []string{"m1", "m2", "m3"}
	for i, name := range names {
		f.run(f.options(name), echo(name))
		f.waitMembers(i + 1)
	}
	const chats, perChat = 6, 40
	loaded := load(t, server, chats, perChat)
	var gaps []time.Duration
	for _, to := range []string{"", "m3", "m1", "m2", ""} {
		time.Sleep(150 * time.Millisecond)
		before, _ := f.leader()
		if to == before.Name {
			continue
		}
		asked := server.Now()
		if err := f.handover(to); err != nil {
			t.Fatalf("handover to %q: %v", to, err)
		}
		e := f.waitLeader(before.InstanceID)
		if to != "" && e.Name != to {
			t.Errorf("%s leads, want %s", e.Name, to)
		}
		if e.Epoch != before.Epoch+1 {
			t.Errorf("term %d follows %d", e.Epoch, before.Epoch)
		}
		gaps = append(gaps, pollGap(t, server, asked))
		f.waitMembers(3)
	}
	<-loaded
	if doubled := waitAnswered(t, server, chats, perChat); len(doubled) > 0 {
		t.Errorf("answered twice: %v", doubled)
	}
	if n := conflicts(server); n > 0 {
		t.Errorf("%d polls were answered with 409", n)
	}
	if n := strayPolls(server); n > 0 {
		t.Errorf("G1: %d polls of a deposed leader", n)
	}
	slices.Sort(gaps)
	t.Logf("gaps: %v", gaps)
	if median := gaps[len(gaps)/2]; median > time.Second { // 30 ms on a machine that does nothing else
		t.Errorf("median gap %v", median)
	}
	if sockets, _ := filepath.Glob(filepath.Join(f.dir(), "sockets", "*.sock")); len(sockets) != 3 {
		t.Errorf("F49: sockets: %v", sockets)
	}
}

// TestHandoverRefused: with nobody there, or nobody of that name, the leader
// keeps the lease and says what to do; a follower does not take the request.
func TestHandoverRefused(t *testing.T) {
	f, server := newFleet(t)
	f.run(f.options("m1"), echo("m1"))
	f.waitMembers(1)
	for _, to := range []string{"", "m1", "m9"} {
		err := f.handover(to)
		if !bus.IsRefused(err, bus.CodeNobody) || !strings.Contains(err.Error(), "start one") {
			t.Errorf("to %q: error %v, want it refused", to, err)
		}
	}
	f.run(f.options("m2"), echo("m2"))
	f.waitMembers(2)
	if err := f.handover("m9"); !bus.IsRefused(err, bus.CodeNobody) || !strings.Contains(err.Error(), `"m9"`) {
		t.Errorf("error %v, want it refused", err)
	}
	if err := f.handover("m1"); !bus.IsRefused(err, bus.CodeNobody) {
		t.Errorf("to itself: error %v, want it refused", err)
	}
	if e, _ := f.leader(); e.Epoch != 1 {
		t.Errorf("term %d", e.Epoch)
	}
	say(t, server, 42, "hello")
	eventually(t, 5*time.Second, func() string {
		if sent := sentTexts(server); len(sent) != 1 {
			return fmt.Sprintf("sent: %v", sent)
		}
		return ""
	})
}

// TestHandoverSkipsFrozenMembers: with nobody else than a frozen member a handover
// is refused, by its name too; it goes to one that gets on, and to the other when
// that is thawed.
func TestHandoverSkipsFrozenMembers(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	leader := f.start("m1", quickSetting(t))
	f.waitMembers(1)
	frozen := f.start("m2", quickSetting(t))
	f.waitMembers(2)
	frozen.signal(t, syscall.SIGSTOP)
	eventually(t, 20*time.Second, func() string {
		for _, m := range f.status().Members {
			// The leader looks at members more often than each second.
			if m.Name == "m2" && m.Hung && time.Since(m.LastSeen) > 2500*time.Millisecond {
				return ""
			}
		}
		return "m2 does not count as hung"
	})
	for _, to := range []string{"", "m2"} {
		if err := f.handover(to); !bus.IsRefused(err, bus.CodeNobody) {
			t.Errorf("to %q: error %v, want it refused", to, err)
		}
	}
	if e, _ := f.leader(); e.PID != leader.pid() || e.Epoch != 1 {
		t.Fatalf("%q leads, term %d", e.Name, e.Epoch)
	}
	f.start("m3", quickSetting(t))
	f.waitMembers(3)
	leads := func(name string) {
		t.Helper()
		eventually(t, 10*time.Second, func() string {
			if e, held := f.leader(); !held || e.Name != name {
				return fmt.Sprintf("%q leads, want %s", e.Name, name)
			}
			return ""
		})
	}
	if err := f.handover(""); err != nil {
		t.Fatal(err)
	}
	leads("m3")
	frozen.signal(t, syscall.SIGCONT)
	f.waitMembers(3)
	if err := f.handover("m2"); err != nil {
		t.Fatal(err)
	}
	leads("m2")
	say(t, server, 42, "hello")
	eventually(t, 10*time.Second, func() string {
		if sent := sentTexts(server); len(sent) != 1 {
			return fmt.Sprintf("sent: %v", sent)
		}
		return ""
	})
}

// TestHandoverWithWorkInHand: work is carried on by the member that has it, not
// run again, when leadership moves away from it and to it (G3).
func TestHandoverWithWorkInHand(t *testing.T) {
	f, server := newFleet(t)
	var mu sync.Mutex
	runs := map[string]int{}
	release := make(chan struct{})
	handler := func(name string) bot.Handler {
		return bot.HandlerFunc(func(_ context.Context, u *bot.Update) (bot.Reply, error) {
			mu.Lock()
			runs[u.Text()]++
			mu.Unlock()
			<-release
			return bot.Reply{Text: fmt.Sprintf("%s in attempt %d", u.Text(), u.Attempt())}, nil
		})
	}
	for i, name := range []string{"m1", "m2", "m3"} {
		f.run(f.options(name), handler(name))
		f.waitMembers(i + 1)
	}
	const n = 30
	var want []string
	for i := range n {
		text := fmt.Sprint("w", i)
		say(t, server, int64(100+i), text)
		want = append(want, text+" in attempt 1")
	}
	eventually(t, 5*time.Second, func() string {
		inFlight := 0
		for _, m := range f.status().Members {
			inFlight += m.InFlight
		}
		if inFlight != n {
			return fmt.Sprintf("%d are in hand", inFlight)
		}
		return ""
	})
	for range 3 {
		before, _ := f.leader()
		if err := f.handover(""); err != nil {
			t.Fatal(err)
		}
		f.waitLeader(before.InstanceID)
		f.waitMembers(3)
	}
	close(release)
	waitSent(t, server, 10*time.Second, want...)
	mu.Lock()
	defer mu.Unlock()
	for text, times := range runs {
		if times != 1 {
			t.Errorf("%s was run %d times", text, times)
		}
	}
}

// TestG3ExactlyOnce: members join and leave, leaders hand over, all under load,
// and nobody is killed: each message is handled and answered once.
func TestG3ExactlyOnce(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	var mu sync.Mutex
	handled := map[string][]string{}
	handler := func(name string) bot.Handler {
		return bot.HandlerFunc(func(_ context.Context, u *bot.Update) (bot.Reply, error) {
			mu.Lock()
			handled[u.Text()] = append(handled[u.Text()], fmt.Sprintf("%s by %s in attempt %d", u.Delivery(), name, u.Attempt()))
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			return bot.Reply{Text: name + " " + u.Text()}, nil
		})
	}
	start := func(name string) *local {
		return f.run(f.options(name), handler(name))
	}
	members := []*local{start("a"), start("b"), start("c")}
	f.waitMembers(3)
	const chats, perChat = 10, 80
	loaded := load(t, server, chats, perChat)
	for i := range 5 {
		time.Sleep(200 * time.Millisecond)
		before, _ := f.leader()
		if err := f.handover(""); err != nil {
			t.Errorf("handover %d: %v", i, err)
		}
		f.waitLeader(before.InstanceID)
		members = append(members, start(fmt.Sprint("n", i)))
		members[0].end(t)
		members = members[1:]
	}
	<-loaded
	if doubled := waitAnswered(t, server, chats, perChat); len(doubled) > 0 {
		t.Errorf("answered twice: %v", doubled)
	}
	mu.Lock()
	defer mu.Unlock()
	for text, times := range handled {
		if len(times) != 1 {
			t.Errorf("%s was handled more than once: %v", text, times)
		}
	}
	if n := conflicts(server); n > 0 {
		t.Errorf("%d polls were answered with 409", n)
	}
	if n := strayPolls(server); n > 0 {
		t.Errorf("G1: %d polls of a deposed leader", n)
	}
}

// TestForcedHandoverIsNoRival: the poll of the member whose lease was taken by
// force is ended by its successor's with a 409; nobody is told to look for
// another program (F7).
func TestForcedHandoverIsNoRival(t *testing.T) {
	f, server := newFleet(t)
	for i, name := range []string{"m1", "m2"} {
		f.run(f.options(name), echo(name))
		f.waitMembers(i + 1)
	}
	e, _ := f.leader()
	f.takeLease(e)
	f.poll(context.Background(), 1) // as a successor's that comes before the check of the one that lost
	eventually(t, 15*time.Second, func() string {
		if now, held := f.leader(); !held || now.Epoch <= e.Epoch {
			return "nobody leads since"
		}
		return ""
	})
	f.waitMembers(2)
	text := "still there"
	say(t, server, 42, text)
	eventually(t, 10*time.Second, func() string {
		if sent := sentTexts(server); len(sent) != 1 {
			return fmt.Sprintf("sent: %v", sent)
		}
		return ""
	})
	if conflicts(server) == 0 {
		t.Error("no poll was answered with 409")
	}
	if n := f.warnings("another program polls"); n != 0 {
		t.Errorf("a rival was looked for %d times", n)
	}
	if n := f.status().Poll.Conflicts; n != 0 {
		t.Errorf("the leader counts %d conflicts", n)
	}
}

// takeLease takes the lease from its owner and releases it, as handover --force does.
func (f *fleet) takeLease(owner lock.Entry) {
	f.t.Helper()
	m, err := lock.OpenMember(lock.MemberOptions{Dir: f.dir(), Instance: uuid.NewString(), Name: "handover", Role: lock.RoleCommand})
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	err = lock.TakeFrom(context.Background(), lock.Options{
		Dir: f.dir(), Key: bot.LeaseKey(botID(f.token)), Member: m,
		Observer: lock.NewObserver(lock.ObserverOptions{Dir: f.dir(), Host: lock.ThisHost(), LocksBelieved: m.LocksBelieved()}),
	}, owner)
	if err != nil {
		f.t.Fatal(err)
	}
}

// poll polls as another program does, and confirms nothing.
func (f *fleet) poll(ctx context.Context, timeout int) {
	f.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/bot%s/getUpdates?timeout=%d", f.api, f.token, timeout), nil)
	if err != nil {
		f.t.Error(err)
		return
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if resp, err := client.Do(r); err == nil {
		_ = resp.Body.Close()
	}
}

// warnings counts the warnings that contain a text.
func (f *fleet) warnings(text string) int {
	n := 0
	for line := range strings.Lines(f.output.String()) {
		if strings.Contains(line, `"level":"warn"`) && strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// TestF7RivalPoller: another program that polls with the token is named in log and
// status, and polling goes on once it has stopped.
func TestF7RivalPoller(t *testing.T) {
	f, server := newFleet(t)
	f.run(f.options("m1"), echo("m1"))
	f.waitMembers(1)
	ctx, stop := context.WithCancel(context.Background())
	var rival sync.WaitGroup
	rival.Go(func() {
		for ctx.Err() == nil {
			f.poll(ctx, 50)
		}
	})
	defer rival.Wait()
	defer stop()
	eventually(t, 30*time.Second, func() string {
		if s := f.status(); s.Poll.State != "conflict" || s.Poll.Conflicts < 2 {
			return fmt.Sprintf("state %s, %d conflicts", s.Poll.State, s.Poll.Conflicts)
		}
		return ""
	})
	stop()
	rival.Wait()
	say(t, server, 42, "hello")
	waitSent(t, server, 30*time.Second, "m1 hello")
	if n := f.warnings("another program polls"); n != 1 {
		t.Errorf("the rival was told of %d times, want once a minute", n)
	}
}

// TestG2DurableFirst: when a poll that confirms comes to the server, the updates
// that it confirms are in the journal's files.
func TestG2DurableFirst(t *testing.T) {
	f, server := newFleet(t)
	// Each poll waits before it has an effect: time to look.
	if _, err := server.AddFault(botapitest.Fault{Method: "getUpdates", Act: botapitest.FaultDelay, Latency: 30 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	f.run(f.options("m1"), bot.HandlerFunc(func(ctx context.Context, _ *bot.Update) (bot.Reply, error) {
		<-ctx.Done() // so that the journal keeps them
		return bot.Reply{}, context.Cause(ctx)
	}))
	for i := range 40 {
		say(t, server, int64(100+i), "hello")
		time.Sleep(5 * time.Millisecond)
		if i%8 == 7 {
			time.Sleep(50 * time.Millisecond)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	seen := uint64(0)
	confirmed := map[int64]bool{}
	for len(confirmed) < 40 {
		e, err := server.WaitEvent(ctx, seen, func(e botapitest.Event) bool {
			return e.Kind == botapitest.EventBegin && e.HasOffset || e.Kind == botapitest.EventConfirmed
		})
		if err != nil {
			t.Fatal(err)
		}
		seen = e.Seq
		journal := f.journal()
		for _, id := range e.Updates {
			confirmed[id] = true
			if !strings.Contains(journal, fmt.Sprintf(`"update_id":%d,`, id)) {
				t.Errorf("update %d was confirmed and is not in the journal", id)
			}
		}
		if e.Kind == botapitest.EventBegin && !strings.Contains(journal, fmt.Sprintf(`"update_id":%d,`, e.Offset-1)) {
			t.Errorf("a poll with offset %d began, and update %d is not in the journal", e.Offset, e.Offset-1)
		}
	}
}

// journal returns what the journal's files hold.
func (f *fleet) journal() string {
	paths, _ := filepath.Glob(filepath.Join(f.dir(), "journal", "*", "*.log"))
	var all strings.Builder
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		all.Write(text)
	}
	return all.String()
}
