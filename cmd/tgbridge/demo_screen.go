package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"tgbridge/internal/cluster"
)

// demoScreen shows how the demo goes: a table drawn anew on a terminal, lines
// elsewhere, nothing but errors with --json.
type demoScreen struct {
	out     io.Writer
	live    bool
	quiet   bool
	columns func() int // of the terminal; 0: not known

	mu    sync.Mutex // guards what follows, and out
	start time.Time
	said  []string
	drawn int // lines of the table that stand on the terminal
}

func newDemoScreen(out io.Writer, live, quiet bool, columns func() int) *demoScreen {
	return &demoScreen{out: out, live: live, quiet: quiet, columns: columns, start: time.Now()}
}

// narrowest is how many columns a table needs.
const narrowest = 60

// drawsTables reports whether stdout can show a table that is drawn anew in its
// place: lines that the terminal folds would take more than the one line each
// that the next drawing goes back.
func (c *cli) drawsTables() bool {
	width := c.columns()
	return c.stdoutEscapes && (width == 0 || width >= narrowest)
}

// intro tells what is going to be seen.
func (s *demoScreen) intro() {
	if s.quiet {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.out, "%d processes share one bot on a test server, and one of them polls: the leader.\n"+
		"%d users write %d messages a second while the leader is killed, stopped, frozen ...\n\n", demoMembers, demoChats, demoRate)
}

// say tells what happens now.
func (s *demoScreen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := fmt.Sprintf("%5.1fs  %s", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
	if s.live {
		s.said = append(s.said, line)
	} else if !s.quiet {
		_, _ = fmt.Fprintln(s.out, line)
	}
}

// follow draws the table until ctx ends, and then as it stands.
func (s *demoScreen) follow(ctx context.Context, k *cluster.Cluster) {
	if !s.live {
		return
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		if r, err := k.Report(); err == nil {
			s.draw(k, r)
		}
	}
}

func (s *demoScreen) draw(k *cluster.Cluster, r cluster.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	leader, term := k.Leader()
	for _, m := range k.Members() {
		state := "follows"
		switch {
		case m == leader:
			state = fmt.Sprintf("LEADS, term %d", term)
		case m.PID() == 0:
			state = "gone"
		}
		lines = append(lines, fmt.Sprintf("  %-4s pid %-8d %s", m.Name(), m.PID(), state))
	}
	lines = append(lines, "", fmt.Sprintf("  sent %d   answered %d   waiting %d   doubled %d   out of order %d",
		r.Sent, r.Received, r.Sent-r.Received, len(r.Doubled), len(r.Disorder)))
	lines = append(lines, failoverLines(r)...)
	lines = append(lines, "")
	lines = append(lines, s.said[max(0, len(s.said)-6):]...)
	s.show(lines)
}

// show draws lines in the place of those before. The caller holds mu.
func (s *demoScreen) show(lines []string) {
	width := s.columns()
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	for _, l := range lines {
		if r := []rune(l); width > 0 && len(r) >= width {
			l = string(r[:width-1])
		}
		b.WriteString("\x1b[2K" + l + "\n")
	}
	for range s.drawn - len(lines) {
		b.WriteString("\x1b[2K\n")
	}
	s.drawn = max(s.drawn, len(lines))
	_, _ = io.WriteString(s.out, b.String())
}

func failoverLines(r cluster.Report) []string {
	var lines []string
	for _, f := range r.Failovers {
		if f.To == "" {
			lines = append(lines, fmt.Sprintf("  %-9s %s -> ?    nobody polls yet", demoKind(f.Kind), f.From))
			continue
		}
		gap, unit := demoGap(f), 100*time.Microsecond
		if gap > time.Second {
			unit = 10 * time.Millisecond
		}
		lines = append(lines, fmt.Sprintf("  %-9s %s -> %-4s nobody polled for %v", demoKind(f.Kind), f.From, f.To, gap.Round(unit)))
	}
	return lines
}

// verdict prints the end.
func (s *demoScreen) verdict(r cluster.Report) {
	if s.quiet {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := []string{""}
	if !s.live {
		lines = append(lines, failoverLines(r)...)
	}
	lines = append(lines, fmt.Sprintf("sent %d, answered %d, lost %d, doubled %d, out of order %d",
		r.Sent, r.Received, len(r.Lost), len(r.Doubled), len(r.Disorder)))
	causes := map[string]int{}
	for _, d := range r.Doubled {
		causes[d.Cause]++
	}
	for _, cause := range slices.Sorted(maps.Keys(causes)) {
		lines = append(lines, fmt.Sprintf("  doubled %d: %s", causes[cause], cause))
	}
	for _, f := range r.Faults() {
		lines = append(lines, "  FAULT: "+f)
	}
	if len(r.Faults()) == 0 {
		lines = append(lines, "verdict: ok, nothing lost",
			"With a bot of your own: 'tgbridge echo' in two terminals; README.md tells how.")
	} else {
		lines = append(lines, "verdict: failed")
	}
	_, _ = fmt.Fprintln(s.out, strings.Join(lines, "\n"))
}
