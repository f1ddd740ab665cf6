package cluster

import (
	"fmt"
	"sort"
	"time"
)

// deposedPolls lists the polls of processes while another one certainly held
// the lease.
func (j *judge) deposedPolls() (all []DeposedPoll) {
	thaws := make(map[int][]time.Duration) // process -> instants of which no poll was seen yet
	for _, i := range j.incidents {
		if i.Kind == Thawed {
			thaws[i.Process] = append(thaws[i.Process], i.At)
		}
	}
	for _, p := range j.polls {
		first := false
		for left := thaws[p.process]; len(left) > 0 && left[0] <= p.begin; left = left[1:] {
			first, thaws[p.process] = true, left[1:]
		}
		holder, certain := j.holder(p.begin)
		if p.process != 0 && certain && holder != 0 && holder != p.process {
			all = append(all, DeposedPoll{Member: j.names[p.process], At: p.begin, Woken: first})
		}
	}
	return all
}

// holder is the process that held the lease at an instant; not certain if the
// lease may have changed then, or so shortly before that a request written
// earlier may be seen only now: looks and server are in one process, and who has
// not looked for some time has not read what came in that time either.
func (j *judge) holder(at time.Duration) (process int, certain bool) {
	next := j.leasesUntil(at)
	if next < len(j.leases) && j.leases[next].After <= at || next == 0 {
		return 0, false
	}
	last := j.leases[next-1]
	return last.Process, at-last.At >= last.At-last.After
}

// leasesUntil is how many changes of the lease were seen until an instant.
func (j *judge) leasesUntil(at time.Duration) int {
	return sort.Search(len(j.leases), func(i int) bool { return j.leases[i].At > at })
}

// fallenOffsets lists the polls whose offset is below that of the poll before
// of the same process, without a change of the lease in between.
func (j *judge) fallenOffsets() (all []string) {
	last := make(map[int]*call)
	for _, p := range j.polls {
		before := last[p.process]
		if p.process == 0 || !p.hasOffset {
			delete(last, p.process)
			continue
		}
		last[p.process] = p
		if before != nil && p.offset < before.offset && !j.leaseChanged(before.begin, p.begin) {
			all = append(all, fmt.Sprintf("%s: offset %d after %d at %v", j.names[p.process], p.offset, before.offset, p.begin))
		}
	}
	return all
}

// leaseChanged reports whether the lease may have changed between two instants.
func (j *judge) leaseChanged(from, to time.Duration) bool {
	next := j.leasesUntil(from)
	return next < len(j.leases) && j.leases[next].After <= to
}
