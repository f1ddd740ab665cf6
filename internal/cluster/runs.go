package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// RunsScript is a command for members that run one for each message, such as
// {"tgbridge", "exec", "--", "sh", "-c", RunsScript}: it answers with the message
// after $CLUSTER_WORK seconds, and writes down for Cluster.Runs when it began
// and ended. It uses the shell's own commands alone, and sleep where there is
// something to wait for.
const RunsScript = `note() { printf '%s %s %s %s %s %s\n' "$1" "$TGBRIDGE_DELIVERY" "$TGBRIDGE_ATTEMPT" "$TGBRIDGE_NAME" "$PPID" "$TELEGRAM_CHAT_ID" >>"$CLUSTER_RUNS"; }
note begin
IFS= read -r text
[ -z "$CLUSTER_WORK" ] || sleep "$CLUSTER_WORK"
note end
printf '%s\n' "$text"`

// The environment of RunsScript.
const (
	runsVar = "CLUSTER_RUNS" // path of the log
	// WorkVar is the name of the variable, to be set in Options.Env, that says
	// for how many seconds RunsScript works on a message.
	WorkVar = "CLUSTER_WORK"
)

// Runs is what became of the commands that wrote themselves down.
type Runs struct {
	Began int `json:"began"`
	// Again is how often a delivery's command was run again, by what had been
	// done to the member that ran it before. EndedAgain counts those of
	// Terminated whose command had ended by then.
	Again      map[IncidentKind]int `json:"again"`
	EndedAgain int                  `json:"ended_again"`
	// Faults are in words: work that was run again although nothing had been done
	// to its member, and deliveries of one chat that ran beside one another.
	Faults []string `json:"faults"`
}

func (o Options) runsPath() string { return filepath.Join(o.Dir, "runs") }

// Runs judges the commands that ran RunsScript so far. Errors: the system's, or a
// log that something else has written to.
func (c *Cluster) Runs() (Runs, error) {
	f, err := os.Open(c.o.runsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return Runs{}, nil
	}
	if err != nil {
		return Runs{}, fmt.Errorf("read log of commands: %w", err)
	}
	defer func() { _ = f.Close() }()
	return judgeRuns(f)
}

// noteStrike writes what is about to be done to a process between the lines of
// the commands: a run behind it may follow from it.
func (o Options) noteStrike(kind IncidentKind, pid int) error {
	if kind != Killed && kind != Frozen && kind != Terminated {
		return nil
	}
	f, err := os.OpenFile(o.runsPath(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %d\n", kind, pid)
	return errors.Join(err, f.Close())
}

// run is one run of the command for a delivery.
type run struct {
	delivery, attempt, member, chat string
	pid                             int // of the member's process
	ended                           bool
}

// judgeRuns reads the log of commands and incidents, whose lines are in the order
// in which things happened.
func judgeRuns(log io.Reader) (Runs, error) {
	r := Runs{Again: map[IncidentKind]int{}}
	struck := map[int]IncidentKind{} // by pid
	last := map[string]*run{}        // by delivery
	busy := map[string]*run{}        // by chat: the last that began
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) == 6 && fields[0] == "begin":
			pid, err := strconv.Atoi(fields[4])
			if err != nil {
				return Runs{}, fmt.Errorf("log of commands: line %q", lines.Text())
			}
			now := &run{delivery: fields[1], attempt: fields[2], member: fields[3], pid: pid, chat: fields[5]}
			r.begin(now, last[now.delivery], busy[now.chat], struck)
			last[now.delivery], busy[now.chat] = now, now
		case len(fields) == 6 && fields[0] == "end":
			if b := last[fields[1]]; b != nil && b.attempt == fields[2] && strconv.Itoa(b.pid) == fields[4] {
				b.ended = true
			}
		case len(fields) == 2:
			pid, err := strconv.Atoi(fields[1])
			if err != nil {
				return Runs{}, fmt.Errorf("log of commands: line %q", lines.Text())
			}
			if kind := IncidentKind(fields[0]); kind == Killed || struck[pid] == "" {
				struck[pid] = kind
			}
		default:
			return Runs{}, fmt.Errorf("log of commands: line %q", lines.Text())
		}
	}
	return r, lines.Err()
}

// begin judges a run by the one before of its delivery and of its chat, nil if
// there is none.
func (r *Runs) begin(now, before, beside *run, struck map[int]IncidentKind) {
	r.Began++
	if before != nil {
		kind, hit := struck[before.pid]
		if hit {
			r.Again[kind]++
		} else {
			r.Faults = append(r.Faults, fmt.Sprintf("delivery %s ran again on %s (pid %d) although %s (pid %d) lived",
				now.delivery, now.member, now.pid, before.member, before.pid))
		}
		if kind == Terminated && before.ended {
			r.EndedAgain++
		}
	}
	if beside != nil && beside.delivery != now.delivery && !beside.ended && struck[beside.pid] == "" {
		r.Faults = append(r.Faults, fmt.Sprintf("chat %s: delivery %s began before %s had ended",
			now.chat, now.delivery, beside.delivery))
	}
}
