package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"tgbridge/internal/cluster"
)

// The demo's load.
const (
	demoMembers = 3
	demoChats   = 8
	demoRate    = 40 // messages a second
)

// demoCmd shows the bridge at work without Telegram and without a token.
func (c *cli) demoCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it work without a token: members, a test server, and a leader that dies",
		Long: "Run three members against a test server that behaves as Telegram does, talk to them, and kill,\n" +
			"stop, hand over and freeze the one that leads. It takes about 20 seconds and ends with a verdict:\n" +
			"exit code 0 if no message was lost or answered out of order.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := c.untilSignal(cmd.Context())
			defer stop()
			return c.demo(ctx, asJSON)
		},
	}
	hideMemberSettings(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object as the last line")
	return cmd
}

// demo runs the demonstration and returns an error if its verdict is bad.
func (c *cli) demo(ctx context.Context, asJSON bool) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own program: %w", err)
	}
	dir, err := os.MkdirTemp(demoParent(), "tgbridge-")
	if err != nil {
		return fmt.Errorf("make directory of the demo: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	k, err := cluster.New(cluster.Options{
		Argv: []string{self, "echo"}, HandoverArgv: []string{self, "handover"}, Dir: dir,
	})
	if err != nil {
		return fmt.Errorf("start test server: %w", err)
	}
	defer k.Close()
	screen := newDemoScreen(c.stdout, !asJSON && c.drawsTables(), asJSON, c.columns)
	screen.intro()
	watched, endWatch := context.WithCancel(context.WithoutCancel(ctx))
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		screen.follow(watched, k)
	}()
	d := &demo{k: k, screen: screen}
	err = d.run(ctx)
	if ctx.Err() != nil {
		screen.say("stopped on request, without a verdict")
	}
	endWatch()
	<-watching
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	report, err := k.Report()
	if err != nil {
		return fmt.Errorf("judge: %w", err)
	}
	screen.verdict(report)
	if asJSON {
		if err := json.NewEncoder(c.stdout).Encode(demoResultOf(report)); err != nil {
			return err
		}
	}
	if faults := report.Faults(); len(faults) > 0 {
		return errors.New("the demo failed: " + faults[0])
	}
	return nil
}

// demoParent is where the demo's directory is made. Outside Linux the path of a
// socket must be short, and the system's own place for temporary files is not.
func demoParent() string {
	const short = "/tmp"
	if info, err := os.Stat(short); runtime.GOOS == "darwin" && err == nil && info.IsDir() {
		return short
	}
	return "" // the system's
}

// demo is the script.
type demo struct {
	k      *cluster.Cluster
	screen *demoScreen
}

// run plays the script, and waits until every message was answered.
func (d *demo) run(ctx context.Context) error {
	for range demoMembers {
		if _, err := d.k.Start(); err != nil {
			return fmt.Errorf("start member: %w", err)
		}
	}
	if err := d.ready(ctx); err != nil {
		return err
	}
	load, endLoad := context.WithCancel(ctx)
	defer endLoad()
	loaded := make(chan error, 1)
	go func() { loaded <- d.k.Run(load, cluster.Load{Chats: demoChats, PerSecond: demoRate}) }()
	for _, act := range []func(context.Context, *cluster.Member) error{
		d.kill, d.stop, d.handOver, d.freeze, d.kill, d.stop,
	} {
		if !wait(ctx, 1500*time.Millisecond) {
			return context.Cause(ctx)
		}
		if err := d.ready(ctx); err != nil {
			return err
		}
		leader, _ := d.k.Leader()
		if leader == nil {
			continue // it has just changed by itself
		}
		if err := act(ctx, leader); err != nil {
			return err
		}
	}
	wait(ctx, 1500*time.Millisecond)
	endLoad()
	if err := <-loaded; err != nil {
		return fmt.Errorf("send messages: %w", err)
	}
	d.screen.say("waiting for the last answers")
	settle, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	if err := d.k.Settle(settle); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	} // else the report tells what was lost
	return nil
}

// ready waits until a successor is at hand.
func (d *demo) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := d.k.WaitFollowing(ctx); err != nil {
		return fmt.Errorf("wait for the members: %w", err)
	}
	return nil
}

func (d *demo) kill(ctx context.Context, m *cluster.Member) error {
	d.screen.say("%s leads: killing it (kill -9)", m.Name())
	if err := m.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", m.Name(), err)
	}
	return d.replace(ctx, m)
}

func (d *demo) stop(ctx context.Context, m *cluster.Member) error {
	d.screen.say("%s leads: stopping it (SIGTERM)", m.Name())
	if err := m.Terminate(); err != nil {
		return fmt.Errorf("stop %s: %w", m.Name(), err)
	}
	return d.replace(ctx, m)
}

// replace waits for the successor, and starts the member anew.
func (d *demo) replace(ctx context.Context, m *cluster.Member) error {
	if err := d.succeeded(ctx, m); err != nil {
		return err
	}
	select {
	case <-m.Ended():
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(10 * time.Second):
		return fmt.Errorf("%s did not end within 10 s", m.Name())
	}
	if err := m.Restart(); err != nil {
		return fmt.Errorf("restart %s: %w", m.Name(), err)
	}
	return nil
}

func (d *demo) succeeded(ctx context.Context, m *cluster.Member) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	next, err := d.k.WaitPolling(ctx, m)
	if err != nil {
		return fmt.Errorf("wait for the successor of %s: %w", m.Name(), err)
	}
	d.screen.say("%s polls now", next.Name())
	return nil
}

func (d *demo) handOver(ctx context.Context, m *cluster.Member) error {
	d.screen.say("%s leads: asking it to hand over", m.Name())
	if err := d.k.HandOver(ctx, ""); err != nil {
		return fmt.Errorf("hand over: %w", err)
	}
	return d.succeeded(ctx, m)
}

func (d *demo) freeze(ctx context.Context, m *cluster.Member) error {
	d.screen.say("%s leads: freezing it (SIGSTOP); the others notice after 5 s", m.Name())
	err := m.Freeze()
	if errors.Is(err, errors.ErrUnsupported) {
		d.screen.say("this system cannot freeze a process; left out")
		return nil
	}
	if err != nil {
		return fmt.Errorf("freeze %s: %w", m.Name(), err)
	}
	err = d.succeeded(ctx, m)
	d.screen.say("waking %s: it finds that it no longer leads", m.Name())
	return errors.Join(err, m.Thaw())
}

// wait waits, and reports whether ctx goes on.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// demoResult is what --json prints.
type demoResult struct {
	Sent      int            `json:"sent"`
	Received  int            `json:"received"`
	Lost      int            `json:"lost"`
	Doubled   int            `json:"doubled"`
	Disorder  int            `json:"disorder"`
	Failovers []demoFailover `json:"failovers"`
	Verdict   string         `json:"verdict"` // "ok" or "failed"
}

type demoFailover struct {
	Kind  string  `json:"kind"`
	GapMS float64 `json:"gap_ms"`
}

func demoResultOf(r cluster.Report) demoResult {
	out := demoResult{
		Sent: r.Sent, Received: r.Received, Lost: len(r.Lost), Doubled: len(r.Doubled), Disorder: len(r.Disorder),
		Failovers: []demoFailover{}, Verdict: "ok",
	}
	for _, f := range r.Failovers {
		out.Failovers = append(out.Failovers, demoFailover{Kind: demoKind(f.Kind), GapMS: float64(demoGap(f).Microseconds()) / 1000})
	}
	if len(r.Faults()) > 0 {
		out.Verdict = "failed"
	}
	return out
}

// demoKind names what was done to the leader as the demo does.
func demoKind(k cluster.IncidentKind) string {
	switch k {
	case cluster.Terminated:
		return "stop"
	case cluster.Frozen:
		return "freeze"
	}
	return string(k)
}

// demoGap is how long nobody polled. A handover is asked for by a command, whose
// own start is no part of it: it counts from the end of the last poll.
func demoGap(f cluster.Failover) time.Duration {
	if f.Kind == cluster.HandedOver {
		return f.Silent
	}
	return f.Gap
}
