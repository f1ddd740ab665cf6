package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
)

// Rows that --rows selects.
const (
	rowKilled   = "killed"
	rowStopped  = "stopped"
	rowHandover = "handover"
	rowHung     = "hung"
	rowLatency  = "latency"
	rowRate     = "rate"
	rowBacklog  = "backlog"
	rowIdle     = "idle"
	rowStart    = "start"
	rowCalls    = "calls"
)

var allRows = []string{
	rowKilled, rowStopped, rowHandover, rowHung, rowLatency, rowRate, rowBacklog, rowIdle, rowStart, rowCalls,
}

// roleEnv, set in the environment, makes this program a part of what is
// measured: see play.
const roleEnv = "BENCH_ROLE"

// Limits of a backlog: fewer are drained before memory can be looked at, and no
// more are kept waiting by the Bot API server.
const (
	minBacklog = 10_000
	maxBacklog = 100_000
)

// options are the command line.
type options struct {
	Rows    []string // in the order of allRows
	Events  int      // of each kind; other counts are derived from it
	Backlog int      // updates that wait in row backlog
	Seconds int      // that idle processes are watched
	Seed    uint64
	Dir     string // where state is kept; decides which disk is measured
	JSON    bool
}

// parseOptions reads the command line. flag.ErrHelp means that usage was asked
// for and printed.
func parseOptions(args []string, stderr io.Writer) (options, error) {
	o := options{}
	var rows string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&rows, "rows", strings.Join(allRows, ","), "rows to measure, comma separated")
	flags.IntVar(&o.Events, "events", 20, "failovers and starts of each kind; hung leaders are a tenth, latencies ten times as many, rates take a thousand updates for each")
	flags.IntVar(&o.Backlog, "backlog", maxBacklog, "updates that wait in row backlog")
	flags.IntVar(&o.Seconds, "seconds", 10, "seconds for which idle processes are watched")
	flags.Uint64Var(&o.Seed, "seed", 0, "of the instants of events; 0: a random one, shown in the head")
	flags.StringVar(&o.Dir, "dir", os.TempDir(), "existing directory on the disk to measure")
	flags.BoolVar(&o.JSON, "json", false, "print one JSON object instead of a table")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	var err error
	if o.Rows, err = selectRows(rows); err != nil {
		return o, err
	}
	return o, o.validate()
}

func (o options) validate() error {
	switch {
	case o.Events < 1:
		return fmt.Errorf("--events %d: want at least 1", o.Events)
	case o.Backlog < minBacklog || o.Backlog > maxBacklog:
		return fmt.Errorf("--backlog %d: want %d to %d", o.Backlog, minBacklog, maxBacklog)
	case o.Seconds < 1:
		return fmt.Errorf("--seconds %d: want at least 1", o.Seconds)
	}
	return nil
}

// selectRows returns the rows named in a list, each once, in the order of the
// table.
func selectRows(list string) ([]string, error) {
	wanted := strings.Split(list, ",")
	for _, w := range wanted {
		if !slices.Contains(allRows, w) {
			return nil, fmt.Errorf("--rows: there is no row %q; there are %s", w, strings.Join(allRows, ", "))
		}
	}
	var rows []string
	for _, r := range allRows {
		if slices.Contains(wanted, r) {
			rows = append(rows, r)
		}
	}
	return rows, nil
}

func (o options) has(row string) bool { return slices.Contains(o.Rows, row) }

// Counts that follow from Events.
func (o options) hangs() int     { return max(2, o.Events/10) } // each takes more than 5 s
func (o options) latencies() int { return 10 * o.Events }
func (o options) drained() int   { return min(maxBacklog, 1000*o.Events) }
