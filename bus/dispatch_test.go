package bus_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tgbridge/bus"
)

// At what each test begins: not zero, as the dispatcher's owner promises.
const t0 = time.Second

// show writes actions as a person would.
func show(actions []bus.Action) []string {
	var out []string
	for _, a := range actions {
		var s string
		switch a.Kind {
		case bus.Assign:
			s = fmt.Sprintf("assign %s/%d to %s (%s)", a.Item.ID, a.Item.Attempt, a.Member, a.Name)
		case bus.Adopt:
			s = fmt.Sprintf("adopt %s/%d by %s (%s)", a.Item.ID, a.Item.Attempt, a.Member, a.Name)
		case bus.TakeBack:
			s = fmt.Sprintf("take back %s/%d", a.Item.ID, a.Item.Attempt)
		case bus.Finish:
			s = fmt.Sprintf("finish %s/%d %s", a.Item.ID, a.Item.Attempt, a.Outcome.Status)
		case bus.Reply:
			s = fmt.Sprintf("reply %s", a.Item.ID)
		case bus.Supersede:
			s = fmt.Sprintf("supersede %s/%d at %s", a.Item.ID, a.Item.Attempt, a.Member)
		case bus.CloseStream:
			s = fmt.Sprintf("close stream of %s", a.Member)
		default:
			s = fmt.Sprintf("unknown kind %d", a.Kind)
		}
		if a.Dead != "" {
			s += " dead: " + a.Dead
		}
		out = append(out, s)
	}
	return out
}

// desk is a dispatcher under test, at an instant.
type desk struct {
	t *testing.T
	*bus.Dispatcher
	now bus.Now
	seq uint64
}

func newDesk(t *testing.T, o bus.DispatchOptions) *desk {
	return &desk{t: t, Dispatcher: bus.NewDispatcher(o), now: t0}
}

// want checks the actions since the last call.
func (d *desk) want(actions ...string) {
	d.t.Helper()
	if diff := cmp.Diff(actions, show(d.Take())); diff != "" {
		d.t.Fatalf("actions (-want +got):\n%s", diff)
	}
}

// join joins a member whose instance is i-name.
func (d *desk) join(name string, slots int, hand ...bus.Held) []bus.Held {
	superseded, _ := d.Join(d.now, bus.Joining{Instance: "i-" + name, Name: name, Slots: slots, InHand: hand})
	return superseded
}

// add adds deliveries called lane1, lane2, ... to a lane.
func (d *desk) add(lane string, n int) {
	var items []bus.Item
	for i := range n {
		d.seq++
		items = append(items, bus.Item{Seq: d.seq, ID: fmt.Sprintf("%s%d", lane, i+1), Lane: lane})
	}
	d.Add(d.now, items)
}

func (d *desk) ack(name, id string, attempt int, o bus.Outcome) bus.Verdict {
	return d.Ack(d.now, "i-"+name, bus.Ack{Delivery: id, Attempt: attempt, Outcome: o})
}

// tick goes on by some time, and does what is due, as the owner would.
func (d *desk) tick(by time.Duration) {
	d.t.Helper()
	end := d.now + by
	for {
		at, ok := d.Wake()
		if !ok || at > end {
			break
		}
		d.now = max(at, d.now)
		d.Tick(d.now)
		if again, ok := d.Wake(); ok && again <= d.now {
			d.t.Fatalf("at %v Wake() is %v after Tick: it would spin", d.now, again)
		}
	}
	d.now = end
}

var (
	done     = bus.Outcome{Status: bus.Done}
	failed   = bus.Outcome{Status: bus.Failed, Error: "boom"}
	replied  = bus.Outcome{Status: bus.Done, Reply: []byte(`"hi"`)}
	returned = bus.Outcome{Status: bus.Returned}
)

func held(id string, attempt int) bus.Held { return bus.Held{Delivery: id, Attempt: attempt} }

// TestRendezvousVector pins the hash that every leader, also of another build,
// has to choose by: SHA-256 of lane, NUL, name; the highest wins (F61, S8). The
// digests were made with sha256sum.
func TestRendezvousVector(t *testing.T) {
	digests := map[string]string{
		"alpha": "1f47b57a741da1b900ab490382682cc802d77b3f88f296415e298868d153928b",
		"beta":  "2d0e188fdeac01fe8af00d31ea7cb7e03acd37e8ff04ebc558731d53a2d7e589",
		"gamma": "20694c2eec66da6db2710d3a1b813b71e54d611a827dfe8a332e147c447cdbb5",
	}
	for name, want := range digests {
		sum := sha256.Sum256([]byte("chat:42\x00" + name))
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Fatalf("digest of chat:42 and %s is %s, want %s", name, got, want)
		}
	}
	d := newDesk(t, bus.DispatchOptions{})
	for _, name := range []string{"alpha", "beta", "gamma"} {
		d.join(name, 4)
	}
	d.add("chat:42", 1)
	d.want("assign chat:421/1 to i-beta (beta)")
}

// TestStickyLanesSpread checks that a member that comes takes only lanes that
// are its own, and one that goes leaves only its own.
func TestStickyLanesSpread(t *testing.T) {
	owners := func(names ...string) map[string]string {
		d := newDesk(t, bus.DispatchOptions{})
		for _, name := range names {
			d.join(name, 1000)
		}
		for i := range 300 {
			d.add(fmt.Sprintf("lane-%d:", i), 1)
		}
		out := map[string]string{}
		for _, a := range d.Take() {
			out[a.Item.Lane] = a.Name
		}
		return out
	}
	two, three := owners("a", "b"), owners("a", "b", "c")
	count := map[string]int{}
	for lane, owner := range three {
		count[owner]++
		if owner != "c" && owner != two[lane] {
			t.Errorf("%s moved from %s to %s because c came", lane, two[lane], owner)
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		if count[name] < 60 {
			t.Errorf("%s has %d of 300 lanes", name, count[name])
		}
	}
}

// laneOf returns a lane whose best member among names is the first of them.
func laneOf(names ...string) string {
	for i := 0; ; i++ {
		lane := fmt.Sprintf("l%d-", i)
		best := slices.MaxFunc(names, func(a, b string) int {
			x, y := sha256.Sum256([]byte(lane+"\x00"+a)), sha256.Sum256([]byte(lane+"\x00"+b))
			return slices.Compare(x[:], y[:])
		})
		if best == names[0] {
			return lane
		}
	}
}

func TestOrderWithinLane(t *testing.T) {
	t.Run("F22 F29 one after another, other lanes go on", func(t *testing.T) {
		d := newDesk(t, bus.DispatchOptions{})
		d.join("a", 2)
		d.add("x", 3)
		d.add("y", 1)
		d.want("assign x1/1 to i-a (a)", "assign y1/1 to i-a (a)")
		d.ack("a", "x1", 1, done)
		d.want("finish x1/1 done", "assign x2/1 to i-a (a)")
		d.ack("a", "x2", 1, replied)
		d.want("finish x2/1 done", "reply x2")
		d.ReplyDone(d.now, "x2") // only then the next of the lane
		d.want("assign x3/1 to i-a (a)")
	})
	t.Run("a failure is tried again before what follows", func(t *testing.T) {
		d := newDesk(t, bus.DispatchOptions{RetryAfter: time.Second})
		d.join("a", 2)
		d.add("x", 2)
		d.want("assign x1/1 to i-a (a)")
		d.ack("a", "x1", 1, failed)
		d.want("take back x1/2")
		d.tick(990 * time.Millisecond)
		d.want()
		d.tick(10 * time.Millisecond)
		d.want("assign x1/2 to i-a (a)")
		d.ack("a", "x1", 2, bus.Outcome{Status: bus.TimedOut})
		d.want("take back x1/3")
		d.tick(1999 * time.Millisecond)
		d.want()
		d.tick(time.Millisecond)
		d.want("assign x1/3 to i-a (a)")
		d.ack("a", "x1", 3, failed)
		d.want("finish x1/3 failed dead: failed after 3 attempts: boom", "reply x1")
		d.ReplyDone(d.now, "x1")
		d.want("assign x2/1 to i-a (a)")
	})
	t.Run("back-off ends growing", func(t *testing.T) {
		d := newDesk(t, bus.DispatchOptions{RetryAfter: time.Second, Attempts: 100})
		d.join("a", 1)
		d.add("x", 1)
		for attempt := 1; attempt < 100; attempt++ {
			d.Take()
			d.ack("a", "x1", attempt, failed)
			d.Take()
			d.tick(64*time.Second + time.Second)
			d.want(fmt.Sprintf("assign x1/%d to i-a (a)", attempt+1))
		}
	})
	t.Run("known ids are left out", func(t *testing.T) {
		d := newDesk(t, bus.DispatchOptions{})
		d.join("a", 5)
		d.Add(d.now, []bus.Item{{Seq: 1, ID: "x1", Lane: "x"}, {Seq: 1, ID: "x1", Lane: "x"}, {Seq: 1, ID: "x1", Lane: "y"}})
		d.want("assign x1/1 to i-a (a)")
		d.ack("a", "x1", 1, done)
		d.want("finish x1/1 done")
	})
}

func TestWhereLanesGo(t *testing.T) {
	t.Run("stays with the best while something is in flight", func(t *testing.T) {
		lane := laneOf("b", "a")
		d := newDesk(t, bus.DispatchOptions{})
		d.join("a", 4)
		d.add(lane, 2)
		d.want("assign " + lane + "1/1 to i-a (a)")
		d.join("b", 4) // better
		d.want()
		d.ack("a", lane+"1", 1, done)
		d.want("finish "+lane+"1/1 done", "assign "+lane+"2/1 to i-b (b)")
	})
	t.Run("moves when the best has no free slot", func(t *testing.T) {
		lane, other := laneOf("a", "b"), "z"+laneOf("a", "b")
		d := newDesk(t, bus.DispatchOptions{})
		d.join("a", 1)
		d.add(other, 1)
		d.want("assign " + other + "1/1 to i-a (a)")
		d.join("b", 1)
		d.add(lane, 1)
		d.want("assign " + lane + "1/1 to i-b (b)")
	})
	t.Run("no free slot anywhere: waits", func(t *testing.T) {
		d := newDesk(t, bus.DispatchOptions{})
		d.join("a", 1)
		d.add("x", 1)
		d.add("y", 1)
		d.want("assign x1/1 to i-a (a)")
		d.ack("a", "x1", 1, done)
		d.want("finish x1/1 done", "assign y1/1 to i-a (a)")
	})
	t.Run("waits for its live member for 1 s", func(t *testing.T) {
		lane := laneOf("b", "a")
		d := newDesk(t, bus.DispatchOptions{HoldFor: time.Second})
		d.Expect(d.now, "i-b", "b")
		d.join("a", 4)
		d.add(lane, 1)
		d.tick(999 * time.Millisecond)
		d.want()
		d.tick(time.Millisecond)
		d.want("assign " + lane + "1/1 to i-a (a)")
	})
	t.Run("its live member joins in time", func(t *testing.T) {
		lane := laneOf("b", "a")
		d := newDesk(t, bus.DispatchOptions{HoldFor: time.Second})
		d.Expect(d.now, "i-b", "b")
		d.join("a", 4)
		d.add(lane, 1)
		d.tick(500 * time.Millisecond)
		d.join("b", 4)
		d.want("assign " + lane + "1/1 to i-b (b)")
	})
	t.Run("its member dies meanwhile", func(t *testing.T) {
		lane := laneOf("b", "a")
		d := newDesk(t, bus.DispatchOptions{})
		d.Expect(d.now, "i-b", "b")
		d.join("a", 4)
		d.add(lane, 1)
		d.want()
		d.Died(d.now, "i-b")
		d.want("assign " + lane + "1/1 to i-a (a)")
	})
	t.Run("a lost stream holds lanes too", func(t *testing.T) {
		lane := laneOf("b", "a")
		d := newDesk(t, bus.DispatchOptions{HoldFor: time.Second})
		d.join("a", 4)
		d.join("b", 4)
		d.StreamEnded(d.now, "i-b")
		d.add(lane, 1)
		d.want()
		d.tick(time.Second)
		d.want("assign " + lane + "1/1 to i-a (a)")
	})
	t.Run("F51 idle lanes of a hung member move at once", func(t *testing.T) {
		lane := laneOf("b", "a")
		d := newDesk(t, bus.DispatchOptions{})
		d.join("a", 4)
		d.join("b", 4)
		d.Hung(d.now, "i-b")
		d.add(lane, 1)
		d.want("assign " + lane + "1/1 to i-a (a)")
		d.ack("a", lane+"1", 1, done)
		d.Awake(d.now, "i-b")
		d.Take()
		d.add(lane+lane, 0)
		d.Add(d.now, []bus.Item{{Seq: 99, ID: "again", Lane: lane}})
		d.want("assign again/1 to i-b (b)")
	})
	t.Run("route leader", func(t *testing.T) {
		d := newDesk(t, bus.DispatchOptions{Self: "i-a", Route: bus.ToLeader})
		d.join("b", 4)
		d.add("x", 1)
		d.add("y", 1)
		d.want()
		d.join("a", 1)
		d.want("assign x1/1 to i-a (a)")
		d.ack("a", "x1", 1, done)
		d.want("finish x1/1 done", "assign y1/1 to i-a (a)")
	})
	t.Run("a leaving member gets nothing new", func(t *testing.T) {
		d := newDesk(t, bus.DispatchOptions{})
		d.Join(d.now, bus.Joining{Instance: "i-a", Name: "a", Slots: 4, Leaving: true})
		d.add("x", 1)
		d.tick(time.Minute)
		d.want()
		d.join("b", 4)
		d.want("assign x1/1 to i-b (b)")
	})
	t.Run("one that gives work back gets nothing new", func(t *testing.T) {
		d := newDesk(t, bus.DispatchOptions{})
		d.join("a", 4)
		d.add("x", 1)
		d.want("assign x1/1 to i-a (a)")
		d.ack("a", "x1", 1, returned)
		d.want("take back x1/1") // the attempt is not used up
		d.join("b", 4)
		d.want("assign x1/1 to i-b (b)")
	})
	t.Run("stopped", func(t *testing.T) {
		d := newDesk(t, bus.DispatchOptions{})
		d.join("a", 4)
		d.add("x", 2)
		d.want("assign x1/1 to i-a (a)")
		d.Stop()
		d.add("y", 1)
		d.ack("a", "x1", 1, done) // still taken in
		d.tick(time.Minute)
		d.want("finish x1/1 done")
	})
	t.Run("no assignment while too many replies are unsent", func(t *testing.T) {
		d := newDesk(t, bus.DispatchOptions{MaxReplying: 1})
		d.join("a", 4)
		d.add("x", 1)
		d.ack("a", "x1", 1, replied)
		d.Take()
		d.add("y", 1)
		d.want()
		d.ReplyDone(d.now, "x1")
		d.want("assign y1/1 to i-a (a)")
	})
}

func TestWorkInHand(t *testing.T) {
	begun := func(t *testing.T) *desk { // a has x1, the lane goes on to x2
		d := newDesk(t, bus.DispatchOptions{RedeliverAfter: 30 * time.Second})
		d.join("a", 4)
		d.add("x", 2)
		d.want("assign x1/1 to i-a (a)")
		return d
	}
	t.Run("dies: attempt + 1", func(t *testing.T) {
		d := begun(t)
		d.join("b", 4)
		d.Died(d.now, "i-a")
		d.want("close stream of i-a", "supersede x1/1 at i-a", "take back x1/2", "assign x1/2 to i-b (b)")
		if got := d.ack("a", "x1", 1, done); got != bus.Superseded {
			t.Errorf("ack of the dead one's attempt: %s", got)
		}
	})
	t.Run("hangs: redelivered after 30 s", func(t *testing.T) {
		d := begun(t)
		d.join("b", 4)
		d.Hung(d.now, "i-a")
		d.tick(30*time.Second - 1)
		d.want()
		d.tick(1)
		d.want("close stream of i-a", "supersede x1/1 at i-a", "take back x1/2", "assign x1/2 to i-b (b)")
		if got := d.ack("a", "x1", 1, done); got != bus.Superseded {
			t.Errorf("late ack: %s", got)
		}
		if got := d.join("a", 4, held("x1", 1)); !slices.Equal(got, []bus.Held{held("x1", 1)}) {
			t.Errorf("superseded at its join: %v", got)
		}
	})
	t.Run("hangs, then loses its stream: still 30 s in all", func(t *testing.T) {
		d := begun(t)
		d.join("b", 4)
		d.Hung(d.now, "i-a")
		d.tick(20 * time.Second)
		d.StreamEnded(d.now, "i-a")
		d.tick(10 * time.Second)
		d.want("supersede x1/1 at i-a", "take back x1/2", "assign x1/2 to i-b (b)")
	})
	t.Run("hangs and wakes: its own again", func(t *testing.T) {
		d := begun(t)
		d.Hung(d.now, "i-a")
		d.tick(29 * time.Second)
		d.Awake(d.now, "i-a")
		d.tick(time.Minute)
		d.want()
		if got := d.ack("a", "x1", 1, done); got != bus.Recorded {
			t.Errorf("ack: %s", got)
		}
	})
	t.Run("stays away: redelivered after 30 s", func(t *testing.T) {
		d := begun(t)
		d.join("b", 4)
		d.StreamEnded(d.now, "i-a")
		d.tick(30*time.Second - 1)
		d.want()
		d.tick(1)
		d.want("supersede x1/1 at i-a", "take back x1/2", "assign x1/2 to i-b (b)")
		if got := d.Instances(); !slices.Equal(got, []string{"i-b"}) {
			t.Errorf("members known: %v", got)
		}
	})
	t.Run("joins again and names it: carried on", func(t *testing.T) {
		d := begun(t)
		d.StreamEnded(d.now, "i-a")
		d.tick(time.Second)
		if got := d.join("a", 4, held("x1", 1)); got != nil {
			t.Errorf("superseded: %v", got)
		}
		d.want()
	})
	t.Run("joins again without naming it: same attempt", func(t *testing.T) {
		d := begun(t)
		d.StreamEnded(d.now, "i-a")
		d.join("a", 4)
		d.want("take back x1/1", "assign x1/1 to i-a (a)")
	})
	t.Run("joins again with its outcome", func(t *testing.T) {
		d := begun(t)
		d.StreamEnded(d.now, "i-a")
		_, verdicts := d.Join(d.now, bus.Joining{Instance: "i-a", Name: "a", Slots: 4, Finished: []bus.Ack{
			{Delivery: "x1", Attempt: 1, Outcome: done}, {Delivery: "gone", Attempt: 1, Outcome: done},
		}})
		if !slices.Equal(verdicts, []bus.Verdict{bus.Recorded, bus.Unknown}) {
			t.Errorf("verdicts: %v", verdicts)
		}
		d.want("finish x1/1 done", "assign x2/1 to i-a (a)")
	})
	t.Run("names an older attempt of what it has: superseded, the new one goes out again", func(t *testing.T) {
		d := newDesk(t, bus.DispatchOptions{})
		d.Restore(d.now, []bus.Restored{{Item: bus.Item{Seq: 1, ID: "x1", Lane: "x", Attempt: 2}, Member: "i-a"}})
		if got := d.join("a", 4, held("x1", 1)); !slices.Equal(got, []bus.Held{held("x1", 1)}) {
			t.Errorf("superseded: %v", got)
		}
		d.want("take back x1/2", "assign x1/2 to i-a (a)")
	})
	t.Run("attempts are exhausted by deaths", func(t *testing.T) {
		d := newDesk(t, bus.DispatchOptions{Attempts: 2})
		d.join("a", 1)
		d.add("x", 1)
		d.Died(d.now, "i-a")
		d.Take()
		d.join("b", 1)
		d.want("assign x1/2 to i-b (b)")
		d.Died(d.now, "i-b")
		d.want("close stream of i-b", "supersede x1/2 at i-b",
			"finish x1/2 failed dead: its member died in attempt 2", "reply x1")
	})
	t.Run("denied is an end without a reply", func(t *testing.T) {
		d := begun(t)
		d.ack("a", "x1", 1, bus.Outcome{Status: bus.Denied})
		d.want("finish x1/1 denied", "assign x2/1 to i-a (a)")
	})
	t.Run("verdicts", func(t *testing.T) {
		d := begun(t)
		d.join("b", 4)
		for _, tt := range []struct {
			name, id string
			attempt  int
			want     bus.Verdict
		}{
			{"b", "x1", 1, bus.Superseded},
			{"a", "x1", 2, bus.Superseded},
			{"a", "x2", 1, bus.Superseded}, // not under way
			{"a", "zz", 1, bus.Unknown},
			{"a", "x1", 1, bus.Recorded},
			{"a", "x1", 1, bus.Unknown},
		} {
			if got := d.ack(tt.name, tt.id, tt.attempt, done); got != tt.want {
				t.Errorf("%s acks %s/%d: %s, want %s", tt.name, tt.id, tt.attempt, got, tt.want)
			}
		}
	})
}

func TestRestore(t *testing.T) {
	item := func(seq uint64, id, lane string, attempt int) bus.Item {
		return bus.Item{Seq: seq, ID: id, Lane: lane, Attempt: attempt}
	}
	t.Run("G3 carried on, replied, queued", func(t *testing.T) {
		d := newDesk(t, bus.DispatchOptions{})
		d.Expect(d.now, "i-a", "a")
		d.Restore(d.now, []bus.Restored{
			{Item: item(1, "r1", "r", 1), Replying: true},
			{Item: item(2, "x1", "x", 2), Member: "i-a"},
			{Item: item(3, "x2", "x", 0)},
			{Item: item(4, "r2", "r", 1)},
			{Item: item(5, "q1", "q", 2)},
		})
		d.want("reply r1")
		d.join("a", 4, held("x1", 2))
		d.want("assign q1/2 to i-a (a)")
		d.ReplyDone(d.now, "r1")
		d.want("assign r2/1 to i-a (a)")
		d.ack("a", "x1", 2, done)
		d.want("finish x1/2 done", "assign x2/1 to i-a (a)")
	})
	t.Run("of a dead member", func(t *testing.T) {
		d := newDesk(t, bus.DispatchOptions{})
		d.Restore(d.now, []bus.Restored{{Item: item(1, "x1", "x", 1), Member: "i-gone"}})
		d.join("a", 1)
		d.want()
		d.Died(d.now, "i-gone")
		d.want("supersede x1/1 at i-gone", "take back x1/2", "assign x1/2 to i-a (a)")
	})
	t.Run("of a member that never joins", func(t *testing.T) {
		d := newDesk(t, bus.DispatchOptions{RedeliverAfter: 30 * time.Second})
		d.Restore(d.now, []bus.Restored{{Item: item(1, "x1", "x", 1), Member: "i-gone"}})
		d.join("a", 1)
		d.tick(30 * time.Second)
		d.want("supersede x1/1 at i-gone", "take back x1/2", "assign x1/2 to i-a (a)")
	})
	t.Run("named by a member but not in the journal's hand: adopted", func(t *testing.T) {
		d := newDesk(t, bus.DispatchOptions{})
		d.Restore(d.now, []bus.Restored{{Item: item(1, "x1", "x", 1)}})
		d.join("a", 1, held("x1", 1))
		d.want("adopt x1/1 by i-a (a)")
		d.ack("a", "x1", 1, done) // its lane is listed, and gone
		d.want("finish x1/1 done")
		d.add("x", 1)
		d.want("assign x1/1 to i-a (a)")
	})
	t.Run("two of a lane in hand: neither is lost, nothing is added", func(t *testing.T) {
		d := newDesk(t, bus.DispatchOptions{})
		d.Restore(d.now, []bus.Restored{
			{Item: item(1, "x1", "x", 1)},
			{Item: item(2, "x2", "x", 1), Member: "i-a"},
			{Item: item(3, "x3", "x", 1), Replying: true},
		})
		d.want("reply x3")
		d.join("a", 9, held("x2", 1))
		d.ReplyDone(d.now, "x3")
		d.want()
		d.ack("a", "x2", 1, done)
		d.want("finish x2/1 done", "assign x1/1 to i-a (a)")
	})
}

func TestUniqueName(t *testing.T) {
	taken := map[string]bool{"bot": true, "bot-2": true}
	for _, tt := range []struct{ name, want string }{{"bot", "bot-3"}, {"other", "other"}, {"bot-2", "bot-2-2"}} {
		if got := bus.UniqueName(tt.name, func(n string) bool { return taken[n] }); got != tt.want {
			t.Errorf("UniqueName(%q) = %q, want %q", tt.name, got, tt.want)
		}
	}
}
