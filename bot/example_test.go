package bot_test

import (
	"context"
	"fmt"
	"os"

	"tgbridge/bot"
	"tgbridge/internal/botapitest"
)

// An echo bot. Any number of processes may run it with one token and one state
// directory: one of them polls, all of them answer.
func ExampleBridge() {
	ctx, api, stateDir, end := exampleServer()
	defer end()
	bridge, err := bot.New(bot.Options{
		Token:        bot.NewSecret(botapitest.DefaultToken), // os.Getenv("TELEGRAM_BOT_TOKEN")
		APIURL:       api,                                    // left out: https://api.telegram.org
		StateDir:     stateDir,
		AllowedUsers: []int64{123456789},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = bridge.Run(ctx, bot.HandlerFunc(func(_ context.Context, u *bot.Update) (bot.Reply, error) {
		return bot.Reply{Text: "You said: " + u.Text()}, nil
	}))
	if err != nil {
		fmt.Println(err)
	}
	// Output: You said: hello
}

// exampleServer starts a server to which a user says hello. It prints the first
// answer and ends the context then.
func exampleServer() (ctx context.Context, api, stateDir string, end func()) {
	server, err := botapitest.New(botapitest.Options{})
	if err != nil {
		panic(err)
	}
	running, err := server.Start("")
	if err != nil {
		panic(err)
	}
	if _, err := server.Say(botapitest.Message{User: 123456789, Text: "hello"}); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "tgbridge-example")
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		defer stop()
		e, _ := server.WaitEvent(context.Background(), 0, func(e botapitest.Event) bool { return e.Kind == botapitest.EventSent })
		fmt.Println(e.Text)
	}()
	return ctx, running.URL, dir, func() {
		<-printed
		running.Close()
		server.Close()
		_ = os.RemoveAll(dir)
	}
}
