package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// clock is CLOCK_MONOTONIC, the same for all processes.
func clock() time.Duration { return readClock(unix.CLOCK_MONOTONIC) }

func readClock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0 // a process that has ended
	}
	return time.Duration(ts.Nano())
}

// cpuTime is what a process used so far, all its threads together, to the
// nanosecond: its CPU clock (clock_getcpuclockid(3)). 0 if it has ended.
func cpuTime(pid int) time.Duration {
	const schedulerClock = 2
	return readClock(int32(^pid<<3 | schedulerClock))
}

// rssAnon is the memory of a process that no file backs: heap, stacks, data.
func rssAnon(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	kb, err := strconv.ParseFloat(strings.TrimSuffix(field(string(text), "RssAnon"), " kB"), 64)
	if err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	return kb * 1024, nil
}
