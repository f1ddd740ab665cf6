// Command outside is an echo bot in a module of its own.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"tgbridge/bot"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	bridge, err := bot.New(bot.Options{
		Token: bot.NewSecret(os.Getenv("TELEGRAM_BOT_TOKEN")), APIURL: os.Getenv("TELEGRAM_API_URL"),
		StateDir: os.Getenv("TGBRIDGE_STATE_DIR"), AllowAll: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	err = bridge.Run(ctx, bot.HandlerFunc(func(_ context.Context, u *bot.Update) (bot.Reply, error) {
		return bot.Reply{Text: u.Text()}, nil
	}))
	if err != nil {
		log.Fatal(err)
	}
}
