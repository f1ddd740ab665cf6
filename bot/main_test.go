package bot_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"tgbridge/bot"
)

// The test binary is also the member process of these tests: with memberEnv set
// it runs a Bridge whose handler echoes, as memberMain says.
const memberEnv = "TGBRIDGE_TEST_MEMBER"

func TestMain(m *testing.M) {
	if os.Getenv(memberEnv) != "" {
		os.Exit(memberMain())
	}
	goleak.VerifyTestMain(m)
}

// memberMain runs a member until SIGTERM. Its handler appends "begin" and "end"
// lines to the log named by TEST_LOG and replies "<name> <text>".
func memberMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	workFor, _ := time.ParseDuration(os.Getenv("TEST_WORK"))
	b, err := bot.New(bot.Options{
		Token: bot.NewSecret(os.Getenv("TEST_TOKEN")), APIURL: os.Getenv("TEST_API"), StateDir: os.Getenv("TEST_STATE"),
		Name: os.Getenv("TEST_NAME"), AllowAll: true, Unpaced: true,
		Logger: zerolog.New(os.Stderr).With().Timestamp().Str("m", os.Getenv("TEST_NAME")).Logger().Level(zerolog.DebugLevel),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	log, err := os.OpenFile(os.Getenv("TEST_LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	err = b.Run(ctx, bot.HandlerFunc(func(ctx context.Context, u *bot.Update) (bot.Reply, error) {
		note := func(what string) {
			fmt.Fprintf(log, "%s %d %s %s %d %s\n", what, time.Now().UnixMicro(), os.Getenv("TEST_NAME"), u.Delivery(), u.Attempt(), u.Text())
		}
		note("begin")
		select {
		case <-time.After(workFor):
		case <-ctx.Done():
			return bot.Reply{}, context.Cause(ctx)
		}
		note("end")
		return bot.Reply{Text: os.Getenv("TEST_NAME") + " " + u.Text()}, nil
	}))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// member is a member process.
type member struct {
	name string
	cmd  *exec.Cmd
}

func (m *member) pid() int { return m.cmd.Process.Pid }

// fleet is a state directory with member processes.
type fleet struct {
	t           *testing.T
	api, state  string
	log         string
	token       string
	extra       []string
	logOfOutput *os.File
}

func (f *fleet) start(name string) *member {
	f.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), memberEnv+"=1", "TEST_NAME="+name, "TEST_API="+f.api, "TEST_STATE="+f.state,
		"TEST_LOG="+f.log, "TEST_TOKEN="+f.token)
	cmd.Env = append(cmd.Env, f.extra...)
	cmd.Stderr = f.logOfOutput
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	m := &member{name: name, cmd: cmd}
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return m
}

// botID is the number in a token.
func botID(token string) int64 {
	head, _, _ := strings.Cut(token, ":")
	id, _ := strconv.ParseInt(head, 10, 64)
	return id
}
