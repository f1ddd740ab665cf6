package bot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tgbridge/bot"
	"tgbridge/internal/botapitest"
)

// allKinds are those of testdata/updates.jsonl, for servers that leave some out
// by default.
var allKinds = []string{
	"message", "edited_message", "channel_post", "edited_channel_post", "business_connection", "business_message",
	"edited_business_message", "deleted_business_messages", "message_reaction", "message_reaction_count", "inline_query",
	"chosen_inline_result", "callback_query", "shipping_query", "pre_checkout_query", "purchased_paid_media", "poll",
	"poll_answer", "my_chat_member", "chat_member", "chat_join_request", "chat_boost", "removed_chat_boost",
	"managed_bot", "guest_message", "subscription", "stopped_message_generation",
}

// corpus are the updates of testdata/updates.jsonl, in order.
func corpus(t *testing.T) [][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/updates.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(text), []byte("\n"))
}

// idOf is an update's id.
func idOf(t *testing.T, raw []byte) int64 {
	t.Helper()
	var u struct {
		ID int64 `json:"update_id"`
	}
	if err := json.Unmarshal(raw, &u); err != nil {
		t.Fatal(err)
	}
	return u.ID
}

// inject puts raw updates into the queue, whatever kinds were asked for.
func inject(t *testing.T, server *botapitest.Server, raws ...[]byte) {
	t.Helper()
	for _, raw := range raws {
		if err := server.InjectAs(idOf(t, raw), raw); err != nil {
			t.Fatal(err)
		}
	}
}

// collector is a handler that keeps what it gets.
type collector struct {
	mu  sync.Mutex
	got map[int64][]byte
	n   int
}

func (c *collector) Handle(_ context.Context, u *bot.Update) (bot.Reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.got == nil {
		c.got = map[int64][]byte{}
	}
	c.got[u.ID()] = slices.Clone(u.Raw())
	c.n++
	return bot.Reply{}, nil
}

// ids returns what came, sorted, and how many calls there were.
func (c *collector) ids() ([]int64, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := make([]int64, 0, len(c.got))
	for id := range c.got {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, c.n
}

// TestG3WholeCorpus: every update arrives byte for byte, once, and none stops
// the bridge.
func TestG3WholeCorpus(t *testing.T) {
	f, server := newFleet(t)
	o := f.options("m1")
	o.AllowedUpdates = allKinds
	raws := corpus(t)
	inject(t, server, raws...)
	var c collector
	f.run(o, &c)
	eventually(t, 15*time.Second, func() string {
		if ids, _ := c.ids(); len(ids) < len(raws) {
			return fmt.Sprintf("%d of %d came", len(ids), len(raws))
		}
		return ""
	})
	for _, raw := range raws {
		if got := c.got[idOf(t, raw)]; !bytes.Equal(got, raw) {
			t.Errorf("handler got %s, want %s", got, raw)
		}
	}
	eventually(t, 5*time.Second, func() string {
		if n := server.Pending(); n > 0 {
			return fmt.Sprintf("%d updates are not confirmed", n)
		}
		return ""
	})
	if ids, n := c.ids(); n != len(raws) {
		t.Errorf("%d updates handled in %d calls", len(ids), n)
	}
	f.waitPending(0)
	if n := f.status().DeadLetters; n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// fromMira are the updates of testdata that user 5018594437 sent, judged by eye:
// her messages and edits, in whichever chat, her clicks, votes and memberships;
// not what a channel or an anonymous administrator sent, nor what is about her.
func fromMira(t *testing.T, raw []byte) bool {
	t.Helper()
	var u map[string]json.RawMessage
	if err := json.Unmarshal(raw, &u); err != nil {
		t.Fatal(err)
	}
	delete(u, "update_id")
	type user struct {
		ID int64 `json:"id"`
	}
	for kind, content := range u {
		var c struct {
			From, User, SenderBusinessBot    *user
			SenderChat, ActorChat, VoterChat json.RawMessage
			Chat                             *struct {
				ID   int64
				Type string
			}
			Source *struct{ User *user }
			Boost  *struct{ Source *struct{ User *user } }
		}
		// The names on the wire have underscores.
		flat := strings.NewReplacer("sender_chat", "senderChat", "actor_chat", "actorChat", "voter_chat", "voterChat",
			"sender_business_bot", "senderBusinessBot").Replace(string(content))
		if json.Unmarshal([]byte(flat), &c) != nil {
			continue // a kind of another shape
		}
		if c.SenderChat != nil || c.ActorChat != nil || c.VoterChat != nil || c.SenderBusinessBot != nil {
			return false
		}
		var sender *user
		switch {
		case kind == "stopped_message_generation" && c.Chat != nil && c.Chat.Type == "private":
			sender = &user{c.Chat.ID}
		case kind == "channel_post" || kind == "edited_channel_post" || kind == "deleted_business_messages" ||
			kind == "message_reaction_count" || kind == "poll" || kind == "stopped_message_generation":
		case c.Boost != nil && c.Boost.Source != nil:
			sender = c.Boost.Source.User
		case c.Source != nil:
			sender = c.Source.User
		case c.From != nil:
			sender = c.From
		default:
			sender = c.User
		}
		if sender != nil && sender.ID == mira {
			return true
		}
	}
	return false
}

const mira = 5018594437

// TestG9OneUserAllowed: of the whole corpus exactly the updates of one user
// arrive (F62), nothing is sent to anybody (S17), and the denied are told of.
func TestG9OneUserAllowed(t *testing.T) {
	f, server := newFleet(t)
	o := f.options("m1")
	o.AllowAll, o.AllowedUsers, o.AllowedUpdates = false, []int64{mira}, allKinds
	raws := corpus(t)
	var want []int64
	denied := 0
	for _, raw := range raws {
		if fromMira(t, raw) {
			want = append(want, idOf(t, raw))
		} else {
			denied++
		}
	}
	inject(t, server, raws...)
	last := say(t, server, mira, "the last one") // marks the end
	want = append(want, last)
	var c collector
	f.run(o, &c)
	eventually(t, 15*time.Second, func() string {
		if ids, _ := c.ids(); !slices.Contains(ids, last) || server.Pending() > 0 {
			return fmt.Sprintf("%d came, %d are not confirmed", len(ids), server.Pending())
		}
		return ""
	})
	if got, _ := c.ids(); !slices.Equal(got, want) {
		t.Errorf("handled %v\nwant    %v", got, want)
	}
	for _, r := range requests(server) {
		if r.Begin.Method != "getupdates" {
			t.Errorf("S17: %s was called", r.Begin.Method)
		}
	}
	f.waitPending(0)
	s := f.status()
	if len(s.Denied) != 10 {
		t.Errorf("status names %d denied updates, want the last 10", len(s.Denied))
	}
	if s.DeadLetters != 0 {
		t.Errorf("%d dead letters", s.DeadLetters)
	}
	if denied < 40 {
		t.Errorf("only %d of the corpus are of others", denied)
	}
}

// requests are those that the server got, in order.
func requests(server *botapitest.Server) []botapitest.Request {
	events, _ := server.Ledger(0)
	return botapitest.Requests(events)
}

// TestG9DeniedAreTold: one line an hour for each denied sender, with what to do.
func TestG9DeniedAreTold(t *testing.T) {
	f, server := newFleet(t)
	o := f.options("m1")
	o.AllowAll = false
	for range 5 {
		say(t, server, 42, "let me in")
		say(t, server, 43, "me too")
	}
	f.run(o, echo("m1"))
	eventually(t, 10*time.Second, func() string {
		if n := server.Pending(); n > 0 {
			return fmt.Sprintf("%d are not confirmed", n)
		}
		return ""
	})
	for _, user := range []string{"42", "43"} {
		line := "denied update from user " + user + "; allow with TGBRIDGE_ALLOWED_USERS=" + user
		if n := strings.Count(f.output.String(), line); n != 1 {
			t.Errorf("%q was logged %d times", line, n)
		}
	}
	if strings.Contains(f.output.String(), "let me in") {
		t.Error("the log shows the text of a message")
	}
	if n := len(sentTexts(server)); n != 0 {
		t.Errorf("S17: %d messages were sent", n)
	}
}

// TestG9BothMustAllow: a follower that allows fewer than the leader denies what
// the leader routes to it; and both are told.
func TestG9BothMustAllow(t *testing.T) {
	f, server := newFleet(t)
	f.run(f.options("m1"), echo("m1"))
	say(t, server, 99, "first")
	waitSent(t, server, 10*time.Second, "m1 first") // it has joined itself
	o := f.options("m2")
	o.AllowAll, o.AllowedUsers = false, []int64{100}
	f.run(o, echo("m2"))
	f.waitMembers(2)
	for user := range int64(16) {
		say(t, server, 100+user, "hello")
	}
	eventually(t, 10*time.Second, func() string {
		if s := f.status(); s.Pending > 0 || server.Pending() > 0 {
			return fmt.Sprintf("%d pending", s.Pending)
		}
		return ""
	})
	sent := sentTexts(server)
	if n := sent["m2 hello"]; n > 1 {
		t.Errorf("m2 answered %d users, and allows one", n)
	}
	if n := sent["m1 hello"]; n == 0 || n == 16 {
		t.Errorf("m1 answered %d of 16 users", n)
	}
	if n := strings.Count(f.output.String(), "allowed users differ"); n < 2 {
		t.Errorf("the difference was told %d times, want at the leader and at the member", n)
	}
}

// TestF10UnreadableUpdates: what cannot be read is a dead letter with a reason,
// its neighbours are handled once, and all are confirmed.
func TestF10UnreadableUpdates(t *testing.T) {
	tests := []struct{ name, body string }{
		{"F10 message id", `{"update_id":%d,"message":{"message_id":"x","from":{"id":42},"chat":{"id":42,"type":"private"},"text":"t"}}`},
		{"F10 chat id", `{"update_id":%d,"message":{"message_id":1,"from":{"id":42},"chat":{"id":"42"},"text":"t"}}`},
		{"F10 chat", `{"update_id":%d,"message":{"message_id":1,"from":{"id":42},"chat":7,"text":"t"}}`},
		{"F10 sender", `{"update_id":%d,"message":{"message_id":1,"from":"me","chat":{"id":42,"type":"private"},"text":"t"}}`},
		{"F10 thread", `{"update_id":%d,"message":{"message_id":1,"message_thread_id":"1","from":{"id":42},"chat":{"id":-42,"type":"supergroup"},"text":"t"}}`},
		{"F10 kind", `{"update_id":%d,"message":[1,2]}`},
		{"F10 two kinds", `{"update_id":%d,"message":{},"callback_query":{}}`},
	}
	f, server := newFleet(t)
	f.run(f.options("m1"), echo("m1"))
	f.waitMembers(1)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, after := fmt.Sprintf("before %d", i), fmt.Sprintf("after %d", i)
			say(t, server, 42, before)
			id := server.NextUpdateID()
			if err := server.InjectAs(id, fmt.Appendf(nil, tt.body, id)); err != nil {
				t.Fatal(err)
			}
			say(t, server, 42, after)
			waitSent(t, server, 10*time.Second, "m1 "+before, "m1 "+after)
			eventually(t, 5*time.Second, func() string {
				if s := f.status(); s.DeadLetters != i+1 || server.Pending() > 0 {
					return fmt.Sprintf("%d dead letters, want %d; %d not confirmed", s.DeadLetters, i+1, server.Pending())
				}
				return ""
			})
		})
	}
}

// TestS15SameIDOtherContent: an update that comes again with other content is
// told once, the first is kept, and polling goes on.
func TestS15SameIDOtherContent(t *testing.T) {
	f, server := newFleet(t)
	fault, err := server.AddFault(botapitest.Fault{Method: "getUpdates", Skip: 1, Act: botapitest.FaultStall}) // nothing is confirmed
	if err != nil {
		t.Fatal(err)
	}
	first := f.run(f.options("m1"), bot.HandlerFunc(func(ctx context.Context, _ *bot.Update) (bot.Reply, error) {
		<-ctx.Done()
		return bot.Reply{}, context.Cause(ctx)
	}))
	id := say(t, server, 42, "first")
	f.waitPending(1)
	first.end(t)
	server.RemoveFault(fault)
	other := fmt.Appendf(nil, `{"update_id":%d,"message":{"message_id":1,"from":{"id":42},"chat":{"id":42,"type":"private"},"text":"second"}}`, id)
	if !server.Replace(id, other) {
		t.Fatal("the update was confirmed")
	}
	f.run(f.options("m2"), echo("m2"))
	say(t, server, 42, "third")
	waitSent(t, server, 5*time.Second, "m2 first", "m2 third")
	if n := strings.Count(f.output.String(), "update came again with other content"); n != 1 {
		t.Errorf("told %d times", n)
	}
	if sentTexts(server)["m2 second"] > 0 {
		t.Error("the second content was handled")
	}
}
