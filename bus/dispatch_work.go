package bus

import (
	"cmp"
	"fmt"
	"slices"
)

// Tick does what is due.
func (d *Dispatcher) Tick(now Now) {
	d.wake = 0
	for _, m := range d.sortedMembers() {
		if m.joined && !m.hung {
			continue
		}
		if m.holdUntil > now {
			d.wakeAt(m.holdUntil)
		}
		if due := m.away + d.o.RedeliverAfter; due > now {
			d.wakeAt(due)
			continue
		}
		d.giveUp(m)
	}
	d.readyAll()
	d.pump(now)
}

// giveUp ends the patience with a member that hangs or stays away.
func (d *Dispatcher) giveUp(m *member) {
	if len(m.inFlight) > 0 {
		if m.joined {
			m.joined = false
			d.act(Action{Kind: CloseStream, Member: m.instance})
		}
		d.revoke(m, "its member hung")
	}
	if !m.joined {
		delete(d.members, m.instance)
	}
}

// revoke takes everything from a member; the attempts count.
func (d *Dispatcher) revoke(m *member, why string) {
	for _, v := range m.sorted() {
		d.act(Action{Kind: Supersede, Item: v.Item, Member: m.instance})
		if v.Attempt >= d.o.Attempts {
			d.finish(v, Outcome{Status: Failed}, fmt.Sprintf("%s in attempt %d", why, v.Attempt))
		} else {
			d.takeBack(v, v.Attempt+1, 0)
		}
	}
}

// takeBack makes a delivery wait again in its lane, where it still stands.
func (d *Dispatcher) takeBack(v *delivery, attempt int, notBefore Now) {
	d.detach(v)
	v.phase, v.Attempt, v.notBefore = queued, attempt, notBefore
	d.act(Action{Kind: TakeBack, Item: v.Item})
	d.list(v.lane)
}

// detach takes a delivery out of its member's hand.
func (d *Dispatcher) detach(v *delivery) {
	delete(d.members[v.member].inFlight, v.ID)
	v.member = ""
	v.lane.busy--
}

// give puts a delivery into a member's hand.
func (d *Dispatcher) give(m *member, v *delivery) {
	v.phase, v.member, v.lane.last = assigned, m.instance, m.instance
	v.lane.busy++
	m.inFlight[v.ID] = v
}

// finish records the outcome; the lane goes on when the reply has been sent.
func (d *Dispatcher) finish(v *delivery, o Outcome, dead string) {
	d.detach(v)
	d.act(Action{Kind: Finish, Item: v.Item, Outcome: o, Dead: dead})
	if len(o.Reply) == 0 && dead == "" {
		d.remove(v)
		return
	}
	d.reply(v)
}

// reply lets the reply of a delivery be sent.
func (d *Dispatcher) reply(v *delivery) {
	v.phase = replying
	v.lane.busy++
	d.replies++
	d.act(Action{Kind: Reply, Item: v.Item})
}

// enqueue puts a delivery at the end of its lane, unless its id is there.
func (d *Dispatcher) enqueue(it Item) *delivery {
	if d.deliveries[it.ID] != nil {
		return nil
	}
	it.Attempt = max(it.Attempt, 1)
	l := d.lanes[it.Lane]
	if l == nil {
		l = &lane{key: it.Lane}
		d.lanes[it.Lane] = l
	}
	it.Lane = l.key // one string for all
	v := &delivery{Item: it, lane: l}
	l.queue = append(l.queue, v)
	d.deliveries[v.ID] = v
	return v
}

// remove takes a finished delivery out of its lane, of which it is the head
// unless a journal says otherwise.
func (d *Dispatcher) remove(v *delivery) {
	l := v.lane
	delete(d.deliveries, v.ID)
	if i := slices.Index(l.queue, v); i > 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	} else {
		l.queue[0] = nil
		l.queue = l.queue[1:]
	}
	if len(l.queue) == 0 {
		delete(d.lanes, l.key)
		return
	}
	d.list(l)
}

// list puts a lane into ready if its head waits to be assigned.
func (d *Dispatcher) list(l *lane) {
	if !l.listed && l.busy == 0 {
		l.listed = true
		d.ready = append(d.ready, l)
	}
}

// readyAll looks anew at the lanes that were held.
func (d *Dispatcher) readyAll() {
	d.ready = append(d.ready, d.held...)
	d.held = d.held[:0]
}

// pump assigns the heads of ready lanes while members have room.
func (d *Dispatcher) pump(now Now) {
	if d.stopped {
		return
	}
	room := 0
	for _, m := range d.members {
		if d.eligible(m) {
			room += max(0, m.free())
		}
	}
	for len(d.ready) > 0 && room > 0 && d.replies < d.o.MaxReplying {
		l := d.ready[0]
		d.ready[0] = nil
		d.ready = d.ready[1:]
		if l.busy > 0 || len(l.queue) == 0 { // adopted meanwhile, or finished too
			l.listed = false
			continue
		}
		m, holdUntil := d.choose(now, l)
		if m == nil {
			d.wakeAt(holdUntil)
			d.held = append(d.held, l)
			continue
		}
		l.listed = false
		v := l.queue[0]
		d.give(m, v)
		room--
		d.act(Action{Kind: Assign, Item: v.Item, Member: m.instance, Name: m.name})
	}
}

// choose returns the member for the head of a lane, or until when to hold it.
func (d *Dispatcher) choose(now Now, l *lane) (*member, Now) {
	if at := l.queue[0].notBefore; at > now {
		return nil, at
	}
	var best *member
	var bestScore score
	for _, m := range d.members {
		waits := !m.joined && !m.hung && m.holdUntil > now
		if !d.eligible(m) || !waits && m.free() <= 0 {
			continue
		}
		if s := scoreOf(l.key, m.name); best == nil || s.above(bestScore) {
			best, bestScore = m, s
		}
	}
	if best.joined {
		return best, 0
	}
	return nil, best.holdUntil
}

// eligible reports whether the route allows deliveries to a member.
func (d *Dispatcher) eligible(m *member) bool {
	return d.o.Route == Sticky || m.instance == d.o.Self
}

// know returns the member of that instance, made if it is new.
func (d *Dispatcher) know(now Now, instance string) *member {
	m := d.members[instance]
	if m == nil {
		m = &member{instance: instance, away: now, inFlight: map[string]*delivery{}}
		d.members[instance] = m
		d.wakeAt(now + d.o.RedeliverAfter)
	}
	return m
}

func (d *Dispatcher) act(a Action) { d.out = append(d.out, a) }

func (d *Dispatcher) wakeAt(at Now) {
	if d.wake == 0 || at < d.wake {
		d.wake = at
	}
}

// sorted returns what the member has in hand, oldest first.
func (m *member) sorted() []*delivery {
	out := make([]*delivery, 0, len(m.inFlight))
	for _, v := range m.inFlight {
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b *delivery) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}

func (d *Dispatcher) sortedMembers() []*member {
	out := make([]*member, 0, len(d.members))
	for _, m := range d.members {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *member) int { return cmp.Compare(a.instance, b.instance) })
	return out
}
