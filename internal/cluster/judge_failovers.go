package cluster

import "time"

// failover is a Failover with what it came of.
type failover struct {
	Failover
	incident Incident
}

// succeeds reports whether a poll ends a failover, and notes it.
func (j *judge) succeeds(poll *call, f *failover) bool {
	if poll.process == 0 || poll.process == f.incident.Process || poll.begin < f.incident.At {
		return false
	}
	f.To, f.Gap = j.names[poll.process], poll.begin-f.incident.At
	if last := j.lastPoll[f.incident.Process]; last != nil && last.over {
		f.Silent = poll.begin - last.end
	}
	return true
}

// closeFailovers lists the failovers. One that was thawed before anybody took
// the lease had none; a leader that got the lease back is its own successor.
func (j *judge) closeFailovers() (all []Failover) {
	for _, f := range j.failovers {
		if j.heldOut(f.incident) {
			continue
		}
		done := f.Failover
		if gap, ok := j.regained(f.incident); ok {
			done.To, done.Gap, done.Silent = f.From, gap, 0
		}
		all = append(all, done)
	}
	return all
}

// heldOut reports whether a frozen leader was thawed while the lease was still
// its own.
func (j *judge) heldOut(i Incident) bool {
	if i.Kind != Frozen {
		return false
	}
	for _, thaw := range j.incidents {
		if thaw.Kind == Thawed && thaw.Process == i.Process && thaw.At >= i.At {
			return !j.leaseChanged(i.At, thaw.At)
		}
	}
	return false
}

// regained reports whether the leader that an incident struck was the next to
// hold the lease, and how long it was until its first poll under the new term.
func (j *judge) regained(i Incident) (gap time.Duration, ok bool) {
	for _, c := range j.leases[j.leasesUntil(i.At):] {
		if c.Process == 0 || c.Term <= i.Term {
			continue
		}
		if c.Process != i.Process {
			return 0, false
		}
		for _, p := range j.polls {
			if p.process == i.Process && p.begin >= c.After {
				return p.begin - i.At, true
			}
		}
		return 0, false
	}
	return 0, false
}
