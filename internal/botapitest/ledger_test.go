package botapitest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tgbridge/internal/botapitest"
)

func TestLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, botapitest.Options{NoLimits: true})
		say(t, s, "a", "b")
		time.Sleep(time.Second)
		r := request("getUpdates", "offset=101&timeout=5")
		r.Header.Set("X-Botapitest-Client", "m1")
		do(s, r)
		time.Sleep(time.Second)
		r = request("sendMessage", "chat_id=5018594437&text=hi")
		r.Header.Set("User-Agent", "tgbridge/1.0")
		do(s, r)
		post(s, "sendMessage", "chat_id=7&text=hi&message_thread_id=3")

		const bot, conn = 8112046593, "192.0.2.1:1234" // httptest's client
		want := []botapitest.Event{
			{Seq: 1, Kind: "injected", Bot: bot, Updates: []int64{100}},
			{Seq: 2, Kind: "injected", Bot: bot, Updates: []int64{101}},
			{Seq: 3, At: time.Second, Kind: "begin", Bot: bot, Method: "getupdates", Conn: conn, Client: "m1", Offset: 101, HasOffset: true, Limit: 100, Timeout: 5},
			{Seq: 4, At: time.Second, Kind: "confirmed", Bot: bot, Method: "getupdates", Request: 3, Offset: 101, Updates: []int64{100}},
			{Seq: 5, At: time.Second, Kind: "handed", Bot: bot, Method: "getupdates", Request: 3, Updates: []int64{101}},
			{Seq: 6, At: time.Second, Kind: "end", Bot: bot, Method: "getupdates", Request: 3, Status: 200},
			{Seq: 7, At: 2 * time.Second, Kind: "begin", Bot: bot, Method: "sendmessage", Conn: conn, Client: "tgbridge/1.0", Chat: chat, Text: "hi"},
			{Seq: 8, At: 2 * time.Second, Kind: "sent", Bot: bot, Method: "sendmessage", Request: 7, Chat: chat, MessageID: 3, Text: "hi"},
			{Seq: 9, At: 2 * time.Second, Kind: "end", Bot: bot, Method: "sendmessage", Request: 7, Status: 200},
			{Seq: 10, At: 2 * time.Second, Kind: "begin", Bot: bot, Method: "sendmessage", Conn: conn, Chat: 7, Thread: 3, Text: "hi"},
			{Seq: 11, At: 2 * time.Second, Kind: "end", Bot: bot, Method: "sendmessage", Request: 10, Status: 400, Error: "Bad Request: chat not found"},
		}
		events, err := s.Ledger(0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, events); diff != "" {
			t.Errorf("ledger (-want +got):\n%s", diff)
		}
		requests := botapitest.Requests(events)
		if len(requests) != 3 || fmt.Sprint(requests[0].Handed(), requests[0].Confirmed()) != "[101] [100]" || requests[2].End.Status != 400 {
			t.Errorf("requests: %+v", requests)
		}
	})
}

func TestLedgerSinceAndForget(t *testing.T) {
	s := newServer(t, botapitest.Options{NoLimits: true})
	say(t, s, "a", "b", "c", "d")
	for since, want := range map[uint64]string{0: "1 2 3 4", 2: "3 4", 4: "", 9: ""} {
		wantEqual(t, fmt.Sprint("since ", since), seqs(s, since), want)
	}
	s.ForgetLedger(2)
	for since, want := range map[uint64]string{0: "3 4", 3: "4"} {
		wantEqual(t, fmt.Sprint("forgotten, since ", since), seqs(s, since), want)
	}
	s.ForgetLedger(99)
	say(t, s, "e")
	wantEqual(t, "all forgotten", seqs(s, 0), "5")
}

func seqs(s *botapitest.Server, since uint64) string {
	events, _ := s.Ledger(since)
	var all []string
	for _, e := range events {
		all = append(all, fmt.Sprint(e.Seq))
	}
	return strings.Join(all, " ")
}

func TestLedgerIsFull(t *testing.T) {
	s := newServer(t, botapitest.Options{NoLimits: true, LedgerLimit: 3})
	say(t, s, "a", "b", "c")
	if _, err := s.Ledger(0); err != nil {
		t.Errorf("at its limit: %v", err)
	}
	say(t, s, "d", "e")
	events, err := s.Ledger(0)
	if !errors.Is(err, botapitest.ErrLedgerFull) || len(events) != 4 || events[3].Kind != botapitest.EventFull {
		t.Errorf("over its limit: %d events, %v", len(events), err)
	}
	never := func(botapitest.Event) bool { return false }
	if _, err := s.WaitEvent(t.Context(), 0, never); !errors.Is(err, botapitest.ErrLedgerFull) {
		t.Errorf("wait: %v", err)
	}
	s.ForgetLedger(4)
	say(t, s, "f")
	wantEqual(t, "after there is room", seqs(s, 0), "5")
}

func TestWaitEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, botapitest.Options{NoLimits: true})
		isSent := func(e botapitest.Event) bool { return e.Kind == botapitest.EventSent }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		found := make(chan botapitest.Event, 1)
		go func() {
			e, err := s.WaitEvent(ctx, 0, isSent)
			if err != nil {
				t.Error(err)
			}
			found <- e
		}()
		say(t, s, "a")
		time.Sleep(time.Second)
		post(s, "sendMessage", "chat_id=5018594437&text=hi")
		if e := <-found; e.Text != "hi" {
			t.Errorf("found %+v", e)
		}
		if _, err := s.WaitEvent(ctx, 4, isSent); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no event: %v", err)
		}
		go s.Close()
		if _, err := s.WaitEvent(t.Context(), 4, isSent); !errors.Is(err, botapitest.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// Many clients at once; the race detector looks on. No update is confirmed
// that was not handed out before, and none twice.
func TestManyAtOnce(t *testing.T) {
	s := newServer(t, botapitest.Options{NoLimits: true})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 50 {
				if _, err := s.Say(botapitest.Message{User: int64(i + 1), Text: fmt.Sprint(n)}); err != nil {
					t.Error(err)
				}
				post(s, "sendMessage", fmt.Sprintf("chat_id=%d&text=a", i+1))
			}
		})
		wg.Go(func() {
			for range 20 {
				var last string
				if all := ids(t, post(s, "getUpdates", "timeout=0&limit=5")); all != "" {
					fields := strings.Fields(all)
					last = fields[len(fields)-1]
				}
				post(s, "getUpdates", "limit=1&offset="+last)
			}
		})
	}
	wg.Wait()
	checkLedger(t, s)
}

func checkLedger(t *testing.T, s *botapitest.Server) {
	t.Helper()
	events, err := s.Ledger(0)
	if err != nil {
		t.Fatal(err)
	}
	handed, confirmed := map[int64]bool{}, map[int64]bool{}
	for _, e := range events {
		for _, id := range e.Updates {
			switch e.Kind {
			case botapitest.EventHanded:
				handed[id] = true
				if confirmed[id] {
					t.Errorf("update %d handed out after it was confirmed", id)
				}
			case botapitest.EventConfirmed:
				if !handed[id] || confirmed[id] {
					t.Errorf("update %d confirmed: handed %v, before %v", id, handed[id], confirmed[id])
				}
				confirmed[id] = true
			}
		}
	}
}
