package bot_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"tgbridge/bot"
)

// The test binary is also the member process of these tests: with memberEnv set
// it runs a Bridge as memberMain says.
const (
	memberEnv  = "TGBRIDGE_TEST_MEMBER"
	optionsEnv = "TEST_OPTIONS"
)

func TestMain(m *testing.M) {
	if os.Getenv(memberEnv) != "" {
		os.Exit(memberMain())
	}
	// Most of these tests wait most of the time.
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// memberMain runs a member until SIGTERM. Its options are those of the
// environment, overridden by the JSON object in TEST_OPTIONS; its handler is
// named by TEST_HANDLER (echo if it is empty) and works for TEST_WORK. Handlers
// append "begin" and "end" lines to the file TEST_LOG.
func memberMain() int {
	// Never stopped: a signal that comes at the end must not change the exit code.
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	name := os.Getenv("TEST_NAME")
	o := bot.Options{
		Token: bot.NewSecret(os.Getenv("TEST_TOKEN")), APIURL: os.Getenv("TEST_API"), StateDir: os.Getenv("TEST_STATE"),
		Name: name, Version: name, AllowAll: true, Unpaced: true,
		Logger: zerolog.New(os.Stderr).With().Timestamp().Str("m", name).Logger().Level(zerolog.DebugLevel),
	}
	if text := os.Getenv(optionsEnv); text != "" {
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}
	b, err := bot.New(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	log, err := os.OpenFile(os.Getenv("TEST_LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	w := worker{b: b, name: name, log: log}
	w.lasts, _ = time.ParseDuration(os.Getenv("TEST_WORK"))
	handlers := map[string]bot.HandlerFunc{"": w.echo, "hang": w.hang, "fail": w.fail, "call": w.call, "exit": w.exit}
	if err := b.Run(ctx, handlers[os.Getenv("TEST_HANDLER")]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// worker has the handlers of member processes.
type worker struct {
	b     *bot.Bridge
	name  string
	log   *os.File
	lasts time.Duration
}

func (w worker) note(what string, u *bot.Update) {
	_, _ = fmt.Fprintf(w.log, "%s %d %s %s %d %s\n", what, time.Now().UnixMicro(), w.name, u.Delivery(), u.Attempt(), u.Text())
}

// work lasts its time, and returns the cause if it is cancelled.
func (w worker) work(ctx context.Context) error {
	select {
	case <-time.After(w.lasts):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// echo replies "<name> <text>".
func (w worker) echo(ctx context.Context, u *bot.Update) (bot.Reply, error) {
	w.note("begin", u)
	if err := w.work(ctx); err != nil {
		w.note("cut", u)
		return bot.Reply{}, err
	}
	w.note("end", u)
	return bot.Reply{Text: w.name + " " + u.Text()}, nil
}

// hang never returns on a text that begins with "hang", whatever its context
// says, and echoes the others.
func (w worker) hang(ctx context.Context, u *bot.Update) (bot.Reply, error) {
	if len(u.Text()) >= 4 && u.Text()[:4] == "hang" {
		w.note("begin", u)
		select {}
	}
	return w.echo(ctx, u)
}

// fail fails every time.
func (w worker) fail(_ context.Context, u *bot.Update) (bot.Reply, error) {
	w.note("begin", u)
	return bot.Reply{}, errors.New("it does not work")
}

// call sends "<name> called <text>" by a call of its own, and has no reply.
func (w worker) call(ctx context.Context, u *bot.Update) (bot.Reply, error) {
	w.note("begin", u)
	chat, _ := u.ChatID()
	_, err := w.b.Call(ctx, "sendMessage", map[string]any{"chat_id": chat, "text": w.name + " called " + u.Text()})
	if errors.Is(err, bot.ErrOutcomeUnknown) {
		w.note("unknown", u)
		return bot.Reply{}, nil
	}
	if err != nil {
		w.note("refused", u)
		return bot.Reply{}, err
	}
	w.note("end", u)
	return bot.Reply{}, nil
}

// exit ends the process on the text "exit", as a command that restarts the bot
// would, and echoes the others.
func (w worker) exit(ctx context.Context, u *bot.Update) (bot.Reply, error) {
	if u.Text() == "exit" {
		w.note("begin", u)
		os.Exit(3)
	}
	return w.echo(ctx, u)
}
