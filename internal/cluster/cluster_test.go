package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"tgbridge/bot"
	"tgbridge/internal/cluster"
)

// The test binary is also the member of these tests' clusters: started with
// memberArg it runs a Bridge that echoes, configured by tgbridge's environment;
// with handoverArg it refuses to hand over.
const (
	memberArg   = "member-of-the-test-cluster"
	handoverArg = "handover-of-the-test-cluster"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case memberArg:
			os.Exit(memberMain())
		case handoverArg:
			fmt.Println("nobody to hand over to:", os.Args[2:])
			os.Exit(1)
		}
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
		Heartbeat: setting("HEARTBEAT"), StaleAfter: setting("STALE_AFTER"),
		OwnershipCheck: setting("OWNERSHIP_CHECK"), RedeliverAfter: setting("REDELIVER_AFTER"),
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

// setting is a duration of tgbridge's environment, 0 if there is none.
func setting(name string) time.Duration {
	d, _ := time.ParseDuration(os.Getenv("TGBRIDGE_" + name))
	return d
}

// newCluster starts a cluster whose members find out after a second that one
// hangs.
func newCluster(t *testing.T, members int) *cluster.Cluster {
	t.Helper()
	c, err := cluster.New(cluster.Options{
		Argv: []string{os.Args[0], memberArg}, HandoverArgv: []string{os.Args[0], handoverArg}, Dir: t.TempDir(),
		Env: []string{
			"TGBRIDGE_HEARTBEAT=200ms", "TGBRIDGE_STALE_AFTER=1s",
			"TGBRIDGE_OWNERSHIP_CHECK=200ms", "TGBRIDGE_REDELIVER_AFTER=2s",
		},
	})
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

// faultless reports, and fails the test for each fault.
func faultless(t *testing.T, c *cluster.Cluster) cluster.Report {
	t.Helper()
	r, err := c.Report()
	if err != nil {
		t.Error(err)
	}
	for _, fault := range r.Faults() {
		t.Error(fault)
	}
	return r
}

// A leader that is frozen is replaced; thawed, it does not poll beside its
// successor but follows.
func TestClusterSurvivesAFrozenLeader(t *testing.T) {
	c := newCluster(t, 3)
	ctx := within(t, 50*time.Second)
	first, err := c.WaitPolling(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(ctx, cluster.Load{Chats: 3, PerSecond: 100, Total: 30}); err != nil {
		t.Fatal(err)
	}
	if err := c.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	if err := first.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := c.Run(ctx, cluster.Load{Chats: 3, PerSecond: 20, Total: 30}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.WaitPolling(ctx, first); err != nil {
		t.Fatal(err)
	}
	if err := first.Thaw(); err != nil {
		t.Fatal(err)
	}
	if err := c.Settle(ctx); err != nil {
		t.Error(err)
	}
	r := faultless(t, c)
	if len(r.Failovers) != 1 || r.Failovers[0].Kind != cluster.Frozen || r.Failovers[0].Gap > 10*time.Second {
		t.Errorf("failovers %+v", r.Failovers)
	}
	t.Logf("gap %v", r.Failovers[0].Gap)
}

// A leader that is cut off Telegram goes on leading, and polls when it can.
func TestClusterKeepsALeaderThatIsCutOff(t *testing.T) {
	c := newCluster(t, 2)
	ctx := within(t, 50*time.Second)
	leader, err := c.WaitPolling(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Disconnect(); err != nil {
		t.Fatal(err)
	}
	if err := c.Run(ctx, cluster.Load{PerSecond: 100, Total: 10}); err != nil {
		t.Fatal(err)
	}
	if err := leader.Reconnect(); err != nil {
		t.Fatal(err)
	}
	if err := c.Settle(ctx); err != nil {
		t.Error(err)
	}
	if r := faultless(t, c); len(r.Failovers) != 0 || len(r.Leases) != 1 {
		t.Errorf("failovers %+v, leases %+v", r.Failovers, r.Leases)
	}
}

// The leader hands over to the member that is named, asked on the bus.
func TestHandover(t *testing.T) {
	c, err := cluster.New(cluster.Options{Argv: []string{os.Args[0], memberArg}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3 {
		if _, err := c.Start(); err != nil {
			t.Fatal(err)
		}
	}
	ctx := within(t, 30*time.Second)
	leader, err := c.WaitPolling(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.WaitFollowing(ctx); err != nil {
		t.Fatal(err)
	}
	heir := c.Members()[0]
	if heir == leader {
		heir = c.Members()[1]
	}
	if err := c.HandOver(ctx, "nobody"); err == nil {
		t.Error("handed over to a member that does not exist")
	}
	if err := c.HandOver(ctx, heir.Name()); err != nil {
		t.Fatal(err)
	}
	if next, err := c.WaitPolling(ctx, leader); err != nil || next != heir {
		t.Errorf("leader is %v, error %v", next, err)
	}
	if r := faultless(t, c); len(r.Failovers) != 1 || r.Failovers[0].To != heir.Name() || r.Conflicts != 0 {
		t.Errorf("failovers %+v, %d conflicts", r.Failovers, r.Conflicts)
	} else {
		t.Logf("gap %v", r.Failovers[0].Gap)
	}
}

func TestRefusedHandover(t *testing.T) {
	c := newCluster(t, 0)
	if err := c.HandOver(t.Context(), ""); !errors.Is(err, cluster.ErrNoLeader) {
		t.Errorf("without a leader: %v", err)
	}
	if _, err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.WaitPolling(within(t, 20*time.Second), nil); err != nil {
		t.Fatal(err)
	}
	err := c.HandOver(t.Context(), "m7")
	if err == nil || !strings.Contains(err.Error(), "nobody to hand over to: [--to m7]") {
		t.Errorf("refused: %v", err)
	}
	if r := faultless(t, c); len(r.Failovers) != 0 {
		t.Errorf("failovers %+v", r.Failovers)
	}
}

func TestMembersThatDoNotStart(t *testing.T) {
	for name, o := range map[string]cluster.Options{
		"no command":   {Dir: t.TempDir()},
		"no directory": {Argv: []string{"true"}, Dir: filepath.Join(t.TempDir(), "none")},
	} {
		if _, err := cluster.New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	c, err := cluster.New(cluster.Options{Argv: []string{filepath.Join(t.TempDir(), "none")}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Start(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such program: %v", err)
	}
}

// A member that ends by itself is a fault.
func TestMemberThatEndsByItself(t *testing.T) {
	c, err := cluster.New(cluster.Options{Argv: []string{os.Args[0], handoverArg}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m, err := c.Start()
	if err != nil {
		t.Fatal(err)
	}
	<-m.Ended()
	r, err := c.Report()
	if err != nil {
		t.Fatal(err)
	}
	if faults := r.Faults(); len(faults) != 1 || faults[0] != "1 members ended by themselves, the first m1" || m.Exit() == nil {
		t.Errorf("faults %q, exit %v", faults, m.Exit())
	}
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
	r := faultless(t, c)
	if len(r.Failovers) != 2 || r.Failovers[0].Kind != cluster.Killed || r.Failovers[1].Kind != cluster.Terminated || r.Beyond != 0 {
		t.Errorf("failovers %+v, %d requests of others", r.Failovers, r.Beyond)
	}
	t.Logf("%d messages, %d doubled, %d conflicts, failovers %+v, latency %+v", r.Sent, len(r.Doubled), r.Conflicts, r.Failovers, r.Latency)
}
