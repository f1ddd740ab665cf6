package bot_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tgbridge/bot"
	"tgbridge/internal/botapitest"
)

func TestNewRefuses(t *testing.T) {
	tests := []struct {
		name   string
		change func(o *bot.Options)
		want   string // in the error; "": accepted
	}{
		{"S9 defaults", func(*bot.Options) {}, ""},
		{"no token", func(o *bot.Options) { o.Token = bot.Secret{} }, "bot token: empty"},
		{"F9 token with a line feed", func(o *bot.Options) { o.Token = bot.NewSecret(botapitest.DefaultToken + "\n") }, "a line feed"},
		{"token without a number", func(o *bot.Options) { o.Token = bot.NewSecret("x:AAbotapitest-not-a-real-token-00000") }, "not a bot's number"},
		{"F9 bad address", func(o *bot.Options) { o.APIURL = "htp:/nowhere" }, "neither http nor https"},
		{"route", func(o *bot.Options) { o.Route = "thread" }, "neither sticky nor leader"},
		{"concurrency", func(o *bot.Options) { o.Concurrency = -1 }, "concurrency -1"},
		{"attempts", func(o *bot.Options) { o.Attempts = -1 }, "attempts -1"},
		{"handler timeout", func(o *bot.Options) { o.HandlerTimeout = -1 }, "handler timeout"},
		{"heartbeat above a fifth", func(o *bot.Options) { o.Heartbeat = 1001 * time.Millisecond }, "heartbeat"},
		{"heartbeat negative", func(o *bot.Options) { o.Heartbeat = -1 }, "heartbeat"},
		{"check above 2 s", func(o *bot.Options) { o.OwnershipCheck, o.StaleAfter = 2100*time.Millisecond, 9*time.Second }, "ownership check"},
		{"check above half", func(o *bot.Options) { o.OwnershipCheck, o.StaleAfter = 2*time.Second, 3*time.Second }, "ownership check"},
		{"redeliver below twice", func(o *bot.Options) { o.RedeliverAfter = 9 * time.Second }, "redeliver-after"},
		{"poll above 50 s", func(o *bot.Options) { o.PollTimeout = 51 * time.Second }, "poll timeout"},
		{"poll below 1 s", func(o *bot.Options) { o.PollTimeout = 500 * time.Millisecond }, "poll timeout"},
		{"poll of a part of a second", func(o *bot.Options) { o.PollTimeout = 1500 * time.Millisecond }, "poll timeout"},
		{"user 0", func(o *bot.Options) { o.AllowedUsers = []int64{0} }, "allowed user 0"},
		{"a chat's id for a user's", func(o *bot.Options) { o.AllowedUsers = []int64{-1001557912345} }, "allowed user -1001557912345"},
		{"name with a line feed", func(o *bot.Options) { o.Name = "a\nb" }, "name"},
		{"name too long for the bus", func(o *bot.Options) { o.Name = strings.Repeat("n", 101) }, "name"},
		{"all at once", func(o *bot.Options) { o.Concurrency, o.Attempts = -1, -1 }, "attempts -1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := bot.Options{Token: bot.NewSecret(botapitest.DefaultToken), StateDir: t.TempDir()}
			tt.change(&o)
			_, err := bot.New(o)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, bot.ErrOptions) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "AAbotapitest") {
				t.Errorf("G8: the error shows the token: %v", err)
			}
		})
	}
}
