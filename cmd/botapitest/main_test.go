package main

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"
	"go.uber.org/goleak"

	"tgbridge/internal/botapitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output is what the command has printed so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// await returns the first match of a pattern in what is printed.
func (o *output) await(t *testing.T, pattern string) string {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		o.mu.Lock()
		found := regexp.MustCompile(pattern).FindString(o.b.String())
		o.mu.Unlock()
		if found != "" {
			return found
		}
	}
	t.Fatalf("%q was not printed, but:\n%s", pattern, o.b.String())
	return ""
}

// What is typed reaches the bot, and what the bot does is printed.
func TestConversation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	typed, typing := io.Pipe()
	var out output
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, flags{addr: "127.0.0.1:0", tokens: []string{botapitest.DefaultToken}, user: 5, control: true}, typed, &out)
	}()
	url := out.await(t, `http://127\.0\.0\.1:\d+`)
	bot, err := tgbotapi.NewBotAPIWithAPIEndpoint(botapitest.DefaultToken, url+"/bot%s/%s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(typing, "\nhello\n"); err != nil {
		t.Fatal(err)
	}
	updates, err := bot.GetUpdates(tgbotapi.UpdateConfig{Timeout: 10})
	if err != nil || len(updates) != 1 || updates[0].Message.Text != "hello" {
		t.Fatalf("updates %+v, error %v", updates, err)
	}
	if _, err := io.WriteString(typing, "/as x\n/as 7\nhello\n"); err != nil {
		t.Fatal(err)
	}
	out.await(t, `/as x: not the id of a user\n`)
	updates, err = bot.GetUpdates(tgbotapi.UpdateConfig{Timeout: 10, Offset: updates[0].UpdateID + 1})
	if err != nil || len(updates) != 1 || updates[0].Message.From.ID != 7 || updates[0].Message.Chat.ID != 7 {
		t.Fatalf("updates %+v, error %v", updates, err)
	}
	sent, err := bot.Send(tgbotapi.NewMessage(5, "hello yourself"))
	if err != nil {
		t.Fatal(err)
	}
	out.await(t, `\[chat 5\] hello yourself\n`)
	if _, err := bot.Send(tgbotapi.NewEditMessageText(5, sent.MessageID, "bye")); err != nil {
		t.Fatal(err)
	}
	out.await(t, `\[chat 5\] message 3 is now: bye\n`)
	file := tgbotapi.NewDocument(5, tgbotapi.FileReader{Name: "a.txt", Reader: strings.NewReader("hello")})
	if _, err := bot.Send(file); err != nil {
		t.Fatal(err)
	}
	out.await(t, `\[chat 5\] file a.txt, 5 bytes\n`)
	if _, err := bot.Request(tgbotapi.NewDeleteMessage(5, sent.MessageID)); err != nil {
		t.Fatal(err)
	}
	out.await(t, `\[chat 5\] message 3 deleted\n`)
	typing.Close() // the server goes on for the bots
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWrongToken(t *testing.T) {
	err := run(t.Context(), flags{addr: "127.0.0.1:0", tokens: []string{"hunter2"}}, strings.NewReader(""), io.Discard)
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v", err)
	}
}
