package journal

import (
	"cmp"
	"math"
	"slices"
	"unique"
)

// A span is where a line stands: in which of the journal's files, and where in
// it.
type span struct {
	file   uint8
	off    int64
	length int32
}

// An entry is what memory holds of an update. There may be 100,000 of them, so
// it is kept to 96 bytes: the fields of its two spans are laid out by size, and
// what only an entry in hand has is apart.
type entry struct {
	seq       uint64
	id        int64
	hash      uint64
	delivery  string
	lane      unique.Handle[string]
	work      *work // nil: zero
	bodyOff   int64 // of the update's line
	replyOff  int64 // of the outcome's line
	bodyLen   int32
	replyLen  int32 // 0: no reply
	size      int32
	attempt   uint16
	bodyFile  uint8
	replyFile uint8
	state     State
	confirmed bool // Telegram does not send it again
}

// gone is the state of an entry that was forgotten and still stands in the
// list.
const gone = Dead + 1

type work struct {
	member, name, reason string
	term                 uint64
}

// inHand returns the entry's work to be changed.
func (e *entry) inHand() *work {
	if e.work == nil {
		e.work = new(work)
	}
	return e.work
}

func (e *entry) body() span  { return span{e.bodyFile, e.bodyOff, e.bodyLen} }
func (e *entry) reply() span { return span{e.replyFile, e.replyOff, e.replyLen} }

func (e *entry) setBody(at span)  { e.bodyFile, e.bodyOff, e.bodyLen = at.file, at.off, at.length }
func (e *entry) setReply(at span) { e.replyFile, e.replyOff, e.replyLen = at.file, at.off, at.length }

// held is how much of MaxBytes a live entry takes.
func (e *entry) held() int64 { return int64(e.size) + int64(e.replyLen) }

func (e *entry) export() Entry {
	var w work
	if e.work != nil {
		w = *e.work
	}
	return Entry{
		Seq: e.seq, Delivery: e.delivery, ID: e.id, Hash: e.hash, Lane: e.lane.Value(), Size: int(e.size),
		State: e.state, Attempt: int(e.attempt), Member: w.member, Name: w.name, Term: w.term,
		Reason: w.reason,
	}
}

type call struct {
	request string
	seq     uint64
	hash    uint64
	lane    unique.Handle[string]
	by      string
	result  span // length 0: none yet
}

func (c *call) export() CallEntry {
	return CallEntry{Request: c.request, Seq: c.seq, Lane: c.lane.Value(), By: c.by, Hash: c.hash, Done: c.result.length > 0}
}

// An index is what the records so far amount to. Folding the lines of a
// snapshot over the state that it was made of changes nothing but spans.
type index struct {
	maxDead int

	list    []*entry         // by seq; may hold some that are gone
	byID    map[int64]*entry // the first one of each id that is not gone; never id 0
	settled []*entry         // Done or Dead and not confirmed, for KindConfirmed
	dead    []*entry         // Dead, in the order in which they became so
	calls   map[string]*call
	bySeq   map[uint64][]*call // the calls of entries

	next    uint64 // the lowest seq that was never used
	pending int    // live entries
	bytes   int64  // what they hold
	goneN   int    // entries in list that are gone
	dropped int    // dead letters dropped since somebody asked
	orphans int    // records about entries that are not there, since somebody asked
}

func newIndex(maxDead int) *index {
	return &index{maxDead: maxDead, byID: map[int64]*entry{}, calls: map[string]*call{}, bySeq: map[uint64][]*call{}, next: 1}
}

func compareSeq(e *entry, seq uint64) int { return cmp.Compare(e.seq, seq) }

// find returns the entry with the number seq, or nil.
func (x *index) find(seq uint64) *entry {
	if i, ok := slices.BinarySearchFunc(x.list, seq, compareSeq); ok && x.list[i].state != gone {
		return x.list[i]
	}
	return nil
}

// fold brings a record in, whose line stands at at. It reports false for a kind
// that it does not know.
func (x *index) fold(r *Record, at span) bool {
	switch r.Kind {
	case KindUpdate:
		x.add(r, at)
	case KindAssign, KindRelease, KindOutcome, KindDone, KindDead, kindState:
		if e := x.find(r.Seq); e != nil {
			x.change(e, r, at)
		} else {
			x.orphans++
		}
	case KindCall, KindResult, KindForget:
		x.foldCall(r, at)
	case KindConfirmed:
		x.confirm(r.Offset, r.Empty)
	case kindBase:
		x.next = max(x.next, r.next)
	case kindComplete:
	default:
		return false
	}
	return true
}

func (x *index) add(r *Record, at span) {
	i, ok := slices.BinarySearchFunc(x.list, r.Seq, compareSeq)
	if ok {
		return
	}
	e := &entry{
		seq: r.Seq, id: r.ID, hash: r.Hash, delivery: r.Delivery,
		lane: unique.Make(r.Lane), size: int32(len(r.Body)),
	}
	e.setBody(at)
	x.list = slices.Insert(x.list, i, e)
	if x.byID[e.id] == nil && e.id != 0 {
		x.byID[e.id] = e
	}
	x.next = max(x.next, e.seq+1)
	x.pending++
	x.bytes += e.held()
}

// change applies a record to its entry.
func (x *index) change(e *entry, r *Record, at span) {
	before := *e
	switch r.Kind {
	case KindAssign:
		if e.state <= Assigned {
			e.state, e.attempt = Assigned, clamp(r.Attempt)
			e.work = &work{member: r.Member, name: r.Name, term: r.Term}
		}
	case KindRelease:
		if e.state == Assigned {
			e.state, e.attempt, e.work = Pending, max(e.attempt, 1)-1, nil
			if r.Attempt > 0 {
				e.attempt = clamp(r.Attempt)
			}
		}
	case KindOutcome:
		if e.state > Assigned {
			break
		}
		e.state, e.attempt = Done, clamp(r.Attempt)
		if len(r.Body) > 0 {
			e.state = Outcome
			e.setReply(at)
		}
	case KindDone:
		e.state = Done
	case KindDead:
		if e.state.live() {
			e.state, e.inHand().reason = Dead, r.Reason
		}
	case kindState:
		e.state, e.attempt, e.confirmed = r.state, clamp(r.Attempt), r.confirmed
		e.work = nil
		if w := (work{r.Member, r.Name, r.Reason, r.Term}); w != (work{}) {
			e.work = &w
		}
	}
	if before.state.live() {
		x.pending--
		x.bytes -= before.held()
	}
	if e.state.live() {
		x.pending++
		x.bytes += e.held()
	}
	x.settle(e, before.state, before.confirmed)
}

// settle keeps the lists of finished entries after one changed from the state
// before.
func (x *index) settle(e *entry, before State, wasConfirmed bool) {
	if e.state == Done {
		e.work = nil
		e.setReply(span{})
		if e.confirmed || e.id == 0 {
			x.forget(e)
		}
	}
	if e.state == Dead && e.confirmed {
		x.forgetID(e)
	}
	if before == Dead && e.state != Dead {
		x.dead = slices.DeleteFunc(x.dead, func(d *entry) bool { return d == e })
	}
	if (e.state == Done || e.state == Dead) && !e.confirmed && (before.live() || wasConfirmed) {
		x.settled = append(x.settled, e)
	}
	if e.state == Dead && before != Dead {
		x.dead = append(x.dead, e)
		if len(x.dead) > x.maxDead {
			x.dropped++
			oldest := x.dead[0]
			x.change(oldest, &Record{Kind: KindDone, Seq: oldest.seq}, span{})
		}
	}
}

// move notes where an entry's lines went, and what of them was lost.
func (x *index) move(e *entry, to move) {
	held := e.held()
	e.setBody(to.body)
	e.setReply(to.reply)
	if to.lost {
		e.size = 0
	}
	if e.state.live() {
		x.bytes += e.held() - held
	}
}

// confirm forgets what Telegram will not send again, as KindConfirmed says. Dead
// letters stay, but are no longer what Seen looks for.
func (x *index) confirm(offset int64, empty bool) {
	x.settled = slices.DeleteFunc(x.settled, func(e *entry) bool {
		if e.state == gone || e.confirmed {
			return true
		}
		if e.id >= offset && !empty {
			return false
		}
		e.confirmed = true
		if e.state == Done {
			x.forget(e)
		} else {
			x.forgetID(e)
			x.forgetCalls(e)
		}
		return true
	})
}

// forget takes a Done entry out, with its calls that have a result.
func (x *index) forget(e *entry) {
	e.state = gone
	x.forgetID(e)
	x.forgetCalls(e)
	x.goneN++
	if x.goneN > 64 && x.goneN > len(x.list)/2 {
		kept := make([]*entry, 0, len(x.list)-x.goneN)
		for _, e := range x.list {
			if e.state != gone {
				kept = append(kept, e)
			}
		}
		x.list, x.goneN = kept, 0
	}
}

func (x *index) forgetID(e *entry) {
	if x.byID[e.id] == e {
		delete(x.byID, e.id)
	}
}

func (x *index) forgetCalls(e *entry) {
	for _, c := range slices.Clone(x.bySeq[e.seq]) {
		if c.result.length > 0 {
			x.forgetCall(c)
		}
	}
}

func (x *index) foldCall(r *Record, at span) {
	c := x.calls[r.Request]
	switch {
	case c == nil && r.Kind == KindCall:
		c = &call{request: r.Request, seq: r.Seq, hash: r.Hash, lane: unique.Make(r.Lane), by: r.By}
		x.calls[c.request] = c
		if c.seq != 0 {
			x.bySeq[c.seq] = append(x.bySeq[c.seq], c)
		}
	case c == nil:
		x.orphans++
	case r.Kind == KindCall:
		if c.result.length == 0 {
			c.by = r.By
		}
	case r.Kind == KindResult:
		c.result = at
	case r.Kind == KindForget:
		x.forgetCall(c)
	}
}

func (x *index) forgetCall(c *call) {
	delete(x.calls, c.request)
	if c.seq == 0 {
		return
	}
	rest := slices.DeleteFunc(x.bySeq[c.seq], func(o *call) bool { return o == c })
	if len(rest) == 0 {
		delete(x.bySeq, c.seq)
	} else {
		x.bySeq[c.seq] = rest
	}
}

func clamp(n int) uint16 { return uint16(min(max(n, 0), math.MaxUint16)) }
