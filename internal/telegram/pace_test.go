package telegram_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tgbridge/internal/telegram"
)

// TestPace checks when requests are made that are all asked for at once.
func TestPace(t *testing.T) {
	each := func(n int, method, chat string) []request {
		all := make([]request, n)
		for i := range all {
			all[i] = request{method: method, params: to(strings.ReplaceAll(chat, "#", strconv.Itoa(i+1)))}
		}
		return all
	}
	counting := func(n int, step float64) []float64 {
		all := make([]float64, n)
		for i := range all {
			all[i] = float64(i) * step
		}
		return all
	}
	tests := []struct {
		name    string
		calls   []request
		unpaced bool
		want    []float64 // seconds
	}{
		{"one a second in a chat", each(5, "sendMessage", "5018594437"), false, counting(5, 1)},
		{"F58 edits count", slices.Concat(each(2, "editMessageText", "1"), each(2, "SENDMESSAGEDRAFT", "1")), false, counting(4, 1)},
		{"chats delay each other not", each(5, "sendMessage", "#"), false, counting(5, 0)},
		{"20 a minute in a group", each(22, "sendMessage", "-1001557912345"), false, append(counting(20, 1), 60, 61)},
		{"20 a minute by name", each(21, "copyMessage", "@harbour_notes"), false, append(counting(20, 1), 60)},
		{"30 a second in all", each(65, "sendMessage", "#"), false, slices.Concat(counting(30, 0), slices.Repeat([]float64{1}, 30), slices.Repeat([]float64{2}, 5))},
		{"F16 typing and others do not count", slices.Concat(each(50, "sendChatAction", "1"), each(50, "deleteMessage", "-1"), each(50, "answerCallbackQuery", "")), false, counting(150, 0)},
		{"inline messages", []request{
			{method: "editMessageText", params: map[string]string{"inline_message_id": "a"}},
			{method: "editMessageText", params: map[string]string{"inline_message_id": "b"}},
			{method: "editMessageText", params: map[string]string{"inline_message_id": "a"}},
		}, false, []float64{0, 0, 1}},
		{"off", each(100, "sendMessage", "-1001557912345"), true, counting(100, 0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caller := &script{}
				api := newAPI(t, caller, telegram.APIOptions{Unpaced: tt.unpaced})
				begin := time.Now()
				var wg sync.WaitGroup
				for _, r := range tt.calls {
					wg.Go(func() {
						if _, err := api.Call(t.Context(), r.method, r.params); err != nil {
							t.Error(err)
						}
					})
					synctest.Wait()
				}
				wg.Wait()
				if diff := cmp.Diff(tt.want, caller.times(begin)); diff != "" {
					t.Errorf("times (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestPaceOfSlowServer checks that the distance counts from the end of a
// request: that is what the server sees, whatever the network does.
func TestPaceOfSlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller := &script{outcomes: []outcome{{result: "1", takes: 700 * time.Millisecond}}}
		api := newAPI(t, caller, telegram.APIOptions{})
		begin := time.Now()
		for range 3 {
			_, _ = api.Call(t.Context(), "sendMessage", to("1"))
		}
		if diff := cmp.Diff([]float64{0, 1.7, 3.4}, caller.times(begin)); diff != "" {
			t.Errorf("times (-want +got):\n%s", diff)
		}
	})
}

// TestStream is F58: edits one after another and one penalty near the end.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller := &script{}
		caller.decide = func(request) outcome {
			if len(caller.calls) == 18 {
				return outcome{err: tooMany(20 * time.Second)}
			}
			return outcome{result: "true"}
		}
		api := newAPI(t, caller, telegram.APIOptions{})
		begin := time.Now()
		for i := range 20 {
			if _, err := api.Call(t.Context(), "editMessageText", map[string]string{"chat_id": "1", "text": fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
		}
		at := caller.times(begin)
		for i := 1; i < len(at); i++ {
			if at[i]-at[i-1] < 1 {
				t.Errorf("requests at %v and %v s", at[i-1], at[i])
			}
		}
		if at[17] != 17 || at[18] != 37 {
			t.Errorf("around the penalty: %v and %v s, want 17 and 37", at[17], at[18])
		}
		if last := caller.calls[len(caller.calls)-1]; last.params["text"] != "19" || len(caller.calls) != 21 {
			t.Errorf("%d requests, the last with %s", len(caller.calls), last.params["text"])
		}
	})
}

// TestOrder checks that calls of a chat are made in order and one at a time,
// also when the first is repeated and when one gives up.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller := &script{outcomes: []outcome{{err: refused}, {err: badGate}, {result: "1", takes: 3 * time.Second}}}
		api := newAPI(t, caller, telegram.APIOptions{})
		gaveUp := errors.New("gave up")
		texts := inOrder(t, 5, func(i int) error {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if i == 2 {
				time.AfterFunc(time.Second, func() { cancel(gaveUp) })
			}
			_, err := api.Call(ctx, "sendMessage", map[string]string{"chat_id": "1", "text": fmt.Sprint(i)})
			if i == 2 {
				if !errors.Is(err, gaveUp) || !telegram.SurelyNoEffect(err) {
					t.Errorf("error %v, want %v", err, gaveUp)
				}
				return nil
			}
			return err
		}, caller)
		if diff := cmp.Diff([]string{"0", "0", "0", "1", "3", "4"}, texts); diff != "" {
			t.Errorf("texts (-want +got):\n%s", diff)
		}
		for i := 4; i < len(caller.calls); i++ {
			if d := caller.calls[i].at.Sub(caller.calls[i-1].at); d < 4*time.Second {
				t.Errorf("request %d came %v after the one before, which took 3s", i, d)
			}
		}
	})
}

// TestStuckChat is G10: a chat whose requests hang, and one in a long penalty,
// delay no other.
func TestStuckChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller := &script{decide: func(r request) outcome {
			switch r.params["chat_id"] {
			case "1":
				return outcome{takes: time.Hour}
			case "2":
				return outcome{err: tooMany(time.Hour)}
			}
			return outcome{result: "true"}
		}}
		api := newAPI(t, caller, telegram.APIOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 100 {
			for _, chat := range []string{"1", "2"} {
				wg.Go(func() { _, _ = api.Call(ctx, "sendMessage", to(chat)) })
			}
		}
		synctest.Wait()
		begin := time.Now()
		for i := range 10 {
			if _, err := api.Call(t.Context(), "sendMessage", to(fmt.Sprint(100+i))); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("other chats were delayed by %v", took)
		}
		cancel()
		wg.Wait()
	})
}

// TestPenalty checks whom a penalty holds back.
func TestPenalty(t *testing.T) {
	penalised := func(chats ...string) *script {
		left := map[string]bool{}
		for _, chat := range chats {
			left[chat] = true
		}
		return &script{decide: func(r request) outcome {
			if key := r.params["chat_id"]; left[key] {
				left[key] = false
				return outcome{err: tooMany(20 * time.Second)}
			}
			return outcome{result: "true"}
		}}
	}
	tests := []struct {
		name   string
		chats  []string // that are answered with 429 once
		method string
		chat   string
		want   time.Duration // how long the call waits
	}{
		{"another message of the chat", []string{"1"}, "sendMessage", "1", 21 * time.Second},
		{"typing in the chat", []string{"1"}, "sendChatAction", "1", 20 * time.Second},
		{"another chat", []string{"1"}, "sendMessage", "2", 0},
		{"another chat, two penalised", []string{"1", "2"}, "sendMessage", "3", 0},
		{"another chat, three penalised: the whole bot", []string{"1", "2", "3"}, "sendMessage", "4", 20 * time.Second},
		{"without a chat, three penalised", []string{"1", "2", "3"}, "answerCallbackQuery", "", 20 * time.Second},
		{"F18 the same method without a chat", []string{""}, "sendMessage", "", 21 * time.Second},
		{"another method without a chat", []string{""}, "answerInlineQuery", "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := newAPI(t, penalised(tt.chats...), telegram.APIOptions{})
				var wg sync.WaitGroup
				for _, chat := range tt.chats {
					wg.Go(func() { _, _ = api.Call(t.Context(), "sendMessage", to(chat)) })
				}
				synctest.Wait()
				begin := time.Now()
				if _, err := api.Call(t.Context(), tt.method, to(tt.chat)); err != nil {
					t.Error(err)
				}
				if took := time.Since(begin); took != tt.want {
					t.Errorf("waited %v, want %v", took, tt.want)
				}
				wg.Wait()
			})
		})
	}
}

// TestEveryonePenalised checks that no burst follows the end of a penalty of
// the whole bot.
func TestEveryonePenalised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller := &script{}
		caller.decide = func(request) outcome {
			if len(caller.calls) <= 3 {
				return outcome{err: tooMany(5 * time.Second)}
			}
			return outcome{result: "true"}
		}
		api := newAPI(t, caller, telegram.APIOptions{})
		begin := time.Now()
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() { _, _ = api.Call(t.Context(), "sendMessage", to(fmt.Sprint(i))) })
		}
		wg.Wait()
		at := caller.times(begin)
		for i := 30; i < len(at); i++ {
			if at[i]-at[i-30] < 1 {
				t.Errorf("31 requests from %v to %v s", at[i-30], at[i])
			}
		}
	})
}

// TestIdleTargetsAreForgotten is G10: memory does not grow with the chats that
// were ever met.
func TestIdleTargetsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(t, &script{}, telegram.APIOptions{Unpaced: true})
		for i := range 1000 {
			_, _ = api.Call(t.Context(), "sendMessage", to(fmt.Sprint(-i)))
		}
		if n := api.Targets(); n < 1000 {
			t.Fatalf("%d targets", n)
		}
		time.Sleep(2 * time.Minute)
		_, _ = api.Call(t.Context(), "sendMessage", to("1"))
		if n := api.Targets(); n != 1 {
			t.Errorf("%d targets, want 1", n)
		}
	})
}
