package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"tgbridge/bot"
	"tgbridge/internal/cluster"
)

// The test binary is also the member of these tests' clusters: started with
// memberArg it runs a Bridge that echoes, configured by tgbridge's environment.
const memberArg = "member-of-the-test-cluster"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == memberArg {
		os.Exit(memberMain())
	}
	goleak.VerifyTestMain(m)
}

func memberMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	name := os.Getenv("TGBRIDGE_NAME")
	b, err := bot.New(bot.Options{
		Token: bot.NewSecret(os.Getenv("TELEGRAM_BOT_TOKEN")), APIURL: os.Getenv("TELEGRAM_API_URL"),
		StateDir: os.Getenv("TGBRIDGE_STATE_DIR"), Name: name, AllowAll: true, Unpaced: true,
		Logger: zerolog.New(os.Stderr).With().Timestamp().Logger(),
	})
	if err == nil {
		err = b.Run(ctx, bot.HandlerFunc(func(_ context.Context, u *bot.Update) (bot.Reply, error) {
			return bot.Reply{Text: name + ": " + u.Text()}, nil
		}))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func newCluster(t *testing.T, members int) *cluster.Cluster {
	t.Helper()
	c, err := cluster.New(cluster.Options{Argv: []string{os.Args[0], memberArg}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	t.Cleanup(func() {
		if t.Failed() {
			logMembers(t, c)
		}
	})
	for range members {
		if _, err := c.Start(); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func logMembers(t *testing.T, c *cluster.Cluster) {
	for _, m := range c.Members() {
		for _, path := range m.Logs() {
			text, _ := os.ReadFile(path)
			t.Logf("%s:\n%s", path, text[max(0, len(text)-5000):])
		}
	}
}

// within is a context for what must not take long.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// A cluster of three under load loses its leader by SIGKILL, gets it back, and
// loses the next one by SIGTERM: the report tells of both failovers and of no
// fault.
func TestClusterSurvivesItsLeaders(t *testing.T) {
	c := newCluster(t, 3)
	ctx := within(t, 50*time.Second)
	first, err := c.WaitPolling(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if leader, term := c.Leader(); leader != first || term == 0 {
		t.Errorf("leader is %v under term %d, want %s", leader, term, first.Name())
	}
	loadCtx, stopLoad := context.WithCancel(ctx)
	loaded := make(chan error, 1)
	go func() { loaded <- c.Run(loadCtx, cluster.Load{Chats: 5, PerSecond: 100}) }()

	if err := c.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	second, err := c.WaitPolling(ctx, first)
	if err != nil {
		t.Fatal(err)
	}
	<-first.Ended()
	if err := first.Kill(); !errors.Is(err, cluster.ErrNotRunning) {
		t.Errorf("killed twice: %v", err)
	}
	if err := first.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := second.Restart(); err == nil {
		t.Error("a running member was restarted")
	}
	if err := second.Terminate(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.WaitPolling(ctx, second); err != nil {
		t.Fatal(err)
	}
	<-second.Ended()
	if err := second.Exit(); err != nil {
		t.Errorf("a member that was told to stop: %v", err)
	}
	stopLoad()
	if err := <-loaded; err != nil {
		t.Error(err)
	}
	if err := c.Settle(ctx); err != nil {
		t.Error(err)
	}
	r, err := c.Report()
	if err != nil {
		t.Error(err)
	}
	for _, fault := range r.Faults() {
		t.Error(fault)
	}
	if len(r.Failovers) != 2 || r.Failovers[0].Kind != cluster.Killed || r.Failovers[1].Kind != cluster.Terminated || r.Beyond != 0 {
		t.Errorf("failovers %+v, %d requests of others", r.Failovers, r.Beyond)
	}
	t.Logf("%d messages, %d doubled, %d conflicts, failovers %+v, latency %+v", r.Sent, len(r.Doubled), r.Conflicts, r.Failovers, r.Latency)
}
