package main

import (
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"
	"time"

	"tgbridge/internal/cluster"
)

// result is what a run found.
type result struct {
	At       time.Time      `json:"at"`
	Seed     uint64         `json:"seed"`
	Lasted   string         `json:"lasted"`
	Machine  string         `json:"machine"`
	Members  int            `json:"members"`
	Rate     float64        `json:"rate"`
	Chats    int            `json:"chats"`
	Strikes  map[string]int `json:"incidents"`
	Sent     int            `json:"sent"`
	Received int            `json:"received"`
	Lost     int            `json:"lost"`
	Disorder int            `json:"disorder"`
	Doubled  map[string]int `json:"doubled"`   // by cause
	RunAgain map[string]int `json:"run_again"` // by what had been done to the member
	Polls    int            `json:"polls"`
	Conflict int            `json:"conflicts"`
	Deposed  int            `json:"deposed_polls"` // the one poll that a frozen leader had begun
	Gaps     []gaps         `json:"gaps"`
	Latency  string         `json:"latency"`
	Faults   []string       `json:"faults"`
}

// gaps are how long nobody polled after incidents of one kind that hit the
// leader.
type gaps struct {
	Kind  string        `json:"kind"`
	Count int           `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
}

func newResult(o options, lasted time.Duration, strikes map[string]int, report cluster.Report, runs cluster.Runs) result {
	r := result{
		At: time.Now().UTC(), Seed: o.seed, Lasted: lasted.Round(time.Second).String(),
		Machine: fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		Members: o.members, Rate: o.rate, Chats: o.chats, Strikes: strikes,
		Sent: report.Sent, Received: report.Received, Lost: len(report.Lost), Disorder: len(report.Disorder),
		Doubled: map[string]int{}, RunAgain: map[string]int{}, Polls: report.Polls, Conflict: report.Conflicts, Deposed: len(report.DeposedPolls),
		Latency: fmt.Sprintf("p50 %v, p99 %v, max %v", report.Latency.P50, report.Latency.P99, report.Latency.Max),
		Faults:  append(report.Faults(), runs.Faults...),
	}
	for _, d := range report.Doubled {
		r.Doubled[d.Cause]++
	}
	for kind, n := range runs.Again {
		r.RunAgain[string(kind)] = n
	}
	for _, kind := range []cluster.IncidentKind{
		cluster.Killed, cluster.Frozen, cluster.Terminated, cluster.HandedOver, cluster.Exited,
	} {
		if s := report.Gaps(kind); s.Count > 0 {
			r.Gaps = append(r.Gaps, gaps{Kind: string(kind), Count: s.Count, P50: s.P50, P99: s.P99, Max: s.Max})
		}
	}
	return r
}

// print writes the result for people.
func (r result) print(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) } // Flush tells of errors
	line("seed\t%d", r.Seed)
	line("lasted\t%s (%s)", r.Lasted, r.Machine)
	line("incidents\t%v", r.Strikes)
	line("messages\tsent %d, answered %d, lost %d, out of order %d", r.Sent, r.Received, r.Lost, r.Disorder)
	line("doubled\t%v", r.Doubled)
	line("run again\t%v", r.RunAgain)
	line("polls\t%d, conflicts %d, by deposed leaders when they woke %d", r.Polls, r.Conflict, r.Deposed)
	line("latency\t%s", r.Latency)
	line("\nNOBODY POLLED AFTER\tCOUNT\tP50\tP99\tMAX")
	for _, g := range r.Gaps {
		line("%s\t%d\t%v\t%v\t%v", g.Kind, g.Count, g.P50, g.P99, g.Max)
	}
	for _, f := range r.Faults {
		line("FAULT\t%s", f)
	}
	if len(r.Faults) == 0 {
		line("\nno fault")
	}
	return out.Flush()
}
