package bot_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tgbridge/bot"
	"tgbridge/internal/botapitest"
	"tgbridge/lock"
)

// stopped checks what a member that stopped leaves: no lease, no socket, and a
// file that says it is dead.
func (f *fleet) stopped(t *testing.T) {
	t.Helper()
	if e, held := f.leader(); held {
		t.Errorf("the lease is held by %s", e.Name)
	}
	sockets, err := filepath.Glob(filepath.Join(f.dir(), "sockets", "*"))
	if err != nil || len(sockets) > 0 {
		t.Errorf("sockets are left: %v (%v)", sockets, err)
	}
	readings, err := lock.NewObserver(lock.ObserverOptions{Dir: f.dir(), LocksBelieved: true}).Members()
	if err != nil {
		t.Error(err)
	}
	for _, r := range readings {
		if !r.Dead() {
			t.Errorf("member %s does not look dead", r.Info.Name)
		}
	}
}

// waitPolling waits until a poll of the leader waits at the server.
func waitPolling(t *testing.T, server *botapitest.Server) {
	t.Helper()
	eventually(t, 10*time.Second, func() string {
		all := requests(server)
		for _, r := range all[max(0, len(all)-3):] {
			if r.Begin.Method == "getupdates" && r.Begin.HasOffset && r.End.Seq == 0 {
				return ""
			}
			if r.Begin.Method == "getupdates" && r.End.Seq == 0 && server.Pending() == 0 {
				return ""
			}
		}
		return "no poll waits"
	})
}

// TestF12StopInAPoll: a member with nothing in hand stops at once, also in the
// middle of a long poll, and leaves nothing.
func TestF12StopInAPoll(t *testing.T) {
	f, server := newFleet(t)
	m := f.run(f.options("m1"), echo("m1"))
	say(t, server, 42, "hello")
	waitSent(t, server, 10*time.Second, "m1 hello")
	waitPolling(t, server)
	began := time.Now()
	m.end(t)
	if took := time.Since(began); took > 2*time.Second || m.err != nil {
		t.Errorf("stopped after %v with %v", took, m.err)
	}
	f.stopped(t)
}

// TestF12HangingHandler: a handler that ignores its context keeps the member for
// five seconds, and no lease after that.
func TestF12HangingHandler(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	release := make(chan struct{})
	defer close(release)
	m := f.run(f.options("m1"), bot.HandlerFunc(func(context.Context, *bot.Update) (bot.Reply, error) {
		<-release
		return bot.Reply{}, nil
	}))
	say(t, server, 42, "hang")
	f.waitPending(1)
	began := time.Now()
	m.end(t)
	if took := time.Since(began); took > 5500*time.Millisecond || m.err != nil {
		t.Errorf("stopped after %v with %v", took, m.err)
	}
	f.stopped(t)
}

// TestF12WorkGivenBack: a handler that heeds its context is cancelled after half
// of the time; what it had in hand is handled after the next start, and the
// attempt does not count.
func TestF12WorkGivenBack(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	var cause atomic.Value
	m := f.run(f.options("m1"), bot.HandlerFunc(func(ctx context.Context, _ *bot.Update) (bot.Reply, error) {
		<-ctx.Done()
		cause.Store(context.Cause(ctx).Error())
		return bot.Reply{}, context.Cause(ctx)
	}))
	say(t, server, 42, "long")
	f.waitPending(1)
	began := time.Now()
	m.end(t)
	if took := time.Since(began); took < 2*time.Second || took > 4*time.Second {
		t.Errorf("stopped after %v", took)
	}
	if cause.Load() != "the member stops" {
		t.Errorf("handler was cancelled with %v", cause.Load())
	}
	f.stopped(t)
	f.run(f.options("m2"), bot.HandlerFunc(func(_ context.Context, u *bot.Update) (bot.Reply, error) {
		return bot.Reply{Text: fmt.Sprintf("%s in attempt %d", u.Text(), u.Attempt())}, nil
	}))
	waitSent(t, server, 5*time.Second, "long in attempt 1")
}

// TestF12WorkIsEnded: with nobody to hand over to, a leader that is told to stop
// takes in the outcome of the work in hand, and its reply is sent.
func TestF12WorkIsEnded(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	began := make(chan struct{})
	m := f.run(f.options("m1"), bot.HandlerFunc(func(_ context.Context, u *bot.Update) (bot.Reply, error) {
		close(began)
		time.Sleep(time.Second)
		return bot.Reply{Text: u.Text()}, nil
	}))
	say(t, server, 42, "work")
	<-began
	m.end(t)
	if n := sentTexts(server)["work"]; n != 1 {
		t.Errorf("sent %d times", n)
	}
	f.stopped(t)
}

// TestF12HeirIsFrozen: the only heir is frozen when the leader is told to stop;
// the outcome of the work in hand is taken in all the same, and nothing is run
// again when the heir wakes.
func TestF12HeirIsFrozen(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	m := f.start("m1", "TEST_WORK=500ms")
	f.waitMembers(1)
	heir := f.start("m2", "TEST_WORK=500ms")
	f.waitMembers(2)
	for chat := range int64(8) { // some of them are m1's
		say(t, server, 100+chat, fmt.Sprint("work ", chat))
	}
	eventually(t, 10*time.Second, func() string {
		if n := len(f.runs()); n < 8 {
			return fmt.Sprintf("%d handlers began", n)
		}
		return ""
	})
	heir.signal(t, syscall.SIGSTOP)
	m.signal(t, syscall.SIGTERM)
	m.wait(t, 6*time.Second)
	heir.signal(t, syscall.SIGCONT)
	f.waitMembers(1)
	eventually(t, 10*time.Second, func() string {
		if n := len(sentTexts(server)); n < 8 {
			return fmt.Sprintf("%d were answered", n)
		}
		return ""
	})
	if runs := f.runs(); len(runs) != 8 {
		t.Errorf("handlers ran %d times: %+v", len(runs), runs)
	}
}

// TestS10StopWhileTelegramFails: a stop always ends, whatever Telegram answers;
// the reply that could not be sent is sent after the next start, once.
func TestS10StopWhileTelegramFails(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	m := f.run(f.options("m1"), echo("m1"))
	f.waitMembers(1)
	if _, err := server.AddFault(botapitest.Fault{Method: "sendMessage", Act: botapitest.FaultAnswer,
		Answer: &botapitest.Answer{Status: http.StatusTooManyRequests,
			Body: []byte(`{"ok":false,"error_code":429,"description":"Too Many Requests","parameters":{"retry_after":30}}`)}}); err != nil {
		t.Fatal(err)
	}
	say(t, server, 42, "owed")
	eventually(t, 5*time.Second, func() string {
		if n, _ := count(server, "sendMessage", 0); n == 0 {
			return "nothing was sent"
		}
		return ""
	})
	if _, err := server.AddFault(botapitest.Fault{Act: botapitest.FaultAnswer,
		Answer: &botapitest.Answer{Status: http.StatusBadGateway, Body: []byte("<html>")}}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	m.end(t)
	if took := time.Since(began); took > 5500*time.Millisecond || m.err != nil {
		t.Errorf("stopped after %v with %v", took, m.err)
	}
	f.stopped(t)
	server.ClearFaults()
	f.run(f.options("m1"), echo("m1"))
	waitSent(t, server, 10*time.Second, "m1 owed")
}

// TestF18Penalty: after a 429 on getUpdates there is no poll before its time,
// yet a stop ends at once.
func TestF18Penalty(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	if _, err := server.AddFault(botapitest.Fault{Method: "getUpdates", Times: 1, Act: botapitest.FaultAnswer,
		Answer: &botapitest.Answer{Status: http.StatusTooManyRequests,
			Body: []byte(`{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 20","parameters":{"retry_after":20}}`)}}); err != nil {
		t.Fatal(err)
	}
	m := f.run(f.options("m1"), echo("m1"))
	eventually(t, 5*time.Second, func() string {
		if n, _ := count(server, "getUpdates", 0); n == 0 {
			return "no poll"
		}
		return ""
	})
	time.Sleep(2 * time.Second)
	if n, _ := count(server, "getUpdates", 0); n != 1 {
		t.Errorf("%d polls in the penalty", n-1)
	}
	if s := f.status(); s.Term != 1 || s.Poll.LastError == "" {
		t.Errorf("term %d, last error %q", s.Term, s.Poll.LastError)
	}
	began := time.Now()
	m.end(t)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("stopped after %v", took)
	}
}

// TestCallEndsWithTheMember: who calls before Run, after it or beside its end is
// not left waiting; a name that is no method's is refused at once.
func TestCallEndsWithTheMember(t *testing.T) {
	f, _ := newFleet(t)
	m := f.run(f.options("m1"), echo("m1"))
	f.waitMembers(1)
	for _, method := range []string{"", ".", "..", "a/b", "send message", "getMe?x=1", "%2e"} {
		if _, err := m.Call(context.Background(), method, nil); !errors.Is(err, bot.ErrMethod) {
			t.Errorf("method %q: error %v, want ErrMethod", method, err)
		}
	}
	for _, method := range []string{"getUpdates", "setWebhook"} {
		if _, err := m.Call(context.Background(), method, nil); err == nil {
			t.Errorf("%s was called", method)
		}
	}
	if _, err := m.Call(context.Background(), "sendMessage", map[string]any{"f": func() {}}); err == nil {
		t.Error("a function was sent")
	}
	m.end(t)
	if _, err := m.Call(context.Background(), "getMe", nil); !errors.Is(err, bot.ErrStopped) {
		t.Errorf("after the end: error %v, want ErrStopped", err)
	}
	b, err := bot.New(f.options("m2"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := b.Call(ctx, "getMe", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before Run: error %v, want the context's", err)
	}
}

// TestF12ThreeSignals: a member told to stop three times, at every stage of its
// life, is gone within 5 s and leaves no lease and no socket.
func TestF12ThreeSignals(t *testing.T) {
	tests := []struct {
		name  string
		reach func(f *fleet) *process // returns the member once it is at the stage
	}{
		{"starting", func(f *fleet) *process {
			m := f.start("m1")
			eventually(f.t, 5*time.Second, func() string { // Go's runtime has to be ready for signals
				if _, err := os.Stat(filepath.Join(f.dir(), "members")); err != nil {
					return err.Error()
				}
				return ""
			})
			return m
		}},
		{"leading", func(f *fleet) *process {
			m := f.start("m1")
			f.waitMembers(1)
			return m
		}},
		{"leading, with work", func(f *fleet) *process {
			m := f.start("m1", "TEST_WORK=300ms")
			say(f.t, f.server, 42, "work")
			f.waitPending(1)
			return m
		}},
		{"taking over", func(f *fleet) *process {
			first := f.start("m1")
			f.waitMembers(1)
			m := f.start("m2")
			f.waitMembers(2)
			first.signal(f.t, syscall.SIGKILL)
			<-first.gone
			return m
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, _ := newFleet(t)
			m := tt.reach(f)
			for range 3 {
				m.signal(t, syscall.SIGTERM)
				time.Sleep(2 * time.Millisecond)
			}
			m.wait(t, 5*time.Second)
			if m.err != nil {
				t.Errorf("exit: %v", m.err)
			}
			if tt.name == "taking over" { // the killed one could not remove its socket
				if e, held := f.leader(); held && e.PID == m.pid() {
					t.Error("the lease was not released")
				}
				return
			}
			f.stopped(t)
		})
	}
	t.Run("following", func(t *testing.T) {
		t.Parallel()
		f, server := newFleet(t)
		leader := f.start("m1")
		f.waitMembers(1)
		m := f.start("m2")
		f.waitMembers(2)
		e, _ := f.leader()
		for range 3 {
			m.signal(t, syscall.SIGTERM)
		}
		m.wait(t, 5*time.Second)
		if now, _ := f.leader(); now.Epoch != e.Epoch || m.err != nil {
			t.Errorf("term %d became %d; exit: %v", e.Epoch, now.Epoch, m.err)
		}
		f.waitMembers(1)
		say(t, server, 42, "hello")
		waitSent(t, server, 10*time.Second, "m1 hello")
		leader.signal(t, syscall.SIGTERM)
		leader.wait(t, 5*time.Second)
		f.stopped(t)
	})
}

// TestG3DrainingLeaderIsNotHung: members that stop at the same time, with work
// that lasts longer than stale-after, leave the lease to the one that takes in
// their outcomes, and nothing is handled again.
func TestG3DrainingLeaderIsNotHung(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	f.extra = []string{"TEST_WORK=2300ms", quickSetting(t)} // stale after 1.5 s
	m1 := f.start("m1")
	f.waitMembers(1)
	m2 := f.start("m2")
	f.waitMembers(2)
	const lanes = 12
	for i := range lanes {
		say(t, server, int64(100+i), fmt.Sprint("w", i))
	}
	eventually(t, 10*time.Second, func() string {
		if n := len(f.runs()); n < lanes {
			return fmt.Sprint(n, " are being handled")
		}
		return ""
	})
	led, _ := f.leader()
	m1.signal(t, syscall.SIGTERM)
	m2.signal(t, syscall.SIGTERM)
	m1.wait(t, 8*time.Second)
	m2.wait(t, 8*time.Second)
	if e, held := f.leader(); held || e.Epoch != led.Epoch {
		t.Errorf("held %v, term %d, want that of the drain, %d", held, e.Epoch, led.Epoch)
	}
	f.start("m3")
	f.waitMembers(1)
	f.waitPending(0)
	if runs := f.runs(); len(runs) != lanes {
		t.Errorf("handled %d times, want once each of %d: %v", len(runs), lanes, runs)
	}
}
