package bus

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Now is an instant on the owner's monotonic clock.
type Now = time.Duration

// A Route says which members get deliveries.
type Route string

const (
	// Sticky gives each lane to one member, chosen by rendezvous hashing of the
	// members' names.
	Sticky Route = "sticky"
	// ToLeader gives everything to the leader; the others stand by.
	ToLeader Route = "leader"
)

// defaultMaxReplying is DispatchOptions.MaxReplying if that is zero.
const defaultMaxReplying = 1024

// DispatchOptions are the numbers a Dispatcher decides by.
type DispatchOptions struct {
	Self           string        // instance of the leader
	Route          Route         // Sticky if empty
	Attempts       int           // after so many the delivery becomes a dead letter
	RedeliverAfter time.Duration // patience with a member that hangs or does not join
	HoldFor        time.Duration // how long a lane waits for its live member to join
	RetryAfter     time.Duration // wait after the first failed attempt; doubles with each, up to 64 times
	MaxReplying    int           // no assignment while so many replies are unsent
}

// An Item is a delivery as the dispatcher knows it: no body.
type Item struct {
	Seq     uint64 // order of arrival
	ID      string // delivery id
	Lane    string
	Attempt int // the attempt under way or to be made next; from 1
}

// Restored is an Item as the journal had it at the start of a term.
type Restored struct {
	Item
	Member   string // instance it was assigned to; "" if pending
	Replying bool   // its outcome is recorded, its reply not sent whole
}

// An ActionKind says what is to be done.
type ActionKind int

const (
	// Assign: record the assignment, then send the delivery to Member.
	Assign ActionKind = iota + 1
	// Adopt: record the assignment; Member has the delivery already.
	Adopt
	// TakeBack: record that the delivery waits again, with Attempt to be made next.
	TakeBack
	// Finish: record the outcome, with Dead that of a dead letter. Reply follows
	// by itself as an action if there is something to send.
	Finish
	// Reply: send the reply, from the first part not sent, then call ReplyDone.
	Reply
	// Supersede: tell Member to cancel the delivery with this Attempt.
	Supersede
	// CloseStream: end the stream of Member; its registration is void.
	CloseStream
)

// An Action is one decision, to be carried out in the order given.
type Action struct {
	Kind    ActionKind
	Item    Item
	Member  string
	Name    string // of Member, with Assign and Adopt
	Outcome Outcome
	Dead    string // with Finish: reason of a dead letter
}

// phase is where a delivery stands.
type phase int

const (
	queued   phase = iota // waits in its lane
	assigned              // with a member
	replying              // outcome recorded, reply under way
)

type delivery struct {
	Item
	lane      *lane
	phase     phase
	member    string // assigned: who has it
	notBefore Now    // queued: wait after a failure
}

// lane is a queue of which at most one is under way: the head, unless a journal
// says otherwise.
type lane struct {
	key    string
	queue  []*delivery
	busy   int    // deliveries of it that are assigned or replying
	listed bool   // in ready or held
	last   string // instance that had the last delivery, for counting lanes
}

type member struct {
	instance, name string
	slots          int
	joined         bool
	leaving        bool
	hung           bool
	away           Now // since when it is hung or not joined
	holdUntil      Now // until when its lanes wait for it to join
	inFlight       map[string]*delivery
}

// free returns how many more deliveries the member takes.
func (m *member) free() int {
	if !m.joined || m.leaving || m.hung {
		return 0
	}
	return m.slots - len(m.inFlight)
}

// Dispatcher decides what happens to deliveries during one term. It is not safe
// for concurrent use: one goroutine owns it. Every method that takes an instant
// expects it not to fall from call to call. The actions of an event are fetched
// with Take.
type Dispatcher struct {
	o          DispatchOptions
	lanes      map[string]*lane
	deliveries map[string]*delivery
	members    map[string]*member
	ready      []*lane // head queued, may go at once
	held       []*lane // head queued, waits for a member or an instant
	replies    int     // deliveries in phase replying
	stopped    bool    // nothing is assigned any more
	out        []Action
	wake       Now // earliest instant at which Tick has something to do; 0: none
}

// NewDispatcher returns a dispatcher without members and deliveries.
func NewDispatcher(o DispatchOptions) *Dispatcher {
	o.Route = cmp.Or(o.Route, Sticky)
	o.Attempts = cmp.Or(o.Attempts, 3)
	o.RedeliverAfter = cmp.Or(o.RedeliverAfter, 30*time.Second)
	o.HoldFor = cmp.Or(o.HoldFor, time.Second)
	o.RetryAfter = cmp.Or(o.RetryAfter, time.Second)
	o.MaxReplying = cmp.Or(o.MaxReplying, defaultMaxReplying)
	return &Dispatcher{
		o:          o,
		lanes:      map[string]*lane{},
		deliveries: map[string]*delivery{},
		members:    map[string]*member{},
	}
}

// Take returns the actions decided since the last call.
func (d *Dispatcher) Take() []Action {
	out := d.out
	d.out = nil
	return out
}

// Wake returns the instant at which Tick should be called next, and whether
// there is one.
func (d *Dispatcher) Wake() (Now, bool) { return d.wake, d.wake != 0 }

// Expect names a member that was alive when the term began and has not joined
// yet: its lanes wait for it.
func (d *Dispatcher) Expect(now Now, instance, name string) {
	m := d.know(now, instance)
	m.name = name
	m.holdUntil = now + d.o.HoldFor
	d.wakeAt(m.holdUntil)
}

// Restore takes over what the journal held, in the order of Seq. It is called
// once, before Add; a member named by an item that is not expected to live
// should be reported by Died afterwards.
func (d *Dispatcher) Restore(now Now, items []Restored) {
	for _, r := range items {
		v := d.enqueue(r.Item)
		switch {
		case v == nil:
		case r.Replying:
			d.reply(v)
		case r.Member != "":
			d.give(d.know(now, r.Member), v)
		}
	}
	for _, l := range d.lanes {
		d.list(l)
	}
	// The order of a map is no order: the lane with the oldest head goes first.
	slices.SortFunc(d.ready, func(a, b *lane) int { return cmp.Compare(a.queue[0].Seq, b.queue[0].Seq) })
	d.pump(now)
}

// Add takes in new deliveries, in the order of Seq. One whose id is pending
// already is left out.
func (d *Dispatcher) Add(now Now, items []Item) {
	for _, it := range items {
		if v := d.enqueue(it); v != nil {
			d.list(v.lane)
		}
	}
	d.pump(now)
}

// Stop ends assignments for the rest of the term. Everything else goes on.
func (d *Dispatcher) Stop() { d.stopped = true }

// A Joining is what a member says of itself when it joins.
type Joining struct {
	Instance string
	Name     string // unique among the members; see UniqueName
	Slots    int
	Leaving  bool
	InHand   []Held // accepted, begun or not
	Finished []Ack
}

// Join admits a member and settles what it has in hand: what it names is its
// own again if nobody else got it, what it does not name was never begun and
// waits again. It returns the deliveries that the member must cancel, and a
// verdict for each that it finished, in their order.
func (d *Dispatcher) Join(now Now, j Joining) (superseded []Held, verdicts []Verdict) {
	m := d.know(now, j.Instance)
	m.name, m.slots, m.joined, m.leaving, m.hung = j.Name, j.Slots, true, j.Leaving, false
	m.holdUntil = 0
	named := map[Held]bool{}
	for _, h := range j.InHand {
		named[h] = true
		if !d.adopt(m, h) {
			superseded = append(superseded, h)
		}
	}
	for _, a := range j.Finished {
		verdicts = append(verdicts, d.ack(now, j.Instance, a))
	}
	for _, v := range m.sorted() {
		if !named[Held{Delivery: v.ID, Attempt: v.Attempt}] {
			d.takeBack(v, v.Attempt, 0)
		}
	}
	d.readyAll()
	d.pump(now)
	return superseded, verdicts
}

// adopt gives a named delivery to the member that names it, unless it is
// another's by now.
func (d *Dispatcher) adopt(m *member, h Held) bool {
	v := d.deliveries[h.Delivery]
	switch {
	case v == nil || v.phase == replying || h.Attempt != v.Attempt:
		return false
	case v.phase == assigned:
		return v.member == m.instance
	}
	if v.lane.busy > 0 || v.lane.queue[0] != v {
		return false
	}
	d.give(m, v)
	d.act(Action{Kind: Adopt, Item: v.Item, Member: m.instance, Name: m.name})
	return true
}

// StreamEnded says that the stream of a member ended. Its work stays with it.
func (d *Dispatcher) StreamEnded(now Now, instance string) {
	m := d.members[instance]
	if m == nil || !m.joined {
		return
	}
	m.joined = false
	if !m.hung { // else the patience with it began before
		m.away = now
	}
	d.wakeAt(m.away + d.o.RedeliverAfter)
	if !m.leaving && !m.hung {
		m.holdUntil = now + d.o.HoldFor
		d.wakeAt(m.holdUntil)
	}
}

// Died says that a member is dead: what it had in hand goes to others, and the
// attempt counts.
func (d *Dispatcher) Died(now Now, instance string) {
	m := d.members[instance]
	if m == nil {
		return
	}
	if m.joined {
		d.act(Action{Kind: CloseStream, Member: instance})
	}
	m.joined, m.leaving = false, false
	m.holdUntil = 0
	d.revoke(m, "its member died")
	delete(d.members, instance)
	d.readyAll()
	d.pump(now)
}

// Hung says that a member makes no progress: it gets nothing new, and what it
// has in hand goes to others RedeliverAfter later. It reports whether that is
// news.
func (d *Dispatcher) Hung(now Now, instance string) bool {
	m := d.members[instance]
	if m == nil || m.hung {
		return false
	}
	m.hung = true
	if m.joined {
		m.away = now
	}
	m.holdUntil = 0
	d.wakeAt(m.away + d.o.RedeliverAfter)
	d.readyAll()
	d.pump(now)
	return true
}

// Awake says that a member that hung makes progress again, and reports whether
// that is news.
func (d *Dispatcher) Awake(now Now, instance string) bool {
	m := d.members[instance]
	if m == nil || !m.hung {
		return false
	}
	m.hung = false
	d.readyAll()
	d.pump(now)
	return true
}

// Ack takes an acknowledgement. A member that gives a delivery back unfinished
// is about to stop: it gets nothing new before it joins again.
func (d *Dispatcher) Ack(now Now, instance string, a Ack) Verdict {
	verdict := d.ack(now, instance, a)
	if m := d.members[instance]; m != nil && a.Outcome.Status == Returned {
		m.leaving, m.holdUntil = true, 0
		d.readyAll()
	}
	d.pump(now)
	return verdict
}

func (d *Dispatcher) ack(now Now, instance string, a Ack) Verdict {
	v := d.deliveries[a.Delivery]
	switch {
	case v == nil:
		return Unknown
	case v.phase != assigned || v.member != instance || v.Attempt != a.Attempt:
		return Superseded
	}
	switch a.Outcome.Status {
	case Returned:
		d.takeBack(v, v.Attempt, 0)
	case Failed, TimedOut:
		d.failed(now, v, a.Outcome)
	default:
		d.finish(v, a.Outcome, "")
	}
	return Recorded
}

// failed uses up an attempt.
func (d *Dispatcher) failed(now Now, v *delivery, o Outcome) {
	if v.Attempt >= d.o.Attempts {
		reason := fmt.Sprintf("%s after %d attempts", o.Status, v.Attempt)
		if o.Error != "" {
			reason += ": " + o.Error
		}
		d.finish(v, Outcome{Status: o.Status}, reason)
		return
	}
	d.takeBack(v, v.Attempt+1, d.retryAt(now, v.Attempt))
}

// retryAt returns when a delivery may be tried again after that attempt failed.
// Instants are rounded up, so that one tick serves many lanes.
func (d *Dispatcher) retryAt(now Now, attempt int) Now {
	wait := d.o.RetryAfter << min(attempt-1, 6)
	grain := max(d.o.RetryAfter/16, 1)
	return (now + wait + grain - 1) / grain * grain
}

// GiveUp makes a dead letter of a delivery that a member has in hand in that
// attempt.
func (d *Dispatcher) GiveUp(now Now, instance string, h Held, reason string) {
	if _, held := d.Holds(instance, h); !held {
		return
	}
	d.finish(d.deliveries[h.Delivery], Outcome{Status: Failed}, reason)
	d.pump(now)
}

// ReplyDone says that the reply of a delivery was sent, or given up.
func (d *Dispatcher) ReplyDone(now Now, id string) {
	v := d.deliveries[id]
	if v == nil || v.phase != replying {
		return
	}
	d.replies--
	v.lane.busy--
	d.remove(v)
	d.pump(now)
}
