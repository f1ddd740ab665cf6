package telegram_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"
	"github.com/google/go-cmp/cmp"

	"tgbridge/internal/secret"
	"tgbridge/internal/telegram"
)

// TestRequestForm checks what is written: path, parameters, headers.
func TestRequestForm(t *testing.T) {
	type request struct {
		Method, Path, Agent string
		Params              url.Values
	}
	var got request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		got = request{r.Method, r.URL.Path, r.UserAgent(), r.PostForm}
		_, _ = io.WriteString(w, `{"ok":true,"result":[]}`)
	}))
	defer server.Close()
	client, err := telegram.NewClient(telegram.ClientOptions{
		Token: secret.New(token), APIURL: server.URL + "/tg/", UserAgent: "tgbridge/1.2",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx := t.Context()
	offset := int64(-1)
	zero := int64(0)
	updates := func(offset *int64, limit int, timeout time.Duration, allowed []string) func() error {
		return func() error { _, err := client.GetUpdates(ctx, offset, limit, timeout, allowed); return err }
	}
	tests := []struct {
		name   string
		do     func() error
		method string
		params url.Values
	}{
		{"call", func() error {
			_, err := client.Call(ctx, "sendMessage", map[string]string{"chat_id": "-1001557912345", "text": "a&b=é\n%"})
			return err
		}, "sendMessage", url.Values{"chat_id": {"-1001557912345"}, "text": {"a&b=é\n%"}}},
		{"no parameters", func() error { _, err := client.Call(ctx, "getMyName", nil); return err }, "getMyName", url.Values{}},
		{"S20 first poll", updates(nil, 0, 0, nil), "getUpdates", url.Values{}},
		{"poll", updates(&zero, 100, 50*time.Second, []string{"message", "poll"}), "getUpdates",
			url.Values{"offset": {"0"}, "limit": {"100"}, "timeout": {"50"}, "allowed_updates": {`["message","poll"]`}}},
		{"part of a second, no kinds", updates(&offset, 1, 1100*time.Millisecond, []string{}), "getUpdates",
			url.Values{"offset": {"-1"}, "limit": {"1"}, "timeout": {"2"}, "allowed_updates": {`[]`}}},
		{"F6 webhook", func() error { return client.DeleteWebhook(ctx) }, "deleteWebhook",
			url.Values{"drop_pending_updates": {"false"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.do(); err != nil {
				t.Fatal(err)
			}
			want := request{http.MethodPost, "/tg/bot" + token + "/" + tt.method, "tgbridge/1.2", tt.params}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMethodNames(t *testing.T) {
	client := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was made") })
	for _, method := range []string{"", "../getMe", "get Me", "getMe?x=1", "getMe\n", "%s", "é", strings.Repeat("a", 65)} {
		if _, err := client.Call(t.Context(), method, nil); !errors.Is(err, telegram.ErrMethodRefused) {
			t.Errorf("Call(%q): %v, want ErrMethodRefused", method, err)
		}
	}
}

// TestUpdatesByteForByte serves all updates in one answer, with blanks between
// them, and bytes that are not UTF-8.
func TestUpdatesByteForByte(t *testing.T) {
	want := append(lines(t, "updates.jsonl"), "{\"update_id\":1,\"x\":\"k\xff\xfe\x80\"}", `{"update_id":2,"a":1,"a":2, "n":9007199254740993 }`)
	body := "{ \"ok\" : true, \"result\":[ \n" + strings.Join(want, " ,\r\n\t") + " ] }"
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
	updates, err := client.GetUpdates(t.Context(), nil, 0, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(updates) != len(want) {
		t.Fatalf("%d updates, want %d", len(updates), len(want))
	}
	for i := range want {
		if string(updates[i]) != want[i] {
			t.Errorf("update %d:\n got %q\nwant %q", i, updates[i], want[i])
		}
	}
}

// TestOneElementCostsNoOther: an update that encoding/json does not take comes
// like the others, byte for byte; Inspect says that it cannot be read, and which
// it is.
func TestOneElementCostsNoOther(t *testing.T) {
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	for name, bad := range map[string]string{
		"nested too deep":     `{"update_id":2,"message":{"x":` + deep + `}}`,
		"the id behind it":    `{"message":{"x":` + deep + `},"update_id":2}`,
		"a control character": "{\"update_id\":2,\"message\":{\"text\":\"\x00\"}}",
		"no escape":           `{"update_id":2,"message":{"text":"\x"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"ok":true,"result":[{"update_id":1},`+bad+`,{"update_id":3}]}`)
			})
			updates, err := client.GetUpdates(t.Context(), nil, 0, 0, nil)
			if err != nil || len(updates) != 3 || string(updates[0]) != `{"update_id":1}` || string(updates[1]) != bad || string(updates[2]) != `{"update_id":3}` {
				t.Fatalf("got %.200q, %v", updates, err)
			}
			_, err = telegram.Inspect(updates[1])
			var unreadable *telegram.UnreadableError
			if !errors.As(err, &unreadable) || !unreadable.HasID || unreadable.ID != 2 {
				t.Errorf("Inspect: %v, want update 2 unreadable", err)
			}
		})
	}
}

// TestDamagedUpdates: an answer whose parts cannot be told apart brings nothing.
func TestDamagedUpdates(t *testing.T) {
	for _, body := range []string{
		`{"ok":true,"result":[{"update_id":1},{"update_id":2]}`,
		`{"ok":true,"result":[{"update_id":1}{"update_id":2}]}`,
		`{"ok":true,"result":[{"update_id":1},]}`,
		`{"ok":true,"result":[{"update_id":1}]`,
		`{"ok":true,"result":[{"update_id":1}]}}`,
		`{"result":[{"update_id":1}]}`,
		`{"ok":"true","result":[{"update_id":1}]}`,
	} {
		client := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		updates, err := client.GetUpdates(t.Context(), nil, 0, 0, nil)
		var transport *telegram.TransportError
		if updates != nil || !errors.As(err, &transport) || !transport.Sent {
			t.Errorf("%s: %q, %v, want a *TransportError", body, updates, err)
		}
	}
}

func TestGetMe(t *testing.T) {
	for _, r := range responses(t) {
		if r.Method != "getMe" || r.Status != http.StatusOK || !strings.HasPrefix(r.Body, "{") {
			continue
		}
		client := serve(t, func(w http.ResponseWriter, _ *http.Request) { r.write(w) })
		bot, err := client.GetMe(t.Context())
		want := telegram.Bot{ID: 8112046593, Username: "lantern_bridge_bot", FirstName: "Lantern"}
		if err != nil || bot != want {
			t.Errorf("GetMe() = %+v, %v, want %+v", bot, err, want)
		}
	}
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"ok":true,"result":true}`) })
	if _, err := client.GetMe(t.Context()); err == nil {
		t.Error("GetMe() of something else than a bot: want an error")
	}
}

// TestResultIsNoList checks getUpdates' results of a wrong shape.
func TestResultIsNoList(t *testing.T) {
	for _, body := range []string{`{"ok":true}`, `{"ok":true,"result":null}`, `{"ok":true,"result":true}`, `{"ok":true,"result":{}}`} {
		client := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		updates, err := client.GetUpdates(t.Context(), nil, 0, 0, nil)
		var transport *telegram.TransportError
		if updates != nil || !errors.As(err, &transport) {
			t.Errorf("%s: %v, %v, want a *TransportError", body, updates, err)
		}
	}
}

func TestBodyCap(t *testing.T) {
	for _, tt := range []struct {
		name string
		size int
		ok   bool
	}{{"at the cap", 1000, true}, {"over the cap", 1001, false}} {
		t.Run(tt.name, func(t *testing.T) {
			const frame = `{"ok":true,"result":""}`
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, strings.Replace(frame, `""`, `"`+strings.Repeat("a", tt.size-len(frame))+`"`, 1))
			}))
			defer server.Close()
			client, err := telegram.NewClient(telegram.ClientOptions{Token: secret.New(token), APIURL: server.URL, MaxBody: 1000})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_, err = client.Call(t.Context(), "getFile", nil)
			if tt.ok && err != nil || !tt.ok && !errors.Is(err, telegram.ErrAnswerTooLarge) {
				t.Errorf("error: %v", err)
			}
			if telegram.SurelyNoEffect(err) {
				t.Error("an answer that is too large had its effect")
			}
		})
	}
}

// TestRedirectsAreNotFollowed checks that the token goes to no other server.
func TestRedirectsAreNotFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer other.Close()
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	_, err := client.Call(t.Context(), "getMe", nil)
	var e *telegram.Error
	if !errors.As(err, &e) || e.Code != http.StatusTemporaryRedirect {
		t.Fatalf("error: %v, want 307", err)
	}
	noSecret(t, err.Error())
	if !strings.Contains(err.Error(), other.URL) {
		t.Errorf("error %q does not tell where to", err)
	}
}

// TestCancel checks that a poll ends at once, and that its connection is
// closed when it has (F12).
func TestCancel(t *testing.T) {
	closed := make(chan struct{})
	polled := make(chan struct{})
	client := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(polled)
		<-r.Context().Done()
		close(closed)
	})
	cause := errors.New("stepping down")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-polled; cancel(cause) }()
	_, err := client.GetUpdates(ctx, nil, 0, 50*time.Second, nil)
	if !errors.Is(err, cause) && !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v, want the cancellation", err)
	}
	if telegram.SurelyNoEffect(err) {
		t.Error("a poll that was answered by silence may have had its effect")
	}
	select {
	case <-closed:
	case <-time.After(5 * time.Second):
		t.Error("the server did not see the close")
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	if _, err := client.Call(ended, "sendMessage", nil); !telegram.SurelyNoEffect(err) {
		t.Errorf("error of an ended context: %v, want one surely without effect", err)
	}
}

// TestPools checks that polls and calls share no connection, and what Reset
// drops.
func TestPools(t *testing.T) {
	var opened atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"ok":true,"result":[]}`)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	client := newClient(t, server.URL)
	poll := func() {
		if _, err := client.GetUpdates(t.Context(), nil, 0, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	call := func() {
		if _, err := client.Call(t.Context(), "getMe", nil); err != nil {
			t.Fatal(err)
		}
	}
	for i, step := range []struct {
		do   func()
		want int32
	}{{poll, 1}, {call, 2}, {poll, 2}, {call, 2}, {func() { client.Reset(); poll() }, 3}, {call, 3}, {func() { client.Close(); call(); poll() }, 5}} {
		step.do()
		if got := opened.Load(); got != step.want {
			t.Fatalf("after step %d: %d connections, want %d", i, got, step.want)
		}
	}
}

// TestPrintedClientShowsNoToken prints everything that holds a token (G8).
func TestPrintedClientShowsNoToken(t *testing.T) {
	client := newClient(t, "")
	api, err := telegram.NewAPI(client, telegram.APIOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		noSecret(t, fmt.Sprintf(verb, client))
		noSecret(t, fmt.Sprintf(verb, *client)) //nolint:govet // copied to be printed
		noSecret(t, fmt.Sprintf(verb, api))
	}
}

// recordedLog notes whether the library logs.
type recordedLog struct{ lines atomic.Int32 }

func (l *recordedLog) Println(...any)        { l.lines.Add(1) }
func (l *recordedLog) Printf(string, ...any) { l.lines.Add(1) }

// TestLibraryLogsNothing checks that no path of ours makes the library log
// (F9).
func TestLibraryLogsNothing(t *testing.T) {
	recorded := &recordedLog{}
	if err := tgbotapi.SetLogger(recorded); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tgbotapi.SetLogger(log.New(os.Stderr, "", log.LstdFlags)) }() // its default
	all := responses(t)
	next := 0
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) { all[next].write(w) })
	for next = range all {
		_, _ = client.Call(t.Context(), all[next].Method, map[string]string{"text": "x"})
		_, _ = client.GetUpdates(t.Context(), nil, 0, 0, nil)
	}
	_, _ = newClient(t, "http://127.0.0.1:1").Call(t.Context(), "getMe", nil)
	if n := recorded.lines.Load(); n != 0 {
		t.Errorf("the library logged %d lines", n)
	}
}
