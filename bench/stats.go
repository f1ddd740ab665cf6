package main

import (
	"math"
	"slices"
	"time"
)

// samples are durations measured, in any order.
type samples []time.Duration

// quantile returns the value below or at which the share q of the samples are
// (nearest rank: with fewer than 100 of them, p99 is the greatest). 0 if there
// are none.
func (s samples) quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// A drain is how a backlog went: the instants at which each update was done,
// and the one at which the first was handed out.
type drain struct {
	begin time.Duration
	done  []time.Duration
}

// rate is updates a second over the share of the updates from q0 to q1, 0 to 1
// for all.
func (d drain) rate(q0, q1 float64) float64 {
	slices.Sort(d.done)
	n := float64(len(d.done))
	from, to := int(q0*n), int(q1*n)
	if to <= from {
		return 0
	}
	begin := d.begin
	if from > 0 {
		begin = d.done[from-1]
	}
	took := d.done[to-1] - begin
	if took <= 0 {
		return 0
	}
	return float64(to-from) / took.Seconds()
}

// ends returns the first, the middle and the last value of a list that is in the
// order of time; zeros if it is empty.
func ends(values []float64) (first, middle, last float64) {
	if len(values) == 0 {
		return 0, 0, 0
	}
	return values[0], values[len(values)/2], values[len(values)-1]
}
