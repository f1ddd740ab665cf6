package bus_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tgbridge/bus"
)

// What the model test runs with: few of everything, so that events meet.
const (
	modelAttempts    = 3
	modelRedeliver   = 10 * time.Second
	modelHold        = time.Second
	modelRetry       = time.Second
	modelMaxReplying = 4
)

// modelMember is a member as the events and actions so far leave it.
type modelMember struct {
	name                  string
	slots                 int
	joined, leaving, hung bool
	held                  bus.Now // until when its lanes may wait for it
	has                   map[string]int
	superseded            map[bus.Held]bool // what it runs without being wanted to
}

// modelDelivery is a delivery as the actions so far leave it.
type modelDelivery struct {
	seq     uint64
	lane    string
	state   string // queued, assigned, replying, finished
	member  string
	attempt int
	retryAt bus.Now
}

// model follows a dispatcher by its actions alone, and checks each.
type model struct {
	t          *rapid.T
	d          *bus.Dispatcher
	now        bus.Now
	seq        uint64
	members    map[string]*modelMember
	deliveries map[string]*modelDelivery
	lanes      map[string][]string // ids in order of arrival
}

func (m *model) fail(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("at %v: %s", m.now, fmt.Sprintf(format, args...))
}

// take applies and checks what was decided.
func (m *model) take() int {
	actions := m.d.Take()
	for _, a := range actions {
		m.apply(a)
	}
	return len(actions)
}

func (m *model) apply(a bus.Action) {
	v := m.deliveries[a.Item.ID]
	if a.Kind == bus.CloseStream {
		m.members[a.Member].joined = false
		return
	}
	if v == nil || v.seq != a.Item.Seq || v.lane != a.Item.Lane {
		m.fail("action %v of an unknown delivery", show([]bus.Action{a}))
	}
	switch a.Kind {
	case bus.Assign, bus.Adopt:
		m.give(a, v)
	case bus.TakeBack:
		if v.state != "assigned" || a.Item.Attempt < v.attempt || a.Item.Attempt > min(v.attempt+1, modelAttempts) {
			m.fail("%s is %s in attempt %d: %v", a.Item.ID, v.state, v.attempt, show([]bus.Action{a}))
		}
		m.takeFrom(a.Item.ID, v)
		v.state, v.attempt = "queued", a.Item.Attempt
	case bus.Finish:
		if v.state != "assigned" || a.Item.Attempt != v.attempt {
			m.fail("finish of %s/%d, which is %s in attempt %d", a.Item.ID, a.Item.Attempt, v.state, v.attempt)
		}
		if a.Dead != "" && a.Dead != "lost" && v.attempt < modelAttempts { // see giveUp
			m.fail("%s given up in attempt %d", a.Item.ID, v.attempt)
		}
		m.takeFrom(a.Item.ID, v)
		v.state = "finished"
		if len(a.Outcome.Reply) > 0 || a.Dead != "" {
			v.state = "told"
		}
	case bus.Reply:
		if v.state != "told" {
			m.fail("reply of %s, which is %s", a.Item.ID, v.state)
		}
		v.state = "replying"
	case bus.Supersede:
		if v.state != "assigned" || v.member != a.Member {
			m.fail("%s superseded at %s, which does not have it", a.Item.ID, a.Member)
		}
		m.members[a.Member].superseded[held(a.Item.ID, v.attempt)] = true
	}
}

// give checks that the delivery may go to the member, and gives it.
func (m *model) give(a bus.Action, v *modelDelivery) {
	to := m.members[a.Member]
	switch {
	case v.state != "queued" || v.attempt != a.Item.Attempt:
		m.fail("%v, but it is %s in attempt %d", show([]bus.Action{a}), v.state, v.attempt)
	case to == nil || !to.joined || to.name != a.Name:
		m.fail("%v, but it is not joined", show([]bus.Action{a}))
	case a.Kind == bus.Assign && (to.leaving || to.hung || len(to.has) >= to.slots):
		m.fail("%v, but it is %+v", show([]bus.Action{a}), to)
	case a.Kind == bus.Assign && v.retryAt > m.now:
		m.fail("%v before %v", show([]bus.Action{a}), v.retryAt)
	}
	for _, id := range m.lanes[v.lane] {
		if id == a.Item.ID {
			break
		}
		if before := m.deliveries[id]; before.state != "finished" {
			m.fail("%v, but %s before it is %s", show([]bus.Action{a}), id, before.state)
		}
	}
	v.state, v.member = "assigned", a.Member
	to.has[a.Item.ID] = v.attempt
}

func (m *model) takeFrom(id string, v *modelDelivery) {
	delete(m.members[v.member].has, id)
	v.member = ""
}

// advance lets time go by as the dispatcher's owner does, and checks that
// nothing would have been done at an instant that Wake did not name.
func (m *model) advance(by time.Duration) {
	for end := m.now + by; m.now < end; {
		at, ok := m.d.Wake()
		if !ok || at > end {
			m.now = end
			waiting := m.mayWait()
			m.d.Tick(m.now)
			// A lane that waits for its member is looked at anew when the wait is
			// over or a member comes or goes, not with every slot that is free.
			if n := m.take(); n > 0 && !waiting {
				m.fail("Tick did %d things that Wake (%v, %v) did not announce", n, at, ok)
			}
			return
		}
		m.now = max(m.now, at)
		m.d.Tick(m.now)
		m.take()
	}
}

// mayWait reports whether lanes may wait for a member to join.
func (m *model) mayWait() bool {
	for _, to := range m.members {
		if !to.joined && to.held > m.now {
			return true
		}
	}
	return false
}

// check holds the invariants that no single action shows.
func (m *model) check() {
	pending, replying, room := 0, 0, 0
	for instance, to := range m.members {
		for id, attempt := range to.has {
			if _, ok := m.d.Holds(instance, held(id, attempt)); !ok {
				m.fail("%s should hold %s/%d", instance, id, attempt)
			}
		}
		if to.joined && !to.leaving && !to.hung {
			room += max(0, to.slots-len(to.has))
		}
	}
	for _, v := range m.deliveries {
		switch v.state {
		case "finished":
			continue
		case "told":
			m.fail("an outcome with a reply without its Reply")
		case "replying":
			replying++
		}
		pending++
	}
	if _, n := m.d.Counts(); n != pending {
		m.fail("%d deliveries pending, want %d", n, pending)
	}
	if room == 0 || m.mayWait() || replying >= modelMaxReplying {
		return
	}
	for lane, ids := range m.lanes {
		for _, id := range ids {
			v := m.deliveries[id]
			if v.state == "queued" && (v.retryAt == 0 || v.retryAt+modelRetry/16 <= m.now) { // may be rounded up
				m.fail("lane %s starves: %s waits while there is room for %d", lane, id, room)
			}
			if v.state != "finished" {
				break
			}
		}
	}
}

func (m *model) member(label string) (string, *modelMember) {
	instance := rapid.SampledFrom([]string{"i-a", "i-b", "i-c"}).Draw(m.t, label)
	return instance, m.members[instance]
}

func (m *model) add(t *rapid.T) {
	var items []bus.Item
	for range rapid.IntRange(1, 4).Draw(t, "deliveries") {
		m.seq++
		lane := rapid.SampledFrom([]string{"x", "y", "z", "w"}).Draw(t, "lane")
		id := fmt.Sprintf("%s%d", lane, m.seq)
		m.deliveries[id] = &modelDelivery{seq: m.seq, lane: lane, state: "queued", attempt: 1}
		m.lanes[lane] = append(m.lanes[lane], id)
		items = append(items, bus.Item{Seq: m.seq, ID: id, Lane: lane})
	}
	m.d.Add(m.now, items)
	m.take()
}

// join names part of what the member has, some of it as finished, and what it
// was never told to cancel.
func (m *model) join(t *rapid.T) {
	instance, to := m.member("member")
	to.joined, to.hung, to.held = true, false, 0
	to.leaving = rapid.IntRange(0, 4).Draw(t, "leaving") == 0
	to.slots = rapid.IntRange(1, 3).Draw(t, "slots")
	j := bus.Joining{Instance: instance, Name: to.name, Slots: to.slots, Leaving: to.leaving}
	for h := range to.superseded {
		j.InHand = append(j.InHand, h)
	}
	slices.SortFunc(j.InHand, func(a, b bus.Held) int { return slices.Compare([]byte(a.Delivery), []byte(b.Delivery)) })
	old := len(j.InHand)
	for _, id := range sortedKeys(to.has) {
		switch rapid.IntRange(0, 2).Draw(t, "in hand") {
		case 0:
			j.InHand = append(j.InHand, held(id, to.has[id]))
		case 1:
			j.Finished = append(j.Finished, bus.Ack{Delivery: id, Attempt: to.has[id], Outcome: done})
		}
	}
	superseded, verdicts := m.d.Join(m.now, j)
	if len(superseded) != old {
		m.fail("join of %+v: superseded %v", j, superseded)
	}
	for i, v := range verdicts {
		if v != bus.Recorded {
			m.fail("join with %+v finished: %s", j.Finished[i], v)
		}
	}
	to.superseded = map[bus.Held]bool{}
	m.take()
}

func (m *model) streamEnded(*rapid.T) {
	instance, to := m.member("member")
	if to.joined && !to.leaving && !to.hung {
		to.held = m.now + modelHold
	}
	to.joined = false
	m.d.StreamEnded(m.now, instance)
	m.take()
}

func (m *model) died(*rapid.T) {
	instance, to := m.member("member")
	to.joined, to.hung, to.leaving, to.held = false, false, false, 0
	m.d.Died(m.now, instance)
	m.take()
	to.superseded = map[bus.Held]bool{} // the next of that name is another process
}

func (m *model) hung(*rapid.T) {
	instance, to := m.member("member")
	if !slices.Contains(m.d.Instances(), instance) {
		return
	}
	to.hung, to.held = true, 0
	m.d.Hung(m.now, instance)
	m.take()
}

func (m *model) awake(*rapid.T) {
	instance, to := m.member("member")
	to.hung = false
	m.d.Awake(m.now, instance)
	m.take()
}

func (m *model) ack(t *rapid.T) {
	instance, to := m.member("member")
	ids := sortedKeys(to.has)
	if len(ids) == 0 {
		a := bus.Ack{Delivery: fmt.Sprintf("x%d", rapid.IntRange(1, 9).Draw(t, "any")), Attempt: 1, Outcome: done}
		if got := m.d.Ack(m.now, instance, a); got == bus.Recorded {
			m.fail("%s has nothing, but its ack of %s was recorded", instance, a.Delivery)
		}
		m.take()
		return
	}
	id := rapid.SampledFrom(ids).Draw(t, "delivery")
	a := bus.Ack{Delivery: id, Attempt: to.has[id], Outcome: rapid.SampledFrom([]bus.Outcome{
		done, done, replied, failed, returned, {Status: bus.TimedOut}, {Status: bus.Denied},
	}).Draw(t, "outcome")}
	switch a.Outcome.Status {
	case bus.Failed, bus.TimedOut:
		m.deliveries[id].retryAt = m.now + modelRetry<<(a.Attempt-1)
	case bus.Returned:
		to.leaving = true
	}
	if got := m.d.Ack(m.now, instance, a); got != bus.Recorded {
		m.fail("ack of %s by %s, which has it: %s", id, instance, got)
	}
	m.take()
}

func (m *model) giveUp(t *rapid.T) {
	instance, to := m.member("member")
	for _, id := range sortedKeys(m.deliveries) {
		v, attempt := m.deliveries[id], to.has[id]
		if !rapid.Bool().Draw(t, "lost") {
			continue
		}
		m.d.GiveUp(m.now, instance, bus.Held{Delivery: id, Attempt: attempt + 1}, "late") // not this one
		if attempt == 0 {
			attempt = v.attempt
		}
		_, held := to.has[id]
		m.d.GiveUp(m.now, instance, bus.Held{Delivery: id, Attempt: attempt}, "lost")
		m.take()
		if held && v.state != "replying" {
			m.fail("%s was given up, and is %s", id, v.state)
		}
	}
}

func (m *model) replyDone(t *rapid.T) {
	for _, id := range sortedKeys(m.deliveries) {
		if v := m.deliveries[id]; v.state == "replying" && rapid.Bool().Draw(t, "sent") {
			v.state = "finished"
			m.d.ReplyDone(m.now, id)
			m.take()
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// TestDispatcherModel runs random events against a dispatcher and checks after
// each of them that: at most one delivery of a lane is under way, and in order;
// each is with one member, with room for it; none is lost; no lane starves; Wake
// names every instant at which Tick does something (G3, G10).
func TestDispatcherModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			t: t, now: t0,
			d: bus.NewDispatcher(bus.DispatchOptions{
				Attempts: modelAttempts, RedeliverAfter: modelRedeliver, HoldFor: modelHold,
				RetryAfter: modelRetry, MaxReplying: modelMaxReplying,
			}),
			members:    map[string]*modelMember{},
			deliveries: map[string]*modelDelivery{},
			lanes:      map[string][]string{},
		}
		for _, name := range []string{"a", "b", "c"} {
			m.members["i-"+name] = &modelMember{name: name, has: map[string]int{}, superseded: map[bus.Held]bool{}}
		}
		t.Repeat(map[string]func(*rapid.T){
			"":            func(*rapid.T) { m.check() },
			"add":         m.add,
			"join":        m.join,
			"streamEnded": m.streamEnded,
			"died":        m.died,
			"hung":        m.hung,
			"awake":       m.awake,
			"ack":         m.ack,
			"ack again":   m.ack,
			"giveUp":      m.giveUp,
			"replyDone":   m.replyDone,
			"advance": func(t *rapid.T) {
				m.advance(time.Duration(rapid.IntRange(1, 4000).Draw(t, "ms")) * time.Millisecond)
			},
		})
		m.drain()
	})
}

// drain ends the run: one member that works on gets everything done.
func (m *model) drain() {
	for instance, to := range m.members {
		if instance != "i-a" {
			to.joined, to.hung, to.leaving, to.held = false, false, false, 0
			m.d.Died(m.now, instance)
			m.take()
		}
	}
	to := m.members["i-a"]
	to.joined, to.hung, to.leaving, to.slots, to.held = true, false, false, 3, 0
	m.d.Join(m.now, bus.Joining{Instance: "i-a", Name: "a", Slots: 3})
	m.take()
	for range 10_000 {
		if _, pending := m.d.Counts(); pending == 0 {
			return
		}
		for _, id := range sortedKeys(to.has) {
			m.d.Ack(m.now, "i-a", bus.Ack{Delivery: id, Attempt: to.has[id], Outcome: done})
			m.take()
		}
		for _, id := range sortedKeys(m.deliveries) {
			if v := m.deliveries[id]; v.state == "replying" {
				v.state = "finished"
				m.d.ReplyDone(m.now, id)
				m.take()
			}
		}
		m.advance(time.Second)
		m.check()
	}
	m.fail("work is left over")
}

// BenchmarkDispatcher handles 100,000 deliveries in as many lanes.
func BenchmarkDispatcher(b *testing.B) {
	const n = 100_000
	items := make([]bus.Item, n)
	for i := range items {
		items[i] = bus.Item{Seq: uint64(i + 1), ID: fmt.Sprintf("d%d", i), Lane: fmt.Sprintf("lane:%d", i)}
	}
	b.ReportAllocs()
	for b.Loop() {
		d := bus.NewDispatcher(bus.DispatchOptions{})
		for _, name := range []string{"a", "b", "c", "d"} {
			d.Join(t0, bus.Joining{Instance: "i-" + name, Name: name, Slots: 16})
		}
		d.Add(t0, items)
		for left := n; left > 0; {
			for _, a := range d.Take() {
				if a.Kind == bus.Assign {
					d.Ack(t0, a.Member, bus.Ack{Delivery: a.Item.ID, Attempt: a.Item.Attempt, Outcome: done})
					left--
				}
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/delivery")
}
