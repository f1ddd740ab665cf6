package botapitest_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tgbridge/internal/botapitest"
)

func tooMany(seconds int) string {
	return fmt.Sprintf(`429 {"ok":false,"error_code":429,"description":"Too Many Requests: retry after %d","parameters":{"retry_after":%[1]d}}`, seconds)
}

func newLimited(t *testing.T, chats ...int64) *botapitest.Server {
	s := newServer(t, botapitest.Options{})
	for _, id := range chats {
		s.SetChat(botapitest.Chat{ID: id})
	}
	return s
}

func send(s *botapitest.Server, chat int64) string {
	return post(s, "sendMessage", fmt.Sprintf("chat_id=%d&text=a", chat))
}

func isOK(answer string) bool { return strings.HasPrefix(answer, "200 ") }

func TestLimitOfAChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLimited(t, 1, 2)
		for i := range 3 {
			if answer := send(s, 1); !isOK(answer) {
				t.Fatalf("message %d of a burst: %s", i+1, answer)
			}
		}
		w := do(s, request("sendMessage", "chat_id=1&text=a"))
		wantEqual(t, "fourth", got(w), tooMany(3))
		wantEqual(t, "its Retry-After", w.Header().Get("Retry-After"), "3")
		if answer := send(s, 2); !isOK(answer) {
			t.Errorf("another chat: %s", answer)
		}
		time.Sleep(2500 * time.Millisecond)
		wantEqual(t, "inside the penalty", send(s, 1), tooMany(1))
		time.Sleep(500 * time.Millisecond)
		for i := range 10 {
			if answer := send(s, 1); !isOK(answer) {
				t.Fatalf("message %d, one a second: %s", i+1, answer)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestEditsCountAsMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLimited(t, 1)
		send(s, 1)
		for i := range 2 {
			post(s, "editMessageText", fmt.Sprintf("chat_id=1&message_id=1&text=b%d", i))
		}
		wantEqual(t, "third edit", post(s, "editMessageText", "chat_id=1&message_id=1&text=c"), tooMany(3))
		wantEqual(t, "an action", post(s, "sendChatAction", "chat_id=1&action=typing"), `200 {"ok":true,"result":true}`)
	})
}

func TestLimitOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLimited(t, -5)
		for i := range 20 {
			if answer := send(s, -5); !isOK(answer) {
				t.Fatalf("message %d: %s", i+1, answer)
			}
			time.Sleep(time.Second)
		}
		wantEqual(t, "twenty-first within a minute", send(s, -5), tooMany(40))
		time.Sleep(39 * time.Second)
		wantEqual(t, "still", send(s, -5), tooMany(1))
		time.Sleep(time.Second)
		if answer := send(s, -5); !isOK(answer) {
			t.Errorf("after a minute: %s", answer)
		}
	})
}

func TestLimitOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var chats []int64
		for i := range 40 {
			chats = append(chats, int64(i+1))
		}
		s := newLimited(t, chats...)
		for _, id := range chats[:30] {
			if answer := send(s, id); !isOK(answer) {
				t.Fatalf("chat %d: %s", id, answer)
			}
		}
		wantEqual(t, "thirty-first", send(s, 31), tooMany(5))
		wantEqual(t, "any chat", send(s, 32), tooMany(5))
		time.Sleep(5 * time.Second)
		if answer := send(s, 31); !isOK(answer) {
			t.Errorf("after the penalty: %s", answer)
		}
	})
}

func TestLimitsOff(t *testing.T) {
	s := newLimited(t, 1)
	s.SetLimits(false)
	for range 100 {
		if answer := send(s, 1); !isOK(answer) {
			t.Fatal(answer)
		}
	}
}

func TestSetWebhookTwiceInASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLimited(t)
		post(s, "setWebhook", "url=https://example.org/a")
		wantEqual(t, "at once", post(s, "setWebhook", "url=https://example.org/b"), tooMany(1))
		time.Sleep(time.Second)
		wantEqual(t, "later", post(s, "setWebhook", "url=https://example.org/b"), `200 {"ok":true,"result":true,"description":"Webhook was set"}`)
	})
}
