package telegram_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tgbridge/internal/telegram"
)

// outcome is what a scripted request ends with.
type outcome struct {
	result string
	err    error
	takes  time.Duration
}

type request struct {
	method string
	params map[string]string
	at     time.Time
}

// script is a client that answers with the outcomes in turn, the last one for
// ever, and notes the requests.
type script struct {
	outcomes []outcome
	// decide, if set, gives the outcome instead.
	decide func(r request) outcome

	mu    sync.Mutex
	calls []request
}

func (s *script) Call(ctx context.Context, method string, params map[string]string) (json.RawMessage, error) {
	s.mu.Lock()
	r := request{method: method, params: maps.Clone(params), at: time.Now()}
	s.calls = append(s.calls, r)
	o := outcome{result: "true"}
	switch n := min(len(s.calls), len(s.outcomes)); {
	case s.decide != nil:
		o = s.decide(r)
	case n > 0:
		o = s.outcomes[n-1]
	}
	s.mu.Unlock()
	if o.takes > 0 {
		select {
		case <-time.After(o.takes):
		case <-ctx.Done():
			return nil, &telegram.TransportError{Method: method, Sent: true, Err: context.Cause(ctx)}
		}
	}
	if o.err != nil {
		return nil, o.err
	}
	return json.RawMessage(o.result), nil
}

// times returns when the requests came, in seconds since begin.
func (s *script) times(begin time.Time) []float64 {
	var all []float64
	for _, r := range s.calls {
		all = append(all, r.at.Sub(begin).Seconds())
	}
	return all
}

func newAPI(t *testing.T, caller telegram.Caller, o telegram.APIOptions) *telegram.API {
	t.Helper()
	api, err := telegram.NewAPI(caller, o)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func to(chat string) map[string]string { return map[string]string{"chat_id": chat, "text": "x"} }

var (
	refused = &telegram.TransportError{Method: "sendMessage", Err: syscall.ECONNREFUSED}
	cutOff  = &telegram.TransportError{Method: "sendMessage", Sent: true, Err: syscall.ECONNRESET}
	badGate = &telegram.Error{Method: "sendMessage", Status: 502, Code: 502, Description: "Bad Gateway"}
	blocked = &telegram.Error{Method: "sendMessage", Status: 403, Code: 403, Description: "Forbidden: bot was blocked by the user"}
	same    = &telegram.Error{Method: "editMessageText", Status: 400, Code: 400, Description: "Bad Request: message is not modified: x"}
)

func tooMany(d time.Duration) error {
	return &telegram.Error{Method: "sendMessage", Status: 429, Code: 429, Description: "Too Many Requests", RetryAfter: d}
}

// TestRepetition is the table of G7: what is repeated, how often, and what the
// caller is told in the end.
func TestRepetition(t *testing.T) {
	tests := []struct {
		name     string
		method   string
		outcomes []outcome
		requests int // 0 for: more than one
		result   string
		is       error
		unknown  bool
		noEffect bool
	}{
		{"success", "sendMessage", []outcome{{result: "7"}}, 1, "7", nil, false, false},
		{"F32 refused, then back", "sendMessage", []outcome{{err: refused}, {err: refused}, {result: "7"}}, 3, "7", nil, false, false},
		{"F32 stored, then cut off", "sendMessage", []outcome{{err: cutOff}}, 1, "", cutOff, true, false},
		{"refused, then cut off", "sendMessage", []outcome{{err: refused}, {err: cutOff}}, 2, "", cutOff, true, false},
		{"down for good", "sendMessage", []outcome{{err: refused}}, 0, "", refused, false, true},
		{"5xx, then back", "sendMessage", []outcome{{err: badGate}, {result: "7"}}, 2, "7", nil, false, false},
		{"5xx for good", "sendMessage", []outcome{{err: badGate}}, 0, "", badGate, true, false},
		{"5xx, then down for good", "sendMessage", []outcome{{err: badGate}, {err: refused}}, 0, "", refused, true, false},
		{"5xx, then refused by Telegram", "sendMessage", []outcome{{err: badGate}, {err: blocked}}, 2, "", blocked, true, false},
		{"5xx, then already so", "editMessageText", []outcome{{err: badGate}, {err: same}}, 2, "true", nil, false, false},
		{"refused by Telegram", "sendMessage", []outcome{{err: blocked}}, 1, "", blocked, false, false},
		{"already so, but no edit", "sendMessage", []outcome{{err: same}}, 1, "", same, false, false},
		{"penalties", "sendMessage", []outcome{{err: tooMany(1)}, {err: tooMany(0)}, {err: tooMany(0)}, {result: "7"}}, 4, "7", nil, false, false},
		{"penalty, then cut off", "sendMessage", []outcome{{err: tooMany(time.Second)}, {err: cutOff}}, 2, "", cutOff, true, false},
		{"read cut off", "getChat", []outcome{{err: cutOff}, {result: "7"}}, 2, "7", nil, false, false},
		{"read cut off for good", "getChat", []outcome{{err: cutOff}}, 0, "", cutOff, false, false},
		{"read 5xx for good", "GETCHAT", []outcome{{err: badGate}}, 0, "", badGate, false, false},
		{"read of too much", "getChat", []outcome{{err: &telegram.TransportError{Sent: true, Err: telegram.ErrAnswerTooLarge}}}, 1, "", telegram.ErrAnswerTooLarge, false, false},
		{"other error of the client", "sendMessage", []outcome{{err: context.Canceled}}, 1, "", context.Canceled, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caller := &script{outcomes: tt.outcomes}
				api := newAPI(t, caller, telegram.APIOptions{MaxWait: 2 * time.Minute})
				begin := time.Now()
				result, err := api.Call(t.Context(), tt.method, to("5018594437"))
				if string(result) != tt.result {
					t.Errorf("result %s, want %s", result, tt.result)
				}
				if !errors.Is(err, tt.is) {
					t.Errorf("error %v, want %v", err, tt.is)
				}
				if got := errors.Is(err, telegram.ErrOutcomeUnknown); got != tt.unknown {
					t.Errorf("error %v: of unknown outcome %v, want %v", err, got, tt.unknown)
				}
				if got := telegram.SurelyNoEffect(err); got != tt.noEffect {
					t.Errorf("SurelyNoEffect(%v) = %v, want %v", err, got, tt.noEffect)
				}
				n := len(caller.calls)
				if tt.requests > 0 && n != tt.requests || tt.requests == 0 && (n < 8 || n > 20) {
					t.Errorf("%d requests", n)
				}
				if took := time.Since(begin); took > 2*time.Minute {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// TestDelays checks that repetitions come at growing distances.
func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller := &script{outcomes: []outcome{{err: refused}}}
		api := newAPI(t, caller, telegram.APIOptions{})
		begin := time.Now()
		_, _ = api.Call(t.Context(), "getChat", nil)
		at := caller.times(begin)
		for i, want := range []float64{0.5, 1, 2, 4, 8, 15, 15, 15} {
			if got := at[i+1] - at[i]; got < want*0.8 || got > want*1.2 {
				t.Errorf("delay %d: %v s, want about %v", i, got, want)
			}
		}
		// S9: the default bound.
		if took := time.Since(begin); took < 4*time.Minute || took > 5*time.Minute {
			t.Errorf("gave up after %v, want about 5 minutes", took)
		}
	})
}

// TestContext checks that the context's end is heeded at once wherever a call
// waits, and what the caller is told.
func TestContext(t *testing.T) {
	cause := errors.New("lease lost")
	tests := []struct {
		name     string
		outcomes []outcome
		requests int
		unknown  bool
	}{
		{"F18 in a penalty", []outcome{{err: tooMany(20 * time.Second)}}, 1, false},
		{"while it backs off", []outcome{{err: refused}}, 3, false},
		{"while it backs off after 5xx", []outcome{{err: badGate}}, 3, true},
		{"in a request", []outcome{{takes: time.Hour}}, 1, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caller := &script{outcomes: tt.outcomes}
				api := newAPI(t, caller, telegram.APIOptions{Unpaced: true})
				ctx, cancel := context.WithCancelCause(t.Context())
				begin := time.Now()
				time.AfterFunc(2500*time.Millisecond, func() { cancel(cause) })
				_, err := api.Call(ctx, "sendMessage", to("1"))
				if took := time.Since(begin); took != 2500*time.Millisecond {
					t.Errorf("took %v, want 2.5s", took)
				}
				if !errors.Is(err, cause) {
					t.Errorf("error %v, want %v in it", err, cause)
				}
				if got := errors.Is(err, telegram.ErrOutcomeUnknown); got != tt.unknown || telegram.SurelyNoEffect(err) == tt.unknown {
					t.Errorf("error %v: of unknown outcome %v, want %v", err, got, tt.unknown)
				}
				if len(caller.calls) != tt.requests {
					t.Errorf("%d requests, want %d", len(caller.calls), tt.requests)
				}
			})
		})
	}
}

// TestCallTimeout checks the bound of one attempt (S9: the default).
func TestCallTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller := &script{outcomes: []outcome{{takes: time.Hour}}}
		begin := time.Now()
		_, err := newAPI(t, caller, telegram.APIOptions{}).Call(t.Context(), "sendMessage", to("1"))
		if !errors.Is(err, telegram.ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(begin); took != time.Minute {
			t.Errorf("took %v, want 1m", took)
		}
	})
}

func TestRefusedMethods(t *testing.T) {
	caller := &script{}
	api := newAPI(t, caller, telegram.APIOptions{})
	for _, method := range []string{"getUpdates", "GETUPDATES", "setWebhook", "deletewebhook", "logOut", "close", "", "send/Message"} {
		if _, err := api.Call(t.Context(), method, nil); !errors.Is(err, telegram.ErrMethodRefused) {
			t.Errorf("Call(%q): %v, want ErrMethodRefused", method, err)
		}
	}
	if len(caller.calls) != 0 {
		t.Errorf("%d requests were made", len(caller.calls))
	}
	for _, method := range []string{"closeForumTopic", "getWebhookInfo"} {
		if _, err := api.Call(t.Context(), method, nil); err != nil {
			t.Errorf("Call(%q): %v", method, err)
		}
	}
}

// TestCheck checks that ownership is asked for right before each request (G5).
func TestCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("lease lost")
		caller := &script{outcomes: []outcome{{err: tooMany(20 * time.Second)}, {result: "7"}}}
		begin := time.Now()
		checks := 0
		api := newAPI(t, caller, telegram.APIOptions{Check: func(context.Context) error {
			checks++
			if time.Since(begin) >= 20*time.Second {
				return lost
			}
			return nil
		}})
		_, err := api.Call(t.Context(), "sendMessage", to("1"))
		if !errors.Is(err, lost) || !telegram.SurelyNoEffect(err) {
			t.Errorf("error %v, want %v", err, lost)
		}
		if checks != 2 || len(caller.calls) != 1 {
			t.Errorf("%d checks, %d requests, want 2, 1", checks, len(caller.calls))
		}
	})
}

// TestMove is F21: a group that became a supergroup.
func TestMove(t *testing.T) {
	const oldChat, newChat = -4019283746, -1001557912345
	moved := &telegram.Error{Method: "sendMessage", Status: 400, Code: 400, Description: "x", MigrateTo: newChat}
	server := func(r request) outcome {
		if r.params["chat_id"] == "-4019283746" {
			return outcome{err: moved}
		}
		return outcome{result: r.params["text"]}
	}
	t.Run("sent once more, remembered, told", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			caller := &script{decide: server}
			var told []string
			api := newAPI(t, caller, telegram.APIOptions{OnMove: func(from, to int64) { told = append(told, fmt.Sprint(from, " ", to)) }})
			params := map[string]string{"chat_id": "-4019283746", "text": "1"}
			for range 2 {
				if result, err := api.Call(t.Context(), "sendMessage", params); err != nil || string(result) != "1" {
					t.Errorf("%s, %v", result, err)
				}
			}
			// Unpaced methods follow too.
			if _, err := api.Call(t.Context(), "sendChatAction", params); err != nil {
				t.Error(err)
			}
			var chats []string
			for _, r := range caller.calls {
				chats = append(chats, r.params["chat_id"])
			}
			want := []string{"-4019283746", "-1001557912345", "-1001557912345", "-1001557912345"}
			if diff := cmp.Diff(want, chats); diff != "" {
				t.Errorf("chats (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"-4019283746 -1001557912345"}, told); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			if params["chat_id"] != "-4019283746" {
				t.Error("the caller's parameters were changed")
			}
		})
	})
	t.Run("after a restart", func(t *testing.T) {
		caller := &script{decide: server}
		api := newAPI(t, caller, telegram.APIOptions{Moved: map[int64]int64{-1: oldChat, oldChat: newChat}})
		for _, chat := range []string{"-4019283746", "-1"} {
			if _, err := api.Call(t.Context(), "getChat", to(chat)); err != nil {
				t.Error(err)
			}
		}
		if len(caller.calls) != 2 {
			t.Errorf("%d requests, want 2", len(caller.calls))
		}
	})
	t.Run("order is kept", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			caller := &script{decide: server}
			api := newAPI(t, caller, telegram.APIOptions{})
			texts := inOrder(t, 6, func(i int) error {
				_, err := api.Call(t.Context(), "sendMessage", map[string]string{"chat_id": "-4019283746", "text": fmt.Sprint(i)})
				return err
			}, caller)
			if diff := cmp.Diff([]string{"0", "0", "1", "2", "3", "4", "5"}, texts); diff != "" {
				t.Errorf("texts (-want +got):\n%s", diff)
			}
		})
	})
	t.Run("no circle", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			back := &telegram.Error{Method: "sendMessage", Status: 400, Code: 400, Description: "x", MigrateTo: oldChat}
			caller := &script{decide: func(r request) outcome {
				if r.params["chat_id"] == "-4019283746" {
					return outcome{err: moved}
				}
				return outcome{err: back}
			}}
			api := newAPI(t, caller, telegram.APIOptions{})
			if _, err := api.Call(t.Context(), "sendMessage", to("-4019283746")); !errors.Is(err, back) {
				t.Errorf("error %v, want %v", err, back)
			}
			if len(caller.calls) != 2 {
				t.Errorf("%d requests, want 2", len(caller.calls))
			}
		})
	})
	t.Run("circle in the options", func(t *testing.T) {
		api := newAPI(t, &script{}, telegram.APIOptions{Moved: map[int64]int64{1: 2, 2: 1}})
		if _, err := api.Call(t.Context(), "getChat", to("1")); err != nil {
			t.Error(err)
		}
	})
}

// inOrder makes n calls, each begun when the one before has begun to wait, and
// returns the texts of the requests in the order in which they came.
func inOrder(t *testing.T, n int, call func(i int) error, caller *script) []string {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := call(i); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
	}
	wg.Wait()
	var texts []string
	for _, r := range caller.calls {
		texts = append(texts, r.params["text"])
	}
	return texts
}
