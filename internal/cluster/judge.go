package cluster

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"tgbridge/internal/botapitest"
)

// slack is how long after the end of a call its sender may still be about to
// write down that it was made: a sender that dies within it does not know.
const slack = 250 * time.Millisecond

// judge follows a server's ledger, incidents and lease changes, and reports on
// them. It is plain code: what it says depends on what it was told alone. Not
// safe for concurrent use.
type judge struct {
	names     map[int]string // process -> member
	addresses map[string]int // of the server -> process
	incidents []Incident
	leases    []LeaseChange

	tokens    map[string]*question
	asked     []string           // tokens in the order of their messages
	calls     map[uint64]*call   // requests under way
	polls     []*call            // getUpdates in the order of their beginnings
	answered  map[int64][]string // chat -> tokens in the order of their first answers
	crossed   []string           // tokens answered in another chat
	lastPoll  map[int]*call      // process -> its last poll
	failovers []*failover        // in the order of incidents
	open      []*failover        // those that no poll has ended yet
	conflicts int
	beyond    int
}

// question is a message of a user.
type question struct {
	chat    int64
	at      time.Duration
	answers []*call
	first   time.Duration // when the first answer was stored
}

// call is a request of a member.
type call struct {
	process    int
	begin, end time.Duration
	status     int // 0 while it is under way, or if no answer was sent
	over       bool
	offset     int64
	hasOffset  bool
}

func newJudge() *judge {
	return &judge{
		names:     make(map[int]string),
		addresses: make(map[string]int),
		tokens:    make(map[string]*question),
		calls:     make(map[uint64]*call),
		answered:  make(map[int64][]string),
		lastPoll:  make(map[int]*call),
	}
}

// process tells of a new process and its address of the server.
func (j *judge) process(number int, member, address string) {
	j.names[number] = member
	j.addresses[address] = number
}

// said tells of a message with this token. It must be told before the events
// that follow from it.
func (j *judge) said(chat int64, token string, at time.Duration) {
	j.tokens[token] = &question{chat: chat, at: at}
	j.asked = append(j.asked, token)
}

// incident tells of an incident. It must be told before the events that follow
// from it.
func (j *judge) incident(i Incident) {
	j.incidents = append(j.incidents, i)
	if i.endsPolling() {
		f := &failover{Failover: Failover{Kind: i.Kind, From: i.Member}, incident: i}
		j.failovers, j.open = append(j.failovers, f), append(j.open, f)
	}
}

// forget takes back the last incident of this kind and process, which did not
// happen after all.
func (j *judge) forget(i Incident) {
	j.incidents = slices.DeleteFunc(j.incidents, func(o Incident) bool { return o == i })
	same := func(f *failover) bool { return f.incident == i }
	j.failovers, j.open = slices.DeleteFunc(j.failovers, same), slices.DeleteFunc(j.open, same)
}

func (j *judge) lease(c LeaseChange) { j.leases = append(j.leases, c) }

// event takes one event of the ledger; all must come, in their order.
func (j *judge) event(e botapitest.Event) {
	switch e.Kind {
	case botapitest.EventBegin:
		j.begin(e)
	case botapitest.EventSent:
		j.sent(e)
	case botapitest.EventEnd:
		j.end(e)
	}
}

func (j *judge) begin(e botapitest.Event) {
	c := &call{process: j.addresses[e.Local], begin: e.At, offset: e.Offset, hasOffset: e.HasOffset}
	j.calls[e.Seq] = c
	if c.process == 0 {
		j.beyond++
	}
	if e.Method == "getupdates" {
		j.polls = append(j.polls, c)
		j.open = slices.DeleteFunc(j.open, func(f *failover) bool { return j.succeeds(c, f) })
		j.lastPoll[c.process] = c
	}
}

func (j *judge) end(e botapitest.Event) {
	c := j.calls[e.Request]
	if c == nil {
		return
	}
	delete(j.calls, e.Request)
	c.end, c.over, c.status = e.At, true, e.Status
	if e.Method != "getupdates" {
		return
	}
	if e.Status == 409 {
		j.conflicts++
	}
}

func (j *judge) sent(e botapitest.Event) {
	c := j.calls[e.Request]
	if c == nil {
		return
	}
	for _, token := range tokensIn(e.Text) {
		q := j.tokens[token]
		switch {
		case q == nil:
			continue // of an earlier cluster with the same state
		case q.chat != e.Chat:
			j.crossed = append(j.crossed, token)
			continue
		case len(q.answers) == 0:
			q.first = e.At
			j.answered[q.chat] = append(j.answered[q.chat], token)
		}
		q.answers = append(q.answers, c)
	}
}

// waiting is how many messages have no answer.
func (j *judge) waiting() int {
	answered := 0
	for _, tokens := range j.answered {
		answered += len(tokens)
	}
	return len(j.asked) - answered
}

// report judges what was told so far.
func (j *judge) report() Report {
	r := Report{
		Sent: len(j.asked), Received: len(j.asked) - j.waiting(), Crossed: j.crossed,
		Polls: len(j.polls), Conflicts: j.conflicts, Beyond: j.beyond,
		Incidents: slices.Clone(j.incidents), Leases: slices.Clone(j.leases),
	}
	var latencies []time.Duration
	for _, token := range j.asked {
		q := j.tokens[token]
		if len(q.answers) == 0 {
			r.Lost = append(r.Lost, token)
			continue
		}
		latencies = append(latencies, q.first-q.at)
		r.Doubled = append(r.Doubled, j.doublings(token, q)...)
	}
	r.Latency = SpreadOf(latencies)
	r.Disorder = j.disorder()
	r.Failovers = j.closeFailovers()
	r.DeposedPolls = j.deposedPolls()
	r.FallenOffsets = j.fallenOffsets()
	return r
}

// disorder lists the tokens that were answered after a later one.
func (j *judge) disorder() (late []string) {
	for _, chat := range slices.Sorted(maps.Keys(j.answered)) {
		latest := -1
		for _, token := range j.answered[chat] {
			_, n, _ := parseToken(token)
			if n < latest {
				late = append(late, token)
			}
			latest = max(latest, n)
		}
	}
	return late
}

// doublings explains each answer to q beyond the first by the one before.
func (j *judge) doublings(token string, q *question) (all []Doubling) {
	for i := 1; i < len(q.answers); i++ {
		before := q.answers[i-1]
		d := Doubling{Token: token, Cause: "unknown", Before: j.sending(before), Again: j.sending(q.answers[i])}
		switch incident, hit := j.hit(before, q.answers[i].begin); {
		case hit:
			d.Cause = fmt.Sprintf("%s of %s, the sender", incident.Kind, incident.Member)
			d.Allowed = true
		case before.status == 429 || before.status >= 500:
			d.Cause = fmt.Sprintf("the server answered %d", before.status)
			d.Allowed = true
		case before.over && before.status == 0:
			d.Cause = "the connection was cut"
		}
		all = append(all, d)
	}
	return all
}

func (j *judge) sending(c *call) Sending {
	return Sending{Member: j.names[c.process], Process: c.process, Begin: c.begin, End: c.end, Status: c.status}
}

// hit finds an incident that struck the sender of a call before it can have
// known how the call ended, and before the time given.
func (j *judge) hit(c *call, before time.Duration) (Incident, bool) {
	for n, i := range j.incidents {
		struck := i.Kind == Killed || i.Kind == Frozen || i.Kind == Exited
		if !struck || i.Process != c.process || i.At > before {
			continue
		}
		unaware := !c.over || c.status == 0 || i.At <= c.end+slack
		// The server may see a call after its sender was struck: the bytes were
		// on their way, or are written first of all when the sender wakes.
		if unaware && (i.Kind != Frozen || c.begin <= j.thawAfter(n)+slack) {
			return i, true
		}
	}
	return Incident{}, false
}

// thawAfter is when the process of the n-th incident, a freeze, was thawed; the
// freeze's own instant if it was not.
func (j *judge) thawAfter(n int) time.Duration {
	frozen := j.incidents[n]
	for _, i := range j.incidents[n+1:] {
		if i.Kind == Thawed && i.Process == frozen.Process {
			return i.At
		}
	}
	return frozen.At
}
