package botapitest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tgbridge/internal/botapitest"
)

const (
	conflict     = `409 {"ok":false,"error_code":409,"description":"Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"}`
	empty        = `200 {"ok":true,"result":[]}`
	hookActive   = `409 {"ok":false,"error_code":409,"description":"Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"}`
	hookConflict = `409 {"ok":false,"error_code":409,"description":"Conflict: terminated by setWebhook request"}`
	fiveOfThem   = "100 101 102 103 104"
)

// ids are the update ids of an answer to getUpdates.
func ids(t *testing.T, answer string) string {
	t.Helper()
	var a struct {
		Result []struct {
			UpdateID int64 `json:"update_id"`
		}
	}
	status, body, _ := strings.Cut(answer, " ")
	if err := json.Unmarshal([]byte(body), &a); err != nil || status != "200" {
		t.Fatalf("answer %s: %v", answer, err)
	}
	var all []string
	for _, u := range a.Result {
		all = append(all, fmt.Sprint(u.UpdateID))
	}
	return strings.Join(all, " ")
}

// Five updates, 100 to 104, wait; each row polls a second after the one
// before.
func TestOffsets(t *testing.T) {
	tests := []struct {
		name  string
		polls []string // "arguments -> ids"
	}{
		{"no offset is the oldest and confirms nothing", []string{" -> " + fiveOfThem, " -> " + fiveOfThem}},
		{"offset confirms below", []string{"offset=102 -> 102 103 104", " -> 102 103 104"}},
		{"confirmed for ever", []string{"offset=104 -> 104", "offset=100 -> 104"}},
		{"all confirmed", []string{"offset=105 -> ", " -> "}},
		{"offset below the head", []string{"offset=7 -> " + fiveOfThem}},
		{"offset ten above the next", []string{"offset=115 -> ", " -> "}},
		{"offset farther above is the head", []string{"offset=116 -> " + fiveOfThem, "offset=2000000000 -> " + fiveOfThem}},
		{"minus two drops all but two", []string{"offset=-2 -> 103 104", " -> 103 104"}},
		{"minus more than there are", []string{"offset=-50 -> " + fiveOfThem}},
		{"limit", []string{"limit=2 -> 100 101", "offset=102&limit=2 -> 102 103"}},
		{"limit below 1 is 1", []string{"limit=0 -> 100", "offset=1&limit=-3 -> 100"}},
		{"limit above 100 is 100", []string{"limit=1000 -> " + fiveOfThem}},
		{"digits count, the rest does not", []string{"offset=103abc -> 103 104", "offset=null -> 103 104"}},
		{"offset of 32 bits", []string{"offset=4294967399 -> 103 104"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, botapitest.Options{NoLimits: true})
				say(t, s, "a", "b", "c", "d", "e")
				for _, poll := range tt.polls {
					arguments, want, _ := strings.Cut(poll, " -> ")
					wantEqual(t, arguments, ids(t, post(s, "getUpdates", arguments)), want)
					time.Sleep(time.Second)
				}
			})
		})
	}
}

func TestOffsetFarBelowIsHead(t *testing.T) {
	s := newServer(t, botapitest.Options{NoLimits: true, Bots: []botapitest.BotOptions{
		{Token: botapitest.DefaultToken, FirstUpdateID: 900_000_000},
	}})
	say(t, s, "a", "b")
	wantEqual(t, "far below", ids(t, post(s, "getUpdates", "offset=100")), "900000000 900000001")
}

func TestPollTimes(t *testing.T) {
	tests := []struct {
		name, arguments string
		limits          bool
		before          string // a poll a second before
		want            time.Duration
	}{
		{name: "no timeout", arguments: "", want: 0},
		{name: "seven seconds", arguments: "timeout=7", want: 7 * time.Second},
		{name: "above 50", arguments: "timeout=600", want: 50 * time.Second},
		{name: "negative", arguments: "timeout=-1", want: 0},
		{name: "the same again within three seconds", limits: true, before: "offset=3", arguments: "offset=3", want: 3 * time.Second},
		{name: "the same again without limits", before: "offset=3", arguments: "offset=3", want: 0},
		{name: "another offset", limits: true, before: "offset=3", arguments: "offset=4", want: 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, botapitest.Options{NoLimits: !tt.limits})
				if tt.before != "" {
					post(s, "getUpdates", tt.before)
					time.Sleep(time.Second)
				}
				begin := time.Now()
				wantEqual(t, "answer", post(s, "getUpdates", tt.arguments), empty)
				if took := time.Since(begin); took != tt.want {
					t.Errorf("took %v, want %v", took, tt.want)
				}
			})
		})
	}
}

func TestSameOffsetWithinHalfASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, botapitest.Options{NoLimits: true})
		say(t, s, "a", "b", "c")
		wantEqual(t, "first", ids(t, post(s, "getUpdates", "offset=101")), "101 102")
		time.Sleep(400 * time.Millisecond)
		wantEqual(t, "again", ids(t, post(s, "getUpdates", "offset=101")), "101")
		time.Sleep(501 * time.Millisecond)
		wantEqual(t, "later", ids(t, post(s, "getUpdates", "offset=101")), "101 102")
	})
}

func TestWaitingPollGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, botapitest.Options{})
		answer := make(chan string, 1)
		go func() { answer <- post(s, "getUpdates", "timeout=50") }()
		time.Sleep(10 * time.Second)
		begin := time.Now()
		say(t, s, "a")
		time.Sleep(500 * time.Microsecond)
		say(t, s, "b")
		wantEqual(t, "updates", ids(t, <-answer), "100 101")
		if took := time.Since(begin); took > 2*time.Millisecond {
			t.Errorf("answered after %v", took)
		}
	})
}

func TestEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, botapitest.Options{NoLimits: true})
		poll := func(arguments string) chan string {
			answer := make(chan string, 1)
			go func() { answer <- post(s, "getUpdates", arguments) }()
			synctest.Wait()
			return answer
		}
		first := poll("timeout=50")
		time.Sleep(time.Second)
		wantEqual(t, "a poll without a timeout evicts nobody", post(s, "getUpdates", "offset=1"), empty)
		if len(first) != 0 {
			t.Fatalf("first poll ended: %s", <-first)
		}
		second := poll("timeout=50")
		wantEqual(t, "first", <-first, conflict)

		begin := time.Now()
		third := poll("timeout=50")
		wantEqual(t, "second", <-second, conflict)
		if late := time.Since(begin); late != 3*time.Second {
			t.Errorf("second conflict after %v, want 3s", late)
		}

		say(t, s, "a")
		wantEqual(t, "with updates waiting both get them", ids(t, post(s, "getUpdates", "timeout=50&offset=2")), "100")
		wantEqual(t, "third", ids(t, <-third), "100")
	})
}

func TestPollWhoseClientIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, botapitest.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan any)
		go func() {
			defer func() { gone <- recover() }()
			do(s, request("getUpdates", "timeout=50").WithContext(ctx))
		}()
		time.Sleep(time.Second)
		cancel()
		if r := <-gone; r != http.ErrAbortHandler {
			t.Fatalf("panic %v", r)
		}
		wantEqual(t, "a later poll meets no conflict", post(s, "getUpdates", "timeout=1&offset=5"), empty)
		events, _ := s.Ledger(0)
		requests := botapitest.Requests(events)
		if end := requests[0].End; !end.Gone || end.Status != 0 {
			t.Errorf("end of the poll: %+v", end)
		}
	})
}

func TestAllowedUpdates(t *testing.T) {
	reaction := []byte(`{"update_id":200,"message_reaction":{"chat":{"id":1,"type":"private"}}}`)
	message := []byte(`{"update_id":201,"message":{"message_id":1,"chat":{"id":1,"type":"private"}}}`)
	unknown := []byte(`{"update_id":202,"something_new":{}}`)
	tests := []struct{ name, asked, want string }{
		{"never asked: the default set", "", "201 202"},
		{"empty list: the default set", "allowed_updates=[]", "201 202"},
		{"null changes nothing", "allowed_updates=null", "201 202"},
		{"one kind", `allowed_updates=["message_reaction"]`, "200"},
		{"in any case", `allowed_updates=["MESSAGE"]`, "201"},
		{"unknown names alone are the default set", `allowed_updates=["nothing"]`, "201 202"},
		{"not a list changes nothing", `allowed_updates="message"`, "201 202"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, botapitest.Options{NoLimits: true})
			post(s, "getUpdates", tt.asked)
			if _, err := s.InjectAll([][]byte{reaction, message, unknown}); err != nil {
				t.Fatal(err)
			}
			wantEqual(t, "updates", ids(t, post(s, "getUpdates", "offset=1")), tt.want)
		})
	}
}

func TestAllowedUpdatesStick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, botapitest.Options{NoLimits: true})
		say(t, s, "before")
		wantEqual(t, "what waits is not filtered", ids(t, post(s, "getUpdates", `allowed_updates=["poll"]`)), "100")
		time.Sleep(time.Second)
		post(s, "getUpdates", "offset=101")
		if _, err := s.Say(botapitest.Message{Chat: chat, Text: "after"}); err == nil {
			t.Error("a message was not filtered")
		}
	})
}

func TestLives(t *testing.T) {
	tests := []struct {
		kind string
		life time.Duration
	}{
		{"message", 24 * time.Hour},
		{"callback_query", 150 * time.Second},
		{"inline_query", 30 * time.Second},
		{"chosen_inline_result", 600 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, botapitest.Options{NoLimits: true})
				if _, err := s.Inject([]byte(`{"update_id":500,"` + tt.kind + `":{"id":"1"}}`)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(tt.life)
				wantEqual(t, "at the end of its life", ids(t, post(s, "getUpdates", "offset=1")), "500")
				time.Sleep(time.Second)
				wantEqual(t, "after it", post(s, "getUpdates", "offset=2"), empty)
			})
		})
	}
}

func TestIDsChosenAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, botapitest.Options{NoLimits: true, Bots: []botapitest.BotOptions{
			{Token: botapitest.DefaultToken, FirstUpdateID: 900_000_000},
		}})
		say(t, s, "a")
		if err := s.ChooseIDsAnew(0); err == nil {
			t.Error("ids chosen anew while an update waits")
		}
		wantEqual(t, "old", ids(t, post(s, "getUpdates", "")), "900000000")
		time.Sleep(time.Second)
		wantEqual(t, "confirmed", post(s, "getUpdates", "offset=900000001"), empty)
		if err := s.ChooseIDsAnew(1000); err != nil {
			t.Fatal(err)
		}
		say(t, s, "b")
		wantEqual(t, "new, lower, with the old offset", ids(t, post(s, "getUpdates", "offset=900000001")), "1000")
		time.Sleep(time.Second)
		wantEqual(t, "next", post(s, "getUpdates", "offset=1001"), empty)
	})
}

func TestQueueIsFull(t *testing.T) {
	s := newServer(t, botapitest.Options{NoLimits: true})
	messages := make([]botapitest.Message, 100_001)
	for i := range messages {
		messages[i] = botapitest.Message{Chat: chat, Text: "x"}
	}
	sent, err := s.SayAll(messages)
	if len(sent) != 100_000 || err == nil {
		t.Errorf("%d injected, error %v; want 100000 and ErrQueueFull", len(sent), err)
	}
}
