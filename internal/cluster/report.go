package cluster

import (
	"fmt"
	"slices"
	"time"
)

// A Report is what a cluster's users would have seen. Slices are in the order
// of events.
type Report struct {
	Sent     int `json:"sent"`     // messages of users
	Received int `json:"received"` // those that were answered

	Lost     []string   `json:"lost"`     // tokens without an answer
	Doubled  []Doubling `json:"doubled"`  // answers beyond the first
	Disorder []string   `json:"disorder"` // tokens answered after a later one of their chat
	Crossed  []string   `json:"crossed"`  // tokens answered in another chat

	Failovers []Failover `json:"failovers"`

	Polls         int           `json:"polls"`
	Conflicts     int           `json:"conflicts"`      // polls answered with 409
	DeposedPolls  []DeposedPoll `json:"deposed_polls"`  // polls of members while another held the lease
	FallenOffsets []string      `json:"fallen_offsets"` // polls with a lower offset than one before in their term
	// Beyond is what came to the server by none of the members' addresses.
	Beyond int `json:"beyond"`

	// Latency is from a message to its first answer.
	Latency Spread `json:"latency"`

	Incidents []Incident    `json:"incidents"`
	Leases    []LeaseChange `json:"leases"`
}

// A Doubling is an answer to a message that had one.
type Doubling struct {
	Token string `json:"token"`
	// Cause says why, if that is known; Allowed whether the guarantee G7 allows
	// for it: the process that sent the earlier answer died or was frozen in the
	// middle of that call, or the server had answered it with 429 or
	// 5xx.
	Cause   string `json:"cause"`
	Allowed bool   `json:"allowed"`
	// Before is the answer before this one, Again this one.
	Before Sending `json:"before"`
	Again  Sending `json:"again"`
}

// A Sending is a call that sent an answer.
type Sending struct {
	Member  string `json:"member"`
	Process int    `json:"process"`
	// Begin and End are on the server's clock; End is 0 while the call is under
	// way. Status is what was answered, 0 if nothing was.
	Begin  time.Duration `json:"begin_ns"`
	End    time.Duration `json:"end_ns"`
	Status int           `json:"status"`
}

// A Failover is the time in which nobody polled after an incident.
type Failover struct {
	Kind   IncidentKind  `json:"kind"`
	From   string        `json:"from"`
	To     string        `json:"to"` // "" while nobody polls
	Gap    time.Duration `json:"gap_ns"`
	Silent time.Duration `json:"silent_ns"` // from the end of the former leader's last poll; 0 if that had not ended
}

// A DeposedPoll is a poll of a member while the registry named another one.
type DeposedPoll struct {
	Member string        `json:"member"`
	At     time.Duration `json:"at_ns"`
	// Woken tells that it was the member's first poll after it was thawed, which
	// G1 allows for.
	Woken bool `json:"woken"`
}

// Spread describes durations.
type Spread struct {
	Count int           `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
}

// SpreadOf sorts durations and describes them.
func SpreadOf(all []time.Duration) Spread {
	if len(all) == 0 {
		return Spread{}
	}
	slices.Sort(all)
	at := func(share float64) time.Duration { return all[min(len(all)-1, int(share*float64(len(all))))] }
	return Spread{Count: len(all), P50: at(0.50), P99: at(0.99), Max: all[len(all)-1]}
}

// Gaps describes the gaps of one kind of failover.
func (r *Report) Gaps(kind IncidentKind) Spread {
	var gaps []time.Duration
	for _, f := range r.Failovers {
		if f.Kind == kind && f.To != "" {
			gaps = append(gaps, f.Gap)
		}
	}
	return SpreadOf(gaps)
}

// Faults lists in words what should not have happened; empty if nothing did.
// Doublings and polls that the guarantees allow for are not among them. What is
// still under way counts as not done: before a report is judged, WaitPolling
// should have found a leader and Settle every answer.
func (r *Report) Faults() []string {
	var faults []string
	add := func(n int, format string, example any) {
		if n > 0 {
			faults = append(faults, fmt.Sprintf("%d "+format+", the first %v", n, example))
		}
	}
	if len(r.Lost) > 0 {
		add(len(r.Lost), "messages lost", r.Lost[0])
	}
	if bad := slices.DeleteFunc(slices.Clone(r.Doubled), func(d Doubling) bool { return d.Allowed }); len(bad) > 0 {
		add(len(bad), "answers doubled without an allowed cause", bad[0])
	}
	if len(r.Disorder) > 0 {
		add(len(r.Disorder), "messages answered out of order", r.Disorder[0])
	}
	if len(r.Crossed) > 0 {
		add(len(r.Crossed), "messages answered in another chat", r.Crossed[0])
	}
	if bad := slices.DeleteFunc(slices.Clone(r.DeposedPolls), func(d DeposedPoll) bool { return d.Woken }); len(bad) > 0 {
		add(len(bad), "polls of deposed leaders", bad[0])
	}
	if len(r.FallenOffsets) > 0 {
		add(len(r.FallenOffsets), "polls with a lower offset than before in their term", r.FallenOffsets[0])
	}
	if bad := slices.DeleteFunc(slices.Clone(r.Incidents), func(i Incident) bool { return i.Kind != Exited }); len(bad) > 0 {
		add(len(bad), "members ended by themselves", bad[0].Member)
	}
	if bad := slices.DeleteFunc(slices.Clone(r.Failovers), func(f Failover) bool { return f.To != "" }); len(bad) > 0 {
		add(len(bad), "failovers without a successor", bad[0])
	}
	return faults
}
