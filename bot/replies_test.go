package bot_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tgbridge/bot"
	"tgbridge/internal/botapitest"
)

// answering makes a number of requests of a method get an answer; all, if times
// is 0. It returns what ends that.
func answering(t *testing.T, server *botapitest.Server, method string, times int, a botapitest.Answer) (end func()) {
	t.Helper()
	id, err := server.AddFault(botapitest.Fault{Method: method, Times: times, Act: botapitest.FaultAnswer, Answer: &a})
	if err != nil {
		t.Fatal(err)
	}
	return func() { server.RemoveFault(id) }
}

// refusal is an answer of the Bot API.
func refusal(code int, description string) botapitest.Answer {
	return botapitest.Answer{Status: code, Body: fmt.Appendf(nil, `{"ok":false,"error_code":%d,"description":%q}`, code, description)}
}

const page = "<html><head><title>a page of somebody else's</title></head></html>"

// waitCount waits until n requests of a method have begun.
func waitCount(t *testing.T, server *botapitest.Server, method string, n int) {
	t.Helper()
	eventually(t, 20*time.Second, func() string {
		if got, _ := count(server, method, 0); got < n {
			return fmt.Sprintf("%d requests of %s, want %d", got, method, n)
		}
		return ""
	})
}

// TestReplyWaitsOutWhatIsNotAboutIt: an answer that every call would get, and
// that surely had no effect, makes no dead letter: the reply waits until it has
// passed, also longer than one call is repeated, and arrives once.
func TestReplyWaitsOutWhatIsNotAboutIt(t *testing.T) {
	redirect := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("G8: a request with the token went to another server")
	}))
	t.Cleanup(redirect.Close)
	answers := map[string]botapitest.Answer{
		"401":             refusal(401, "Unauthorized"),
		"404 of a token":  refusal(404, "Not Found"),
		"421":             refusal(421, "Misdirected Request: unallowed token specified"),
		"400 logged out":  refusal(400, "Logged out"),
		"302 of a portal": {Status: 302, Headers: map[string]string{"Location": redirect.URL}, Body: []byte(page)},
		"307 of a proxy":  {Status: 307, Headers: map[string]string{"Location": redirect.URL}, Body: []byte{}},
		"403 of a portal": {Status: 403, Body: []byte(page)},
		"407 of a proxy":  {Status: 407, Body: []byte(page)},
		"502 of a proxy":  {Status: 502, Body: []byte(page)},
	}
	for name, a := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, server := newFleet(t)
			f.prepare = func(b *bot.Bridge) { bot.GiveUpAfter(b, time.Second) }
			f.run(f.options("m1"), echo("m1"))
			f.waitMembers(1)
			end := answering(t, server, "sendMessage", 0, a)
			say(t, server, 42, "first")
			say(t, server, 42, "second")
			waitCount(t, server, "sendMessage", 5) // the first call was given up by then
			if s := f.status(); s.DeadLetters != 0 || s.Pending != 2 {
				t.Errorf("%d dead letters, %d pending, want 2 pending", s.DeadLetters, s.Pending)
			}
			end()
			waitSent(t, server, 20*time.Second, "m1 first", "m1 second")
			f.waitPending(0)
			if n := f.status().DeadLetters; n != 0 {
				t.Errorf("%d dead letters", n)
			}
		})
	}
}

// TestReplyRefusedForGood: an answer that is about this reply makes it a dead
// letter after one request, and the lane goes on.
func TestReplyRefusedForGood(t *testing.T) {
	f, server := newFleet(t)
	f.run(f.options("m1"), echo("m1"))
	f.waitMembers(1)
	for i, a := range []botapitest.Answer{
		refusal(403, "Forbidden: bot was blocked by the user"),
		refusal(404, "Not Found: method not found"),
		refusal(413, "Request Entity Too Large"),
		{Status: 413, Body: []byte(page)},
		{Status: 200, Body: []byte(page)}, // nobody knows
	} {
		answering(t, server, "sendMessage", 1, a)
		_, since := count(server, "sendMessage", 0)
		after := fmt.Sprint("after ", i)
		say(t, server, 42, "spoiled")
		say(t, server, 42, after)
		waitSent(t, server, 10*time.Second, "m1 "+after)
		if n, _ := count(server, "sendMessage", since); n != 2 {
			t.Errorf("status %d: %d requests, want one and one for the next message", a.Status, n)
		}
		f.waitPending(0)
		if n := f.status().DeadLetters; n != i+1 {
			t.Errorf("status %d: %d dead letters, want %d", a.Status, n, i+1)
		}
	}
}

// TestPollsOutlastAPortal: what somebody in between answers to the first polls of
// all ends no member and deletes no webhook, unlike the same words of Telegram's.
func TestPollsOutlastAPortal(t *testing.T) {
	for _, status := range []int{302, 401, 403, 404, 409} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			f, server := newFleet(t)
			answering(t, server, "getUpdates", 3, botapitest.Answer{Status: status, Body: []byte(page + "webhook")})
			say(t, server, 42, "hello")
			f.run(f.options("m1"), echo("m1"))
			waitSent(t, server, 10*time.Second, "m1 hello")
			if e, _ := f.leader(); e.Epoch != 1 {
				t.Errorf("term %d", e.Epoch)
			}
			if !strings.Contains(f.output.String(), "check network and API address") {
				t.Error("the log does not say what to look at")
			}
		})
	}
}

// TestPassingFailureIsNotKept: a call of a handler that failed for a reason that
// passes is made by the next attempt, not answered from the record.
func TestPassingFailureIsNotKept(t *testing.T) {
	for name, a := range map[string]botapitest.Answer{
		"401": refusal(401, "Unauthorized"),
		"302": {Status: 302, Body: []byte(page)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, server := newFleet(t)
			f.prepare = func(b *bot.Bridge) { bot.GiveUpAfter(b, 200*time.Millisecond) }
			end := answering(t, server, "sendMessage", 0, a)
			var m *local
			var attempts atomic.Int64
			begin := make(chan struct{})
			handler := func(ctx context.Context, u *bot.Update) (bot.Reply, error) {
				<-begin
				if attempts.Add(1) == 2 {
					end()
				}
				_, err := m.Call(ctx, "sendMessage", map[string]any{"chat_id": 42, "text": "from the handler"})
				var refused *bot.CallError
				if u.Attempt() == 1 && !errors.As(err, &refused) {
					t.Errorf("error %v, want the refusal", err)
				}
				return bot.Reply{}, err
			}
			m = f.run(f.options("m1"), bot.HandlerFunc(handler))
			close(begin)
			say(t, server, 42, "work")
			waitSent(t, server, 10*time.Second, "from the handler")
			f.waitPending(0)
			if n := f.status().DeadLetters; n != 0 || attempts.Load() != 2 {
				t.Errorf("%d dead letters after %d attempts, want success in the second", n, attempts.Load())
			}
		})
	}
}

// TestF9NoAnswer: whatever keeps a member from Telegram, it waits, says so, and
// shows no token in log, status or error (which each fleet looks for at its end).
func TestF9NoAnswer(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	reset := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}))
	t.Cleanup(reset.Close)
	for name, address := range map[string]string{
		"F9 connection refused": closed.URL,
		"F9 reset":              reset.URL,
		"F9 no such host":       "http://nobody.invalid",
		"F9 no TLS":             "https" + reset.URL[len("http"):],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := newFleet(t)
			f.api = address
			f.prepare = func(b *bot.Bridge) { bot.GiveUpAfter(b, 100*time.Millisecond) }
			m := f.run(f.options("m1"), echo("m1"))
			f.waitMembers(1)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err := m.Call(ctx, "sendMessage", map[string]any{"chat_id": 42, "text": "x"})
			if err == nil || ctx.Err() != nil {
				t.Errorf("error %v after the call", err)
			}
			var s bot.Status
			eventually(t, 10*time.Second, func() string {
				if s = f.status(); s.Poll.LastError == "" || s.Poll.State != "waiting" {
					return fmt.Sprintf("poll state %+v", s.Poll)
				}
				return ""
			})
			if shown := fmt.Sprint(err, s); strings.Contains(shown, secretPart(f.token)) {
				t.Errorf("G8: the token is shown: %s", shown)
			}
			if f.warnings("no usable answer from Telegram: check network and API address") == 0 {
				t.Error("the log does not say what to look at")
			}
			m.end(t)
			if m.err != nil {
				t.Errorf("the member ended with %v", m.err)
			}
		})
	}
}
