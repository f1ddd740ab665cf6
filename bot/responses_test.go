package bot_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"tgbridge/bot"
	"tgbridge/internal/botapitest"
)

// A response is a line of testdata/responses.jsonl.
type response struct {
	line   int
	method string
	when   string
	answer botapitest.Answer
}

// longWait finds the penalties, which would take too long here.
var longWait = regexp.MustCompile(`(retry after |retry_after\\":|Retry-After": ")\d+`)

// responses are the stored answers to the given methods; all others if the first
// is "!". The token is put in where it belongs, and no penalty is longer than a
// second.
func responses(t *testing.T, token string, methods ...string) []response {
	t.Helper()
	file, err := os.Open("testdata/responses.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var out []response
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		r := response{line: n}
		head := struct{ Method, When string }{}
		text := strings.ReplaceAll(lines.Text(), "TOKEN", secretPart(token))
		text = longWait.ReplaceAllString(text, "${1}1")
		if err := errors.Join(json.Unmarshal([]byte(text), &head), json.Unmarshal([]byte(text), &r.answer)); err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		r.method, r.when = head.Method, head.When
		named := false
		for _, m := range methods {
			named = named || m == r.method
		}
		if named != (methods[0] == "!") {
			out = append(out, r)
		}
	}
	return out
}

// play lets the next request of the response's method get it, and no other.
func (r response) play(t *testing.T, server *botapitest.Server) {
	t.Helper()
	a := r.answer
	_, err := server.AddFault(botapitest.Fault{Method: r.method, Times: 1, Act: botapitest.FaultAnswer, Answer: &a})
	if err != nil {
		t.Fatal(err)
	}
}

// count is how many requests of a method began since seq, and the last event's
// number.
func count(server *botapitest.Server, method string, since uint64) (n int, last uint64) {
	events, _ := server.Ledger(since)
	for _, e := range events {
		if e.Kind == botapitest.EventBegin && e.Method == strings.ToLower(method) {
			n++
		}
		last = e.Seq
	}
	return n, last
}

// TestResponsesToReplies plays every stored answer to sendMessage to a reply:
// what is refused for good is a dead letter after one request, what may be
// repeated arrives once, and the lane goes on.
func TestResponsesToReplies(t *testing.T) {
	sent := map[int]int{ // requests until it arrived; all others: refused by the first
		51: 2, 52: 2, // moved to a new chat
		55: 2, 59: 2, // 429
		62: 2, 64: 2, 67: 2, // 5xx
		81: 1, // success
	}
	f, server := newFleet(t)
	f.run(f.options("m1"), echo("m1"))
	f.waitMembers(1)
	server.SetChat(botapitest.Chat{ID: -1001557912345, Type: "supergroup", Title: "moved"})
	dead := 0
	for _, r := range responses(t, f.token, "sendMessage") {
		t.Run(fmt.Sprintf("line %d", r.line), func(t *testing.T) {
			chat := int64(1000 + r.line)
			_, since := count(server, "sendMessage", 0)
			r.play(t, server)
			say(t, server, chat, "spoiled")
			after := fmt.Sprintf("after %d", r.line)
			say(t, server, chat, after)
			waitSent(t, server, 10*time.Second, "m1 "+after)
			want, arrives := sent[r.line]
			if !arrives {
				want = 1
				dead++
			}
			if n, _ := count(server, "sendMessage", since); n != want+1 {
				t.Errorf("%s: %d requests, want %d and one for the next message", r.when, n, want)
			}
			f.waitPending(0)
			if n := f.status().DeadLetters; n != dead {
				t.Errorf("%s: %d dead letters, want %d", r.when, n, dead)
			}
		})
	}
}

// TestResponsesToCalls plays every stored answer to the other methods to a call.
func TestResponsesToCalls(t *testing.T) {
	const again = -1 // the call is repeated and then answered by the server
	codes := map[int]int{
		4: 404, 24: 400, 25: 400, 27: 400, 35: 400, 36: 400, 40: 400, 41: 400, 42: 400, 43: 400,
		46: 400, 47: 400, 53: 413, 54: 413,
		1: again, 3: again, 5: again, 56: again, 57: again, 83: again, 84: again,
	}
	results := map[int]string{ // all others: what is in the answer
		20: "true", 26: "true", 32: "true", 39: "true", // it is so already
	}
	f, server := newFleet(t)
	m := f.run(f.options("m1"), echo("m1"))
	f.waitMembers(1)
	for _, r := range responses(t, f.token, "!", "sendMessage", "getUpdates", "deleteWebhook") {
		t.Run(fmt.Sprintf("line %d", r.line), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_, since := count(server, r.method, 0)
			r.play(t, server)
			result, err := m.Call(ctx, r.method, map[string]any{"chat_id": 1, "message_id": 1, "text": "t"})
			n, _ := count(server, r.method, since)
			var refused *bot.CallError
			code, fails := codes[r.line]
			switch {
			case fails && code == again:
				if n != 2 {
					t.Errorf("%s: %d requests, want 2 (result %s, error %v)", r.when, n, result, err)
				}
			case fails:
				if !errors.As(err, &refused) || refused.Code != code || n != 1 {
					t.Errorf("%s: error %v after %d requests, want code %d after one", r.when, err, n, code)
				}
			case err != nil || n != 1:
				t.Errorf("%s: error %v after %d requests", r.when, err, n)
			default:
				var body struct{ Result json.RawMessage }
				_ = json.Unmarshal(r.answer.Body, &body)
				want := string(body.Result)
				if w, ok := results[r.line]; ok {
					want = w
				}
				want = strings.ReplaceAll(want, secretPart(f.token), "[secret]")
				if string(result) != want {
					t.Errorf("%s: result %s, want %s", r.when, result, want)
				}
			}
			if strings.Contains(fmt.Sprint(err, string(result)), secretPart(f.token)) {
				t.Errorf("G8: the token is shown: %v %s", err, result)
			}
		})
	}
}

// TestResponsesToPolls plays every stored answer to getUpdates that is no end to
// polling: polls go on, and the next message is handled.
func TestResponsesToPolls(t *testing.T) {
	f, server := newFleet(t)
	f.run(f.options("m1"), echo("m1"))
	say(t, server, 42, "first") // the token is proven from now on
	waitSent(t, server, 10*time.Second, "m1 first")
	for _, r := range responses(t, f.token, "getUpdates") {
		if r.line == 18 || r.line == 19 || r.line == 85 { // webhooks and an update: below
			continue
		}
		t.Run(fmt.Sprintf("line %d", r.line), func(t *testing.T) {
			r.play(t, server)
			before, after := fmt.Sprintf("before %d", r.line), fmt.Sprintf("after %d", r.line)
			say(t, server, 42, before) // ends the poll that waits; the next one is spoiled
			waitSent(t, server, 10*time.Second, "m1 "+before)
			_, since := count(server, "getUpdates", 0)
			say(t, server, 42, after)
			waitSent(t, server, 10*time.Second, "m1 "+after)
			if n, _ := count(server, "getUpdates", since); n > 20 {
				t.Errorf("%s: %d polls", r.when, n)
			}
		})
	}
	if n := f.status().DeadLetters; n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// TestResponseWithBareBytes: an update that is not UTF-8 arrives byte for byte.
func TestResponseWithBareBytes(t *testing.T) {
	f, server := newFleet(t)
	all := responses(t, f.token, "getUpdates")
	r := all[len(all)-1]
	r.play(t, server)
	var c collector
	f.run(f.options("m1"), &c)
	eventually(t, 10*time.Second, func() string {
		if ids, _ := c.ids(); len(ids) == 0 {
			return "nothing came"
		}
		return ""
	})
	body := string(r.answer.Body)
	want := strings.TrimSuffix(body[strings.Index(body, `{"update_id"`):], "]}")
	if got := string(c.got[900000901]); got != want {
		t.Errorf("handler got %q\nwant %q", got, want)
	}
}

// TestF6WebhookKept: a webhook ends every member that would lead with a clear
// error, whatever the wording, and is not touched.
func TestF6WebhookKept(t *testing.T) {
	for _, line := range []int{18, 19} {
		t.Run(fmt.Sprintf("line %d", line), func(t *testing.T) {
			f, server := newFleet(t)
			for _, r := range responses(t, f.token, "getUpdates") {
				if r.line == line {
					r.play(t, server)
				}
			}
			m := f.run(f.options("m1"), echo("m1"))
			if err := m.result(t, 5*time.Second); !errors.Is(err, bot.ErrWebhookSet) {
				t.Errorf("error %v, want ErrWebhookSet", err)
			}
			if _, held := f.leader(); held {
				t.Error("F53: the lease was not released")
			}
			if n, _ := count(server, "deleteWebhook", 0); n != 0 {
				t.Error("the webhook was deleted")
			}
		})
	}
}

// TestF6WebhookDeleted: if the options say so it is deleted once, and what waits
// is kept.
func TestF6WebhookDeleted(t *testing.T) {
	f, server := newFleet(t)
	say(t, server, 42, "waits")
	server.SetWebhook("https://example.org/hook")
	o := f.options("m1")
	o.WebhookDelete = true
	f.run(o, echo("m1"))
	waitSent(t, server, 10*time.Second, "m1 waits")
	if n, _ := count(server, "deleteWebhook", 0); n != 1 {
		t.Errorf("deleteWebhook was called %d times", n)
	}
}

// TestTokenRefusedAtStart ends the member, and tells what to do.
func TestTokenRefusedAtStart(t *testing.T) {
	f, _ := newFleet(t)
	f.token = "8112046593:AAwrong-token-of-the-same-bot-000000"
	m := f.run(f.options("m1"), echo("m1"))
	err := m.result(t, 5*time.Second)
	if !errors.Is(err, bot.ErrTokenRefused) {
		t.Fatalf("error %v, want ErrTokenRefused", err)
	}
	if !strings.Contains(err.Error(), "@BotFather") {
		t.Errorf("error %q does not say what to do", err)
	}
	if _, held := f.leader(); held {
		t.Error("F53: the lease was not released")
	}
}
