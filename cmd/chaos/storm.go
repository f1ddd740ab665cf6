package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"tgbridge/internal/cluster"
)

// Bounds of the incidents.
const (
	shortestPause = 200 * time.Millisecond // between incidents
	longestPause  = 2500 * time.Millisecond
	shortestSleep = time.Second // of a frozen member
	longestSleep  = 20 * time.Second
	longestAway   = 2 * time.Second // until an ended member is started anew
	settleWithin  = 3 * time.Minute
)

// storm lets incidents happen for the given time, waits for the last answers,
// and judges.
func storm(ctx context.Context, o options, dir string, progress io.Writer) (result, error) {
	work := strconv.FormatFloat(o.work.Seconds(), 'f', -1, 64)
	k, err := cluster.New(cluster.Options{
		Argv:         []string{o.tgbridge, "exec", "--", "sh", "-c", cluster.RunsScript},
		HandoverArgv: []string{o.tgbridge, "handover"},
		Dir:          dir,
		// Members die more often here than a message may be tried by default.
		Env: []string{cluster.WorkVar + "=" + work, "TGBRIDGE_ATTEMPTS=1000"},
	})
	if err != nil {
		return result{}, fmt.Errorf("start test server: %w", err)
	}
	defer k.Close()
	for range o.members {
		if _, err := k.Start(); err != nil {
			return result{}, fmt.Errorf("start member: %w", err)
		}
	}
	load, endLoad := context.WithCancel(ctx)
	defer endLoad()
	loaded := make(chan error, 1)
	go func() { loaded <- k.Run(load, cluster.Load{Chats: o.chats, PerSecond: o.rate}) }()

	w := &weather{k: k, rand: rand.New(rand.NewPCG(o.seed, 0)), progress: progress, counts: map[string]int{}}
	began := time.Now()
	err = w.blow(ctx, o.duration)
	endLoad()
	if loadErr := <-loaded; err == nil && loadErr != nil {
		err = fmt.Errorf("send messages: %w", loadErr)
	}
	if err != nil {
		return result{}, err
	}
	lasted := time.Since(began)
	w.calm()
	settle, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	if err := k.Settle(settle); err != nil && ctx.Err() != nil {
		return result{}, context.Cause(ctx)
	} // else the report tells what was lost
	report, err := k.Report()
	if err != nil {
		return result{}, fmt.Errorf("judge: %w", err)
	}
	if err := writeReport(filepath.Join(dir, "report.json"), report); err != nil {
		return result{}, err
	}
	runs, err := k.Runs()
	if err != nil {
		return result{}, fmt.Errorf("judge: %w", err)
	}
	return newResult(o, lasted, w.counts, report, runs), nil
}

// writeReport keeps the whole report beside the state and the logs.
func writeReport(path string, r cluster.Report) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// weather makes incidents. One goroutine owns it.
type weather struct {
	k        *cluster.Cluster
	rand     *rand.Rand
	progress io.Writer
	counts   map[string]int
	due      []dueAct
}

// dueAct is something to be done later to a member that is away.
type dueAct struct {
	at     time.Time
	member *cluster.Member
	thaw   bool // else: start anew
}

// blow lets incidents happen until the time is over.
func (w *weather) blow(ctx context.Context, d time.Duration) error {
	end := time.Now().Add(d)
	tell := time.Now()
	next := time.Now().Add(2 * time.Second) // the first leader begins
	for time.Now().Before(end) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
		if err := w.undo(time.Now()); err != nil {
			return err
		}
		if time.Now().After(next) {
			if err := w.strike(ctx); err != nil {
				return err
			}
			next = time.Now().Add(shortestPause + rand64(w.rand, longestPause-shortestPause))
		}
		if time.Since(tell) > 10*time.Second {
			tell = time.Now()
			if r, err := w.k.Report(); err == nil {
				_, _ = fmt.Fprintf(w.progress, "chaos: %v to go, sent %d, waiting %d, incidents %v\n",
					time.Until(end).Round(time.Second), r.Sent, r.Sent-r.Received, w.counts)
			}
		}
	}
	return nil
}

func rand64(r *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(limit)))
}

// strike does one thing to the leader or to another member. One member is always
// left in peace, so that somebody can lead.
func (w *weather) strike(ctx context.Context) error {
	present := w.present()
	if len(present) < 2 {
		return nil
	}
	leader, _ := w.k.Leader()
	victim, of := present[w.rand.IntN(len(present))], "member"
	if leader != nil && w.rand.IntN(3) > 0 && slices.Contains(present, leader) {
		victim = leader
	}
	if victim == leader {
		of = "leader"
	}
	var what string
	var err error
	switch dice := w.rand.IntN(100); {
	case dice < 35:
		what, err = "kill", victim.Kill()
		w.later(longestAway, victim, false)
	case dice < 60:
		what, err = "term", victim.Terminate()
		w.later(longestAway, victim, false)
	case dice < 80:
		what, err = "freeze", victim.Freeze()
		w.due = append(w.due, dueAct{
			at: time.Now().Add(shortestSleep + rand64(w.rand, longestSleep-shortestSleep)), member: victim, thaw: true,
		})
	default:
		if leader == nil {
			return nil
		}
		of, what = "leader", "handover"
		hurry, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		// It may be refused, as there may be nobody to take over: no fault.
		if err := w.k.HandOver(hurry, ""); err != nil {
			what = "handover refused"
		}
	}
	w.counts[what+" "+of]++
	if errors.Is(err, cluster.ErrNotRunning) {
		err = nil
	}
	return err
}

func (w *weather) later(within time.Duration, m *cluster.Member, thaw bool) {
	w.due = append(w.due, dueAct{at: time.Now().Add(rand64(w.rand, within)), member: m, thaw: thaw})
}

// undo thaws and restarts members whose time has come. A member that is still
// ending is restarted a little later.
func (w *weather) undo(now time.Time) error {
	var left []dueAct
	for _, d := range w.due {
		switch {
		case d.at.After(now):
			left = append(left, d)
		case d.thaw:
			if err := d.member.Thaw(); err != nil && !errors.Is(err, cluster.ErrNotRunning) {
				return fmt.Errorf("thaw %s: %w", d.member.Name(), err)
			}
		case d.member.PID() != 0:
			left = append(left, d)
		default:
			if err := d.member.Restart(); err != nil {
				return fmt.Errorf("restart %s: %w", d.member.Name(), err)
			}
		}
	}
	w.due = left
	return nil
}

// calm brings everybody back.
func (w *weather) calm() {
	for len(w.due) > 0 {
		for i := range w.due {
			w.due[i].at = time.Time{}
		}
		if err := w.undo(time.Now()); err != nil {
			_, _ = fmt.Fprintln(w.progress, "chaos:", err)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// present are the members that run and that nothing is done to.
func (w *weather) present() []*cluster.Member {
	var out []*cluster.Member
	for _, m := range w.k.Members() {
		away := m.PID() == 0
		for _, d := range w.due {
			away = away || d.member == m
		}
		if !away {
			out = append(out, m)
		}
	}
	return out
}
