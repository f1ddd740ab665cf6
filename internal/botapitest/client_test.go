package botapitest_test

import (
	"testing"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"tgbridge/internal/botapitest"
)

// The client library of tgbridge, unmodified: urlencoded, allowed_updates=null,
// numbers as text.
func TestTelegramBotAPI(t *testing.T) {
	s := newServer(t, botapitest.Options{NoLimits: true})
	running, err := s.Start("")
	if err != nil {
		t.Fatal(err)
	}
	bot, err := tgbotapi.NewBotAPIWithAPIEndpoint(botapitest.DefaultToken, running.URL+"/bot%s/%s")
	if err != nil {
		t.Fatal(err)
	}
	if bot.Self.ID != 8112046593 || bot.Self.UserName != "lantern_bridge_bot" {
		t.Errorf("getMe: %+v", bot.Self)
	}
	say(t, s, "hello")
	updates, err := bot.GetUpdates(tgbotapi.UpdateConfig{Timeout: 5})
	if err != nil || len(updates) != 1 || updates[0].Message.Text != "hello" {
		t.Fatalf("updates %+v, error %v", updates, err)
	}
	reply := tgbotapi.NewMessage(updates[0].Message.Chat.ID, "hello yourself 🚢")
	reply.ReplyToMessageID = updates[0].Message.MessageID
	sent, err := bot.Send(reply)
	if err != nil || sent.Text != reply.Text || sent.ReplyToMessage.Text != "hello" {
		t.Errorf("sent %+v, error %v", sent, err)
	}
	if _, err := bot.Send(tgbotapi.NewEditMessageText(chat, sent.MessageID, "changed")); err != nil {
		t.Errorf("edit: %v", err)
	}
	if _, err := bot.Request(tgbotapi.NewChatAction(chat, "typing")); err != nil {
		t.Errorf("action: %v", err)
	}
	if _, err := bot.Request(tgbotapi.NewDeleteMessage(chat, sent.MessageID)); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := bot.Request(tgbotapi.DeleteWebhookConfig{}); err != nil {
		t.Errorf("deleteWebhook: %v", err)
	}
	_, err = bot.Send(tgbotapi.NewMessage(99, "x"))
	if refused, ok := err.(*tgbotapi.Error); !ok || refused.Code != 400 || refused.Message != "Bad Request: chat not found" {
		t.Errorf("unknown chat: %v", err)
	}
	begin := time.Now()
	if updates, err = bot.GetUpdates(tgbotapi.UpdateConfig{Offset: updates[0].UpdateID + 1, Timeout: 1}); err != nil || len(updates) != 0 {
		t.Errorf("confirmed: %+v, error %v", updates, err)
	}
	if took := time.Since(begin); took < time.Second || s.Pending() != 0 {
		t.Errorf("took %v, %d pending", took, s.Pending())
	}
}
