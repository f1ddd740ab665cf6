package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mymmrac/telego"
	"github.com/mymmrac/telego/telegoutil"
	"github.com/rs/zerolog"

	"tgbridge/internal/botapitest"
)

const messages = 50

// Telego, unmodified, polls, answers and confirms: each message is answered
// once, in order, also when the server refuses and breaks some of its calls.
func TestTelegoEchoes(t *testing.T) {
	server, err := botapitest.New(botapitest.Options{NoLimits: true, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	running, err := server.Start("")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []botapitest.Fault{
		{Method: "getUpdates", Skip: 1, Times: 1, Act: botapitest.FaultAnswer, Answer: &botapitest.Answer{Status: 502, Body: []byte("<html>")}},
		{Method: "getUpdates", Skip: 2, Times: 1, Act: botapitest.FaultCutBody},
	} {
		if _, err := server.AddFault(f); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	bot, err := telego.NewBot(botapitest.DefaultToken, telego.WithAPIServer(running.URL), telego.WithDiscardLogger())
	if err != nil {
		t.Fatal(err)
	}
	me, err := bot.GetMe(ctx)
	if err != nil || me.Username != "lantern_bridge_bot" {
		t.Fatalf("getMe: %+v, %v", me, err)
	}
	updates, err := bot.UpdatesViaLongPolling(ctx, &telego.GetUpdatesParams{Timeout: 5}, telego.WithLongPollingRetryTimeout(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- echo(ctx, bot, updates) }()
	for i := range messages {
		if _, err := server.Say(botapitest.Message{User: 5018594437, Text: fmt.Sprint("message ", i)}); err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			waitSent(ctx, t, server, fmt.Sprint("message ", i))
		}
	}
	waitSent(ctx, t, server, fmt.Sprint("message ", messages-1))
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	checkEchoes(t, server)
}

// echo sends each message back until the updates end.
func echo(ctx context.Context, bot *telego.Bot, updates <-chan telego.Update) error {
	for u := range updates {
		answer := telegoutil.Message(telegoutil.ID(u.Message.Chat.ID), u.Message.Text)
		answer = answer.WithReplyParameters(&telego.ReplyParameters{MessageID: u.Message.MessageID})
		if _, err := bot.SendMessage(ctx, answer); err != nil && ctx.Err() == nil {
			return fmt.Errorf("answer %q: %w", u.Message.Text, err)
		}
	}
	return nil
}

func waitSent(ctx context.Context, t *testing.T, server *botapitest.Server, text string) {
	t.Helper()
	_, err := server.WaitEvent(ctx, 0, func(e botapitest.Event) bool {
		return e.Kind == botapitest.EventSent && e.Text == text
	})
	if err != nil {
		t.Fatalf("answer to %q: %v", text, err)
	}
}

func checkEchoes(t *testing.T, server *botapitest.Server) {
	t.Helper()
	events, err := server.Ledger(0)
	if err != nil {
		t.Fatal(err)
	}
	next, broken := 0, 0
	for _, e := range events {
		switch {
		case e.Kind == botapitest.EventSent:
			if want := fmt.Sprint("message ", next); e.Text != want {
				t.Errorf("answered %q, want %q", e.Text, want)
			}
			next++
		case e.Kind == botapitest.EventEnd && e.Fault != "":
			broken++
		}
	}
	if next != messages || broken != 2 {
		t.Errorf("%d answers, %d broken polls; want %d and 2", next, broken, messages)
	}
}
