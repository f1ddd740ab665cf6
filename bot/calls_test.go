package bot_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"tgbridge/bot"
	"tgbridge/bus"
	"tgbridge/internal/botapitest"
)

// TestF16ResultsThatAreTrue: success is judged by ok, and each call is one
// request.
func TestF16ResultsThatAreTrue(t *testing.T) {
	f, server := newFleet(t)
	m := f.run(f.options("m1"), echo("m1"))
	say(t, server, 42, "hello") // the chat is known from now on
	waitSent(t, server, 10*time.Second, "m1 hello")
	for _, c := range []struct {
		method string
		params map[string]any
	}{
		{"sendChatAction", map[string]any{"chat_id": 42, "action": "typing"}},
		{"deleteMessage", map[string]any{"chat_id": 42, "message_id": 1}},
	} {
		_, since := count(server, c.method, 0)
		result, err := m.Call(context.Background(), c.method, c.params)
		if err != nil || string(result) != "true" {
			t.Errorf("%s: %s, %v", c.method, result, err)
		}
		if n, _ := count(server, c.method, since); n != 1 {
			t.Errorf("%s: %d requests", c.method, n)
		}
	}
}

// TestG7UnknownOutcome: the message is stored, then the connection drops (F32):
// exactly one message. A caller is told; a reply is a dead letter.
func TestG7UnknownOutcome(t *testing.T) {
	for _, act := range []botapitest.FaultAct{botapitest.FaultCut, botapitest.FaultCutBody} {
		t.Run(string(act), func(t *testing.T) {
			f, server := newFleet(t)
			m := f.run(f.options("m1"), echo("m1"))
			say(t, server, 42, "hello")
			waitSent(t, server, 10*time.Second, "m1 hello")
			fault := botapitest.Fault{Method: "sendMessage", Times: 1, Act: act, Effect: true, Reset: act == botapitest.FaultCut}
			if _, err := server.AddFault(fault); err != nil {
				t.Fatal(err)
			}
			_, err := m.Call(context.Background(), "sendMessage", map[string]any{"chat_id": 42, "text": "call"})
			if !errors.Is(err, bot.ErrOutcomeUnknown) {
				t.Errorf("error %v, want ErrOutcomeUnknown", err)
			}
			if _, err := server.AddFault(fault); err != nil {
				t.Fatal(err)
			}
			say(t, server, 42, "spoiled")
			say(t, server, 42, "next")
			waitSent(t, server, 10*time.Second, "call", "m1 spoiled", "m1 next")
			if n := f.status().DeadLetters; n != 1 {
				t.Errorf("%d dead letters, want 1: nobody knows whether the reply arrived", n)
			}
			if n, _ := count(server, "sendMessage", 0); n != 4 {
				t.Errorf("%d requests for four messages", n)
			}
		})
	}
}

// TestF32ServerAway: while the server refuses connections a reply and a call
// wait; both arrive once when it is back.
func TestF32ServerAway(t *testing.T) {
	t.Parallel()
	server, err := botapitest.New(botapitest.Options{NoLimits: true})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	running, err := server.Start("")
	if err != nil {
		t.Fatal(err)
	}
	f, _ := newFleet(t)
	f.server, f.api = server, running.URL
	work := make(chan struct{})
	m := f.run(f.options("m1"), bot.HandlerFunc(func(_ context.Context, u *bot.Update) (bot.Reply, error) {
		if u.Text() == "slow" {
			<-work
		}
		return bot.Reply{Text: u.Text()}, nil
	}))
	say(t, server, 42, "first")
	waitSent(t, server, 10*time.Second, "first")
	say(t, server, 42, "slow")
	f.waitPending(1)
	running.Close()
	time.Sleep(300 * time.Millisecond) // until the client has seen that its connections are closed
	close(work)
	called := make(chan error, 1)
	go func() {
		_, err := m.Call(context.Background(), "sendMessage", map[string]any{"chat_id": 42, "text": "called"})
		called <- err
	}()
	time.Sleep(1500 * time.Millisecond)
	back, err := server.Start(strings.TrimPrefix(running.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	defer m.end(t)
	if err := <-called; err != nil {
		t.Error(err)
	}
	waitSent(t, server, 10*time.Second, "slow", "called")
	if e, _ := f.leader(); e.Epoch != 1 {
		t.Errorf("the outage moved the lease: term %d", e.Epoch)
	}
}

// raw makes a request to the leader's bus with headers of the test's choice.
func (f *fleet) raw(path string, headers map[string]string, body string) (status int, answer string) {
	f.t.Helper()
	e, _ := f.leader()
	socket := bot.Target(f.dir(), e).Socket
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}}
	r, err := http.NewRequest(http.MethodPost, "http://bus"+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+e.BusSecret.Reveal())
	r.Header.Set(bus.HeaderProtocol, bus.Protocol)
	r.Header.Set(bus.HeaderTerm, fmt.Sprint(e.Epoch))
	r.Header.Set(bus.HeaderInstance, "test-command")
	r.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	resp, err := client.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// TestS5SameRequest: a request id is one call, however often and at once it is
// asked for; with other bytes it is refused.
func TestS5SameRequest(t *testing.T) {
	f, server := newFleet(t)
	f.run(f.options("m1"), echo("m1"))
	say(t, server, 42, "hello")
	waitSent(t, server, 10*time.Second, "m1 hello")
	if _, err := server.AddFault(botapitest.Fault{Method: "sendMessage", Act: botapitest.FaultDelay, Latency: 200 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	const body = `{"chat_id":42,"text":"once"}`
	ask := func(body string) (int, string) {
		return f.raw("/v1/telegram/sendMessage", map[string]string{bus.HeaderRequest: "r1"}, body)
	}
	answers := make([]string, 5)
	var asked sync.WaitGroup
	for i := range answers[:4] {
		asked.Go(func() { _, answers[i] = ask(body) })
	}
	asked.Wait()
	_, answers[4] = ask(body)
	for _, a := range answers {
		if a != answers[0] || !strings.Contains(a, `"ok":true`) {
			t.Errorf("answers %q and %q", answers[0], a)
		}
	}
	waitSent(t, server, time.Second, "once")
	if status, a := ask(`{"chat_id":42,"text":"other"}`); status != http.StatusUnprocessableEntity || !strings.Contains(a, bus.CodeRequest) {
		t.Errorf("other bytes: %d %s", status, a)
	}
	if sentTexts(server)["other"] > 0 {
		t.Error("other bytes were sent")
	}
}

// TestS11OtherProtocol: a member of another version is refused before any
// effect, and so is one without the secret or of another term (G5, G8).
func TestS11OtherProtocol(t *testing.T) {
	f, server := newFleet(t)
	f.run(f.options("m1"), echo("m1"))
	say(t, server, 42, "hello")
	waitSent(t, server, 10*time.Second, "m1 hello")
	tests := []struct {
		name, header, value string
		status              int
		code                string
	}{
		{"S11 newer", bus.HeaderProtocol, "2", http.StatusUpgradeRequired, bus.CodeProtocol},
		{"S11 none", bus.HeaderProtocol, "", http.StatusUpgradeRequired, bus.CodeProtocol},
		{"G8 wrong secret", "Authorization", "Bearer x", http.StatusUnauthorized, bus.CodeSecret},
		{"G5 earlier term", bus.HeaderTerm, "0", http.StatusConflict, bus.CodeTerm},
		{"G5 later term", bus.HeaderTerm, "2", http.StatusConflict, bus.CodeTerm},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, path := range []string{"/v1/telegram/sendMessage", "/v1/join", "/v1/ack", "/v1/handover"} {
				status, answer := f.raw(path, map[string]string{tt.header: tt.value, bus.HeaderRequest: "r"}, `{"chat_id":42,"text":"no"}`)
				if status != tt.status || !strings.Contains(answer, `"code":"`+tt.code+`"`) {
					t.Errorf("%s: %d %s, want %d %s", path, status, answer, tt.status, tt.code)
				}
			}
		})
	}
	if sentTexts(server)["no"] > 0 {
		t.Error("a refused request had an effect")
	}
	if s := f.status(); s.Term != 1 || len(s.Members) != 1 {
		t.Errorf("status %+v", s)
	}
}

// TestS6EarlierRegistration: what a member sends under an earlier registration of
// its own arrives late and is refused.
func TestS6EarlierRegistration(t *testing.T) {
	f, _ := newFleet(t)
	o := f.options("m1")
	f.run(o, echo("m1"))
	f.waitMembers(1)
	e, _ := f.leader()
	c := f.client(e)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	join := bus.JoinRequest{Instance: "test-command", Name: "late", Concurrency: 1, Leaving: true, Settings: bot.SettingsOf(o)}
	first, err := c.Join(ctx, join)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := c.Join(ctx, join)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, err := c.Ack(ctx, second.Welcome.Registration, bus.AckRequest{}); err != nil {
		t.Errorf("present registration: %v", err)
	}
	if _, err := c.Ack(ctx, first.Welcome.Registration, bus.AckRequest{}); !bus.IsRefused(err, bus.CodeRegistration) {
		t.Errorf("earlier registration: %v, want it refused", err)
	}
	for {
		if _, err := first.Next(); err != nil {
			break // the earlier stream has ended
		}
	}
}

// TestSettingsDiffer: a joiner with other times ends with ErrSettings, which
// names them; the leader goes on.
func TestSettingsDiffer(t *testing.T) {
	f, server := newFleet(t)
	f.run(f.options("m1"), echo("m1"))
	f.waitMembers(1)
	o := f.options("m2")
	o.StaleAfter, o.PollTimeout = 6*time.Second, 20*time.Second
	m := f.run(o, echo("m2"))
	err := m.result(t, 5*time.Second)
	if !errors.Is(err, bot.ErrSettings) {
		t.Fatalf("error %v, want ErrSettings", err)
	}
	for _, want := range []string{"stale-after is 5000 ms at the leader, 6000 ms here", "poll-timeout is 50000 ms at the leader, 20000 ms here"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	say(t, server, 42, "hello")
	waitSent(t, server, 10*time.Second, "m1 hello")
}
