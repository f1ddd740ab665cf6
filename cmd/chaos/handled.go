package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A handling is one run of the command for a delivery, as it wrote it down.
type handling struct {
	delivery string
	attempt  int
	member   string
	pid      int // of the member's process
	chat     string
	begin    int // place in the log
	end      int // 0: it never ended
}

// readHandled reads the log that the commands of all members append to: its
// lines are in the order in which things happened.
func readHandled(path string) ([]*handling, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read log of handlers: %w", err)
	}
	defer func() { _ = f.Close() }()
	var runs []*handling
	open := map[string]*handling{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) != 6 {
			return nil, fmt.Errorf("log of handlers, line %d: %q", n, lines.Text())
		}
		attempt, errA := strconv.Atoi(fields[2])
		pid, errP := strconv.Atoi(fields[4])
		if errA != nil || errP != nil {
			return nil, fmt.Errorf("log of handlers, line %d: %q", n, lines.Text())
		}
		key := strings.Join(fields[1:5], " ")
		switch fields[0] {
		case "begin":
			h := &handling{delivery: fields[1], attempt: attempt, member: fields[3], pid: pid, chat: fields[5], begin: n}
			runs = append(runs, h)
			open[key] = h
		case "end":
			if h := open[key]; h != nil {
				h.end = n
				delete(open, key)
			}
		}
	}
	return runs, lines.Err()
}

// fate is what happened to a member's process.
type fate struct{ killed, terminated, frozen bool }

// judgeHandled finds work that was run again although its member lived, and
// deliveries of one chat that ran at the same time. It returns faults in words
// and how often work was run again, by cause.
func judgeHandled(runs []*handling, fateOf func(pid int) fate) (faults []string, again map[string]int) {
	again = map[string]int{}
	last := map[string]*handling{} // by delivery
	busy := map[string]*handling{} // by chat: the last that began
	for _, h := range runs {
		if before := last[h.delivery]; before != nil {
			f := fateOf(before.pid)
			switch {
			case f.killed:
				again["member killed"]++
			case f.frozen:
				again["member frozen"]++
			case f.terminated:
				again["member stopped with unfinished work"]++
			default:
				faults = append(faults, fmt.Sprintf("delivery %s ran again on %s (pid %d) although %s (pid %d) lived",
					h.delivery, h.member, h.pid, before.member, before.pid))
			}
		}
		last[h.delivery] = h
		if before := busy[h.chat]; before != nil && before.delivery != h.delivery && (before.end == 0 || before.end > h.begin) {
			if f := fateOf(before.pid); !f.killed && !f.frozen && !f.terminated {
				faults = append(faults, fmt.Sprintf("chat %s: delivery %s began before %s had ended", h.chat, h.delivery, before.delivery))
			}
		}
		busy[h.chat] = h
	}
	return faults, again
}
