package cluster

import "time"

// An IncidentKind says what was done to a member.
type IncidentKind string

// Kinds of incidents.
const (
	Started    IncidentKind = "start"
	Killed     IncidentKind = "kill"       // SIGKILL
	Frozen     IncidentKind = "hang"       // SIGSTOP
	Thawed     IncidentKind = "thaw"       // SIGCONT
	Terminated IncidentKind = "term"       // SIGTERM
	HandedOver IncidentKind = "handover"   // the leader was asked to hand over
	Exited     IncidentKind = "exit"       // the process ended by itself
	CutOff     IncidentKind = "disconnect" // its way to the server was cut; it goes on leading
)

// An Incident is something that was done to a member.
type Incident struct {
	Kind IncidentKind `json:"kind"`
	// Member is the member's name; Process numbers processes from 1 in the order
	// of their starts.
	Member  string `json:"member"`
	Process int    `json:"process"`
	// PID is the process's id; 0 for a start.
	PID int `json:"pid,omitempty"`
	// At is the instant before it was done, on the server's clock.
	At time.Duration `json:"at_ns"`
	// Led tells that the registry named the member as leader, under Term.
	Led  bool   `json:"led"`
	Term uint64 `json:"term,omitempty"`
}

// endsPolling reports whether the incident makes a leader stop leading, so that
// the time until another polls is a failover.
func (i Incident) endsPolling() bool {
	switch i.Kind {
	case Killed, Frozen, Terminated, HandedOver, Exited:
		return i.Led
	}
	return false
}

// A LeaseChange is a change of the registry's lease.
type LeaseChange struct {
	// After and At enclose the change: the last look that did not show it, and
	// the first that did.
	After time.Duration `json:"after_ns"`
	At    time.Duration `json:"at_ns"`
	// Process holds the lease, 0 for nobody or a process that is not the
	// cluster's.
	Process int    `json:"process"`
	Member  string `json:"member,omitempty"`
	Term    uint64 `json:"term"`
}
