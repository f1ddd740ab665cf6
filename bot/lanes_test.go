package bot_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tgbridge/bot"
	"tgbridge/internal/botapitest"
)

// sentTo returns the texts that were sent to a chat, in order, with "thread/" in
// front where they went to one.
func sentTo(server *botapitest.Server, chat int64) []string {
	var texts []string
	events, _ := server.Ledger(0)
	for _, e := range events {
		if e.Kind == botapitest.EventSent && e.Chat == chat {
			text := e.Text
			if e.Thread != 0 {
				text = fmt.Sprintf("%d/%s", e.Thread, text)
			}
			texts = append(texts, text)
		}
	}
	return texts
}

// TestF14TopicsKeepApart: a reply goes to the topic of its message; General and
// threads of replies are none.
func TestF14TopicsKeepApart(t *testing.T) {
	f, server := newFleet(t)
	const forum = -1001557912345
	server.SetChat(botapitest.Chat{ID: forum, Type: "supergroup", Title: "forum", IsForum: true})
	server.AddTopic(forum, 77, "seventy-seven")
	server.AddTopic(forum, 78, "seventy-eight")
	for i := range 3 {
		for _, m := range []botapitest.Message{
			{User: 42, Chat: forum, Thread: 77, Text: fmt.Sprint("a", i)},
			{User: 42, Chat: forum, Thread: 78, Text: fmt.Sprint("b", i)},
			{User: 42, Chat: forum, Text: fmt.Sprint("g", i)},
			{User: 42, Chat: forum, Thread: 9, ReplyThread: true, Text: fmt.Sprint("r", i)},
			{User: 42, Thread: 12, Text: fmt.Sprint("p", i)},
		} {
			if _, err := server.Say(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.run(f.options("m1"), bot.HandlerFunc(func(_ context.Context, u *bot.Update) (bot.Reply, error) {
		return bot.Reply{Text: u.Text()}, nil
	}))
	var got []string
	eventually(t, 10*time.Second, func() string {
		got = append(sentTo(server, forum), sentTo(server, 42)...)
		if len(got) < 15 {
			return fmt.Sprintf("%d of 15 answered", len(got))
		}
		return ""
	})
	for _, lane := range [][]string{
		{"77/a0", "77/a1", "77/a2"},
		{"78/b0", "78/b1", "78/b2"},
		{"g0", "r0", "g1", "r1", "g2", "r2"},
		{"12/p0", "12/p1", "12/p2"},
	} {
		of := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return !slices.Contains(lane, s) })
		if !slices.Equal(of, lane) {
			t.Errorf("sent %v, want %v", of, lane)
		}
	}
}

// TestF29OrderOfALane: messages that waited are handled in order, however slow
// the first is, and other lanes are not delayed.
func TestF29OrderOfALane(t *testing.T) {
	f, server := newFleet(t)
	var want []string
	for i := range 8 {
		text := fmt.Sprintf("slow %d", i)
		say(t, server, 42, text)
		want = append(want, text)
	}
	say(t, server, 43, "quick")
	var quick, slow atomic.Int64
	f.run(f.options("m1"), bot.HandlerFunc(func(_ context.Context, u *bot.Update) (bot.Reply, error) {
		switch u.Text() {
		case "slow 0":
			time.Sleep(500 * time.Millisecond)
			slow.Store(time.Now().UnixNano())
		case "quick":
			quick.Store(time.Now().UnixNano())
		}
		return bot.Reply{Text: u.Text()}, nil
	}))
	waitSent(t, server, 10*time.Second, append(want, "quick")...)
	if got := sentTo(server, 42); !slices.Equal(got, want) {
		t.Errorf("sent %v, want %v", got, want)
	}
	if quick.Load() > slow.Load() {
		t.Error("the other lane waited")
	}
}

// TestF30OneChatHangs: one chat's handler hangs; others are answered within 2 s,
// polls go on (G10), and S13's control does too.
func TestF30OneChatHangs(t *testing.T) {
	f, server := newFleet(t)
	f.run(f.options("m1"), bot.HandlerFunc(func(ctx context.Context, u *bot.Update) (bot.Reply, error) {
		if u.Text() == "hang" {
			<-ctx.Done()
			return bot.Reply{}, context.Cause(ctx)
		}
		return bot.Reply{Text: u.Text()}, nil
	}))
	f.waitMembers(1)
	say(t, server, 42, "hang")
	say(t, server, 42, "behind it")
	f.waitPending(2)
	_, since := count(server, "getUpdates", 0)
	for i := range 20 {
		text := fmt.Sprintf("other %d", i)
		say(t, server, int64(50+i), text)
		waitSent(t, server, 2*time.Second, text)
	}
	if n, _ := count(server, "getUpdates", since); n < 20 {
		t.Errorf("%d polls for 20 messages", n)
	}
	if n := sentTexts(server)["behind it"]; n != 0 {
		t.Error("the lane was overtaken")
	}
}

// TestF65HandlerFails: attempts up to the limit, then a dead letter and one
// notice; the lane goes on.
func TestF65HandlerFails(t *testing.T) {
	tests := []struct {
		name   string
		change func(o *bot.Options)
		fail   func(ctx context.Context) (bot.Reply, error)
		log    string
	}{
		{"F65 error", nil, func(context.Context) (bot.Reply, error) { return bot.Reply{}, errors.New("exit status 1") },
			"failed after 2 attempts: exit status 1"},
		{"F65 panic", nil, func(context.Context) (bot.Reply, error) { panic("at the disco") }, "handler panicked: at the disco"},
		{"F65 sleeps for ever", func(o *bot.Options) { o.HandlerTimeout = 50 * time.Millisecond },
			func(ctx context.Context) (bot.Reply, error) { <-ctx.Done(); return bot.Reply{}, ctx.Err() }, "timed out after 2 attempts"},
		{"reply longer than the bus takes", nil,
			func(context.Context) (bot.Reply, error) { return bot.Reply{Text: strings.Repeat("x", 1<<20)}, nil }, "reply has 1048"},
		{"error longer than the bus takes", nil,
			func(context.Context) (bot.Reply, error) {
				return bot.Reply{}, errors.New(strings.Repeat("é", 100<<10))
			}, "failed after 2 attempts"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, server := newFleet(t)
			o := f.options("m1")
			o.Attempts = 2
			if tt.change != nil {
				tt.change(&o)
			}
			var attempts atomic.Int64
			var deliveries sync.Map
			f.run(o, bot.HandlerFunc(func(ctx context.Context, u *bot.Update) (bot.Reply, error) {
				if u.Text() != "bad" {
					return bot.Reply{Text: u.Text()}, nil
				}
				deliveries.Store(u.Delivery(), true)
				if n := attempts.Add(1); int64(u.Attempt()) != n {
					t.Errorf("attempt %d is numbered %d", n, u.Attempt())
				}
				return tt.fail(ctx)
			}))
			say(t, server, 42, "bad")
			say(t, server, 42, "good")
			waitSent(t, server, 10*time.Second, "good", "Sorry, this message could not be handled.")
			if n := attempts.Load(); n != 2 {
				t.Errorf("%d attempts, want 2", n)
			}
			ids := 0
			deliveries.Range(func(any, any) bool { ids++; return true })
			if ids != 1 {
				t.Errorf("%d delivery ids of one delivery", ids)
			}
			if n := f.status().DeadLetters; n != 1 {
				t.Errorf("%d dead letters, want 1", n)
			}
			if !strings.Contains(f.output.String(), tt.log) {
				t.Errorf("log does not say %q", tt.log)
			}
		})
	}
}

// TestS13ManyWaiting: 2,000 updates wait at the start (S20: none is skipped);
// beats and control stay prompt while they drain.
func TestS13ManyWaiting(t *testing.T) {
	f, server := newFleet(t)
	const n = 2000
	messages := make([]botapitest.Message, n)
	for i := range messages {
		messages[i] = botapitest.Message{User: int64(100 + i%50), Text: fmt.Sprint(i)}
	}
	if _, err := server.SayAll(messages); err != nil {
		t.Fatal(err)
	}
	var handled atomic.Int64
	f.run(f.options("m1"), bot.HandlerFunc(func(context.Context, *bot.Update) (bot.Reply, error) {
		handled.Add(1)
		return bot.Reply{}, nil
	}))
	e := f.waitLeader("")
	c := f.client(e)
	var slowest time.Duration
	for handled.Load() < n {
		began := time.Now()
		var s bot.Status
		if err := c.Status(context.Background(), &s); err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, time.Since(began))
		if time.Since(began) > 10*time.Second {
			t.Fatal("no control")
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Logf("slowest status: %v", slowest)
	if slowest > time.Second { // 250 ms on a machine that does nothing else
		t.Errorf("status took %v", slowest)
	}
	f.waitPending(0)
	if got := handled.Load(); got != n {
		t.Errorf("%d handled, want %d", got, n)
	}
}
