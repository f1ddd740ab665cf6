package bus

// Instances returns the members that are known, joined or not, sorted.
func (d *Dispatcher) Instances() []string {
	out := make([]string, 0, len(d.members))
	for _, m := range d.sortedMembers() {
		out = append(out, m.instance)
	}
	return out
}

// Holds returns the item of a delivery and whether the member has it in hand in
// that attempt.
func (d *Dispatcher) Holds(instance string, h Held) (Item, bool) {
	v := d.deliveries[h.Delivery]
	if v == nil || v.phase != assigned || v.member != instance || v.Attempt != h.Attempt {
		return Item{}, false
	}
	return v.Item, true
}

// hangs reports whether a member makes no progress.
func (d *Dispatcher) hangs(instance string) bool {
	m := d.members[instance]
	return m != nil && m.hung
}

// nameTaken reports whether a member other than instance has that name.
func (d *Dispatcher) nameTaken(name, instance string) bool {
	for _, m := range d.members {
		if m.name == name && m.instance != instance {
			return true
		}
	}
	return false
}

// A MemberCount is what one member has.
type MemberCount struct {
	Lanes    int // that have work, and whose last delivery was its
	InFlight int
	Joined   bool
	Hung     bool
	Leaving  bool
}

// Counts returns what each member has, by instance, and how many deliveries are
// not finished.
func (d *Dispatcher) Counts() (members map[string]MemberCount, pending int) {
	members = make(map[string]MemberCount, len(d.members))
	for _, m := range d.members {
		members[m.instance] = MemberCount{
			InFlight: len(m.inFlight), Joined: m.joined, Hung: m.hung, Leaving: m.leaving,
		}
	}
	for _, l := range d.lanes {
		if c, ok := members[l.last]; ok {
			c.Lanes++
			members[l.last] = c
		}
	}
	return members, len(d.deliveries)
}

// Idle reports whether no delivery is with a member and no reply under way.
func (d *Dispatcher) Idle() bool {
	for _, m := range d.members {
		if len(m.inFlight) > 0 {
			return false
		}
	}
	return d.replies == 0
}
