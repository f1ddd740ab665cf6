package bus_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tgbridge/bus"
)

// blocker is a handler that waits to be let go, and tells why it was cancelled.
type blocker struct {
	mu     sync.Mutex
	let    map[string]chan struct{}
	causes map[string]error
}

func newBlocker() *blocker {
	return &blocker{let: map[string]chan struct{}{}, causes: map[string]error{}}
}

func (b *blocker) gate(id string) chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.let[id] == nil {
		b.let[id] = make(chan struct{})
	}
	return b.let[id]
}

func (b *blocker) handle(ctx context.Context, d bus.Delivery) bus.Outcome {
	select {
	case <-b.gate(d.ID):
		return done
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		b.causes[d.ID] = context.Cause(ctx)
		return bus.Outcome{Status: bus.Failed, Error: context.Cause(ctx).Error()}
	}
}

func (b *blocker) cause(id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.causes[id]
}

func TestDeliveries(t *testing.T) {
	b := newBench(t)
	a, c := b.member("a"), b.member("c")
	a.lead(1)
	a.follow(a, 1)
	c.follow(a, 1)
	var all []bus.Item
	for i := range 40 {
		all = append(all, b.items(fmt.Sprintf("lane-%d", i%8), 1, "{\n \"x\": \"<\\u2028\xff>\"}")...)
	}
	b.send(a, all)
	eventually(t, "all are finished", func() bool {
		return !slices.ContainsFunc(all, func(it bus.Item) bool { return !b.disk.isFinished(it.ID) })
	})
	if a, c := len(a.began()), len(c.began()); a == 0 || c == 0 || a+c != 40 {
		t.Errorf("a handled %d, c %d; want 40 in all, and some each", a, c)
	}
	for _, m := range []*member{a, c} {
		for _, body := range m.bodies {
			if string(body) != "{\n \"x\": \"<\\u2028\xff>\"}" {
				t.Fatalf("a body came as %q", body)
			}
		}
	}
	eventually(t, "the hub is idle", a.hub.Idle)
	if counts, pending := a.hub.Counts(); pending != 0 || !counts["i-c"].Joined {
		t.Errorf("counts: %+v, %d pending", counts, pending)
	}
}

// TestG3WorkSurvivesLeaderChange: work in hand on members that survive goes on
// under the next leader, also what ended in between, and runs once.
func TestG3WorkSurvivesLeaderChange(t *testing.T) {
	b := newBench(t)
	a, c, e := b.member("a"), b.member("c"), b.member("e")
	gates := newBlocker()
	for _, m := range []*member{a, c, e} {
		m.onHandle(gates.handle)
	}
	end := a.lead(1)
	stopC, endedC := c.follow(a, 1)
	stopE, _ := e.follow(a, 1)
	var all []bus.Item
	for i := range 6 {
		all = append(all, b.items(fmt.Sprintf("lane-%d", i), 2, `{}`)...)
	}
	b.send(a, all)
	eventually(t, "six run", func() bool { return len(c.began())+len(e.began()) == 6 })
	firsts := append(c.began(), e.began()...)
	slices.Sort(firsts)

	a.hub.StopDispatch()
	a.hub.Bye("i-c")
	var bye *bus.ByeError
	if err := <-endedC; !errors.As(err, &bye) || bye.Heir != "i-c" {
		t.Fatalf("c's stream ended with %v", err)
	}
	stopC()
	stopE()
	if err := end(); !errors.Is(err, context.Canceled) {
		t.Fatalf("Run: %v", err)
	}
	close(gates.gate(strings.TrimSuffix(firsts[0], "/1"))) // ends without a leader
	eventually(t, "an outcome waits for a leader", func() bool {
		_, n := c.worker.InHand()
		_, k := e.worker.InHand()
		return n+k == 1
	})

	c.lead(2, bus.Present{Instance: "i-c", Name: "c"}, bus.Present{Instance: "i-e", Name: "e"})
	c.follow(c, 2)
	e.follow(c, 2)
	for _, id := range firsts[1:] {
		close(gates.gate(strings.TrimSuffix(id, "/1")))
	}
	for _, it := range all {
		if !slices.Contains(firsts, it.ID+"/1") {
			close(gates.gate(it.ID))
		}
	}
	eventually(t, "all are finished", func() bool {
		return !slices.ContainsFunc(all, func(it bus.Item) bool { return !b.disk.isFinished(it.ID) })
	})
	ran := append(c.began(), e.began()...)
	slices.Sort(ran)
	var want []string
	for _, it := range all {
		want = append(want, it.ID+"/1")
	}
	if diff := cmp.Diff(want, ran); diff != "" {
		t.Errorf("handlers that ran (-want +got):\n%s", diff)
	}
}

// TestF51SupersededHandler: a member that hung past redeliver-after finds, when
// it wakes and joins, that another has its work: its handler is cancelled, and a
// later attempt of its own does not run beside it.
func TestF51SupersededHandler(t *testing.T) {
	b := newBench(t)
	a, c := b.member("a"), b.member("c")
	gates := newBlocker()
	c.onHandle(gates.handle)
	a.leadWith(1, func(o *bus.HubOptions) {
		o.Dispatch.RedeliverAfter = 50 * time.Millisecond
		o.Settings = times
	})
	stop, ended := c.follow(a, 1)
	all := b.items("lane", 2, `{}`)
	b.send(a, all)
	eventually(t, "c runs the first", func() bool { return len(c.began()) == 1 })

	a.hub.Hung("i-c")
	if err := <-ended; err == nil { // its stream is closed after redeliver-after
		t.Fatal("c still follows")
	}
	stop()
	a.follow(a, 1)
	eventually(t, "a gets it as attempt 2", func() bool { return slices.Contains(a.began(), all[0].ID+"/2") })
	c.follow(a, 1)
	eventually(t, "c's handler is cancelled", func() bool { return gates.cause(all[0].ID) != nil })
	if cause := gates.cause(all[0].ID); !errors.Is(cause, bus.ErrSuperseded) {
		t.Errorf("cause: %v", cause)
	}
	eventually(t, "both are finished", func() bool { return b.disk.isFinished(all[1].ID) })
	eventually(t, "c has nothing in hand", func() bool {
		n, unconfirmed := c.worker.InHand()
		return n+unconfirmed == 0
	})
}

// TestAttemptsNeverRunSideBySide: a new attempt waits at a member until the
// earlier one, which does not heed its context at once, has returned.
func TestAttemptsNeverRunSideBySide(t *testing.T) {
	b := newBench(t)
	a := b.member("a")
	let := make(chan struct{})
	var mu sync.Mutex
	running, most := 0, 0
	a.onHandle(func(ctx context.Context, d bus.Delivery) bus.Outcome {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			running--
		}()
		if d.Attempt == 1 {
			<-let
		}
		return done
	})
	a.leadWith(1, func(o *bus.HubOptions) { o.Dispatch.RedeliverAfter = 20 * time.Millisecond })
	stop, ended := a.follow(a, 1)
	item := b.items("lane", 1, `{}`)
	b.send(a, item)
	eventually(t, "attempt 1 runs", func() bool { return len(a.began()) == 1 })
	a.hub.Hung("i-a")
	<-ended
	stop()
	a.follow(a, 1)
	eventually(t, "attempt 2 is in hand", func() bool { n, _ := a.worker.InHand(); return n == 2 })
	if got := a.began(); len(got) != 1 {
		t.Errorf("began %v while attempt 1 ran", got)
	}
	close(let)
	eventually(t, "finished", func() bool { return b.disk.isFinished(item[0].ID) })
	if most != 1 {
		t.Errorf("%d attempts ran at once", most)
	}
	if got := b.disk.finishes; !slices.Equal(got, []string{item[0].ID + "/2 done"}) {
		t.Errorf("outcomes: %v", got)
	}
}

// TestAckAnsweredWhenDurable: neither an acknowledgement, nor its repetition,
// nor a join that brings it is answered while the record is not on disk.
func TestAckAnsweredWhenDurable(t *testing.T) {
	b := newBench(t)
	a := b.member("a")
	a.lead(1)
	p := newPeer(t, a, "i-p", 1)
	p.join(t, bus.JoinRequest{Name: "p"})
	item := b.items("lane", 1, `{}`)
	b.send(a, item)
	m := p.next(t, bus.MsgUpdate)
	hold := make(chan struct{})
	b.disk.setHold(hold)
	ack := bus.Ack{Delivery: m.Delivery, Attempt: m.Attempt, Outcome: done}

	answers := make(chan string, 3)
	registration := p.registration
	for _, who := range []string{"first", "repeated"} {
		go func() {
			answer, err := p.client.Ack(t.Context(), registration, bus.AckRequest{Acks: []bus.Ack{ack}})
			answers <- fmt.Sprint(who, answer.Verdicts, err)
		}()
		if who == "first" {
			eventually(t, "the outcome is decided", func() bool { _, n := a.hub.Counts(); return n == 0 })
		}
	}
	again := newPeer(t, a, "i-p", 1)
	go func() {
		sub, err := again.client.Join(t.Context(), again.request(bus.JoinRequest{Name: "p", Finished: []bus.Ack{ack}}))
		if err != nil {
			answers <- "join: " + err.Error()
			return
		}
		answers <- fmt.Sprint("join", sub.Welcome.Verdicts, err)
		sub.Close()
	}()
	select {
	case got := <-answers:
		t.Fatalf("answered before the record was on disk: %s", got)
	case <-time.After(50 * time.Millisecond):
	}
	b.disk.setHold(nil)
	close(hold)
	got := []string{<-answers, <-answers, <-answers}
	slices.Sort(got)
	if got[0] != "first[recorded] <nil>" || got[1] != "join[unknown] <nil>" || !strings.HasPrefix(got[2], "repeated") {
		t.Errorf("answers: %q", got)
	}
}

// TestG5DeposedLeaderAnswersNoAck: what a leader took in after it lost the lease
// is not answered, so that the member tells it to the successor.
func TestG5DeposedLeaderAnswersNoAck(t *testing.T) {
	b := newBench(t)
	a := b.member("a")
	a.lead(1)
	p := newPeer(t, a, "i-p", 1)
	p.join(t, bus.JoinRequest{Name: "p"})
	b.send(a, b.items("lane", 1, `{}`))
	m := p.next(t, bus.MsgUpdate)
	b.reg.term.Store(2)
	ack := bus.Ack{Delivery: m.Delivery, Attempt: 1, Outcome: done}
	if _, err := p.client.Ack(t.Context(), p.registration, bus.AckRequest{Acks: []bus.Ack{ack}}); !bus.IsRefused(err, bus.CodeNotLeader) {
		t.Errorf("ack: %v", err)
	}
	q := newPeer(t, a, "i-p", 1)
	if _, err := q.client.Join(t.Context(), q.request(bus.JoinRequest{Name: "p", Finished: []bus.Ack{ack}})); !bus.IsRefused(err, bus.CodeNotLeader) {
		t.Errorf("join: %v", err)
	}
	if len(b.disk.finishes) != 0 {
		t.Errorf("the successor reads %v", b.disk.finishes)
	}
}

// TestFailedRecordEndsTheHub: what cannot be recorded cannot be undone either.
func TestFailedRecordEndsTheHub(t *testing.T) {
	b := newBench(t)
	a := b.member("a")
	end := a.lead(1)
	p := newPeer(t, a, "i-p", 1)
	p.join(t, bus.JoinRequest{Name: "p"})
	b.send(a, b.items("lane", 1, `{}`))
	m := p.next(t, bus.MsgUpdate)
	broken := errors.New("disk on fire")
	b.disk.setBroken(broken)
	req := bus.AckRequest{Acks: []bus.Ack{{Delivery: m.Delivery, Attempt: 1, Outcome: done}}}
	for range 2 { // the repetition is not "unknown" either
		if answer, err := p.client.Ack(t.Context(), p.registration, req); err == nil {
			t.Fatalf("ack answered %v", answer)
		}
	}
	if err := end(); !errors.Is(err, broken) {
		t.Errorf("Run: %v", err)
	}
}

// TestAcceptOnlyUnderTheTerm: a delivery of a leader that the registry does not
// show any more is not begun.
func TestAcceptOnlyUnderTheTerm(t *testing.T) {
	b := newBench(t)
	a, c := b.member("a"), b.member("c")
	a.lead(1)
	_, ended := c.follow(a, 1)
	items := b.items("lane", 1, `{}`)
	b.reg.term.Store(2)
	b.send(a, items)
	if err := <-ended; !errors.Is(err, bus.ErrTermPassed) {
		t.Errorf("Follow: %v", err)
	}
	if got := c.began(); len(got) != 0 {
		t.Errorf("began %v", got)
	}
}

// TestOneCheckForWhatCameTogether: the registry is read once for deliveries that
// came in together.
func TestOneCheckForWhatCameTogether(t *testing.T) {
	const lots, each = 3, 5
	b := newBench(t)
	var checks, handled atomic.Int64
	socket := filepath.Join(b.dir, "leader.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	leader := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/join" {
			w.WriteHeader(http.StatusServiceUnavailable) // acknowledgements wait
			return
		}
		_, _ = fmt.Fprintln(w, `{"type":"welcome","term":1,"protocol":"1","registration":"r","name":"c"}`)
		for lot := range lots {
			var lines strings.Builder
			for i := range each {
				_, _ = fmt.Fprintf(&lines, `{"type":"update","term":1,"delivery":"d%d.%d","attempt":1,"lane":"l","update":{}}`+"\n", lot, i)
			}
			_, _ = io.WriteString(w, lines.String())
			_ = http.NewResponseController(w).Flush()
			for handled.Load() < int64((lot+1)*each) && r.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
		}
	})}
	served := make(chan error, 1)
	go func() { served <- leader.Serve(listener) }()
	defer func() {
		_ = leader.Close()
		<-served
	}()
	c := b.member("c")
	w := bus.NewWorker(t.Context(), "c", bus.WorkerOptions{
		Instance: "i-c", Concurrency: lots * each, Settings: times, HighestTerm: func() uint64 { return 0 }, Calls: c.calls,
		Term: func() (uint64, error) {
			checks.Add(1)
			return 1, nil
		},
		Handle: func(context.Context, bus.Delivery) bus.Outcome {
			handled.Add(1)
			return done
		},
	})
	err = w.Follow(t.Context(), bus.Target{Socket: socket, Term: 1}, func(bus.Message) {})
	if handled.Load() != lots*each || checks.Load() != lots {
		t.Errorf("%d handled after %d checks, want %d after %d; Follow: %v", handled.Load(), checks.Load(), lots*each, lots, err)
	}
}

func TestNamesRosterHeirs(t *testing.T) {
	b := newBench(t)
	a := b.member("a")
	handed := make(chan bus.HeirChoice, 3)
	a.leadWith(1, func(o *bus.HubOptions) { o.Handover = func(to bus.HeirChoice) { handed <- to } },
		bus.Present{Instance: "i-late", Name: "bot"})
	one := newPeer(t, a, "i-1", 1)
	if err := one.client.Handover(t.Context(), ""); !bus.IsRefused(err, bus.CodeNobody) {
		t.Errorf("handover to nobody: %v", err)
	}
	one.join(t, bus.JoinRequest{Name: "bot"})
	if one.welcome.Name != "bot-2" { // bot is kept for the one that has not joined yet
		t.Errorf("name of the first: %q", one.welcome.Name)
	}
	two := newPeer(t, a, "i-2", 1)
	two.join(t, bus.JoinRequest{Name: "bot"})
	if two.welcome.Name != "bot-3" {
		t.Errorf("name of the second: %q", two.welcome.Name)
	}
	again := newPeer(t, a, "i-1", 1)
	again.join(t, bus.JoinRequest{Name: "bot-2"})
	if again.welcome.Name != "bot-2" {
		t.Errorf("name kept: %q", again.welcome.Name)
	}
	leaving := newPeer(t, a, "i-3", 1)
	leaving.join(t, bus.JoinRequest{Name: "x", Leaving: true})
	if got := again.next(t, bus.MsgRoster).Heirs; !slices.Equal(got, []string{"i-2", "i-1"}) {
		for len(got) != 2 || got[0] != "i-2" { // rosters before the last
			got = again.next(t, bus.MsgRoster).Heirs
		}
	}
	if !a.hub.HasHeirs() {
		t.Error("no heirs")
	}
	for _, to := range []string{"bot-2", ""} {
		if err := again.client.Handover(t.Context(), to); err != nil {
			t.Error(err)
		}
	}
	if got := <-handed; got != (bus.HeirChoice{Instance: "i-1", Name: "bot-2"}) {
		t.Errorf("heir asked for: %+v", got)
	}
	if got := <-handed; got != (bus.HeirChoice{}) {
		t.Errorf("any heir: %+v", got)
	}
	for _, to := range []string{"x", "nobody"} {
		if err := again.client.Handover(t.Context(), to); !bus.IsRefused(err, bus.CodeNobody) {
			t.Errorf("handover to %s: %v", to, err)
		}
	}
	a.hub.Bye("i-2")
	if got := again.next(t, bus.MsgBye).Heir; got != "i-2" {
		t.Errorf("bye names %q", got)
	}
	if _, err := newPeer(t, a, "i-4", 1).client.Join(t.Context(), again.request(bus.JoinRequest{Name: "y"})); err == nil {
		t.Error("admitted after goodbye")
	}
}

// TestHangingHeir: a member that hangs is no heir until it makes progress again.
func TestHangingHeir(t *testing.T) {
	b := newBench(t)
	a := b.member("a")
	handed := make(chan bus.HeirChoice, 9)
	a.leadWith(1, func(o *bus.HubOptions) { o.Handover = func(to bus.HeirChoice) { handed <- to } })
	frozen := newPeer(t, a, "i-1", 1)
	frozen.join(t, bus.JoinRequest{Name: "frozen"})
	a.hub.Hung("i-1")
	if a.hub.HasHeirs() {
		t.Fatal("the one that hangs is an heir")
	}
	for _, to := range []string{"", "frozen"} {
		if err := frozen.client.Handover(t.Context(), to); !bus.IsRefused(err, bus.CodeNobody) {
			t.Errorf("handover to %q: %v", to, err)
		}
	}
	two := newPeer(t, a, "i-2", 1)
	two.join(t, bus.JoinRequest{Name: "two"})
	if got := two.next(t, bus.MsgRoster).Heirs; !slices.Equal(got, []string{"i-2"}) {
		t.Errorf("heirs %v", got)
	}
	a.hub.Awake("i-1")
	if got := two.next(t, bus.MsgRoster).Heirs; !slices.Equal(got, []string{"i-1", "i-2"}) {
		t.Errorf("heirs after it woke %v", got)
	}
	a.hub.Hung("i-1")
	if got := two.next(t, bus.MsgRoster).Heirs; !slices.Equal(got, []string{"i-2"}) {
		t.Errorf("heirs after it froze again %v", got)
	}
	if err := two.client.Handover(t.Context(), ""); err != nil {
		t.Error(err)
	}
	<-handed
}

// TestLeavingMember: what a stopping member gives back goes to others in the
// same attempt, and none of it comes back to it.
func TestLeavingMember(t *testing.T) {
	b := newBench(t)
	a, c := b.member("a"), b.member("c")
	gates := newBlocker()
	c.onHandle(gates.handle)
	a.lead(1)
	stop, _ := c.follow(a, 1)
	items := b.items("lane", 2, `{}`)
	b.send(a, items)
	eventually(t, "c runs it", func() bool { return len(c.began()) == 1 })
	c.worker.Leave()
	stop()
	c.follow(a, 1)
	a.follow(a, 1)
	c.worker.CancelAll(bus.ErrStopping)
	eventually(t, "a finishes both", func() bool { return b.disk.isFinished(items[1].ID) })
	if got := a.began(); !slices.Equal(got, []string{items[0].ID + "/1", items[1].ID + "/1"}) {
		t.Errorf("a began %v", got)
	}
	if got := c.began(); len(got) != 1 {
		t.Errorf("c began %v", got)
	}
}

// TestDeadMember: the probe after the end of a stream finds it dead, so its work
// goes on elsewhere at once.
func TestDeadMember(t *testing.T) {
	b := newBench(t)
	a := b.member("a")
	a.lead(1)
	p := newPeer(t, a, "i-p", 1)
	p.join(t, bus.JoinRequest{Name: "p"})
	items := b.items("lane", 1, `{}`)
	b.send(a, items)
	p.next(t, bus.MsgUpdate)
	a.follow(a, 1)
	b.dead.Store("i-p", true)
	p.sub.Close()
	eventually(t, "a has it", func() bool { return slices.Equal(a.began(), []string{items[0].ID + "/2"}) })
}

// TestOutcomesThatCannotBeTold count as failed attempts and do not jam the
// member's acknowledgements.
func TestOutcomesThatCannotBeTold(t *testing.T) {
	for name, o := range map[string]bus.Outcome{
		"no status":      {},
		"unknown status": {Status: "splendid"},
		"long reply":     {Status: bus.Done, Reply: []byte(`"` + strings.Repeat("x", bus.MaxReply) + `"`)},
		"no JSON":        {Status: bus.Done, Reply: []byte(`{`)},
		"long error":     {Status: bus.Failed, Error: strings.Repeat("\xff\x00<é", bus.MaxError)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			a := b.member("a")
			a.onHandle(func(context.Context, bus.Delivery) bus.Outcome { return o })
			a.lead(1)
			a.follow(a, 1)
			items := b.items("lane", 1, `{}`)
			b.send(a, items)
			eventually(t, "a dead letter", func() bool {
				b.disk.mu.Lock()
				defer b.disk.mu.Unlock()
				return slices.Equal(b.disk.finishes, []string{items[0].ID + "/3 failed"})
			})
		})
	}
	t.Run("replies that escapes for HTML would make too long", func(t *testing.T) {
		b := newBench(t)
		a := b.member("a")
		a.onHandle(func(context.Context, bus.Delivery) bus.Outcome {
			return bus.Outcome{Status: bus.Done, Reply: []byte(`"` + strings.Repeat("<", bus.MaxReply-2) + `"`)}
		})
		a.lead(1)
		a.follow(a, 1)
		items := b.items("lane", 1, `{}`)
		b.send(a, items)
		eventually(t, "finished", func() bool { _, n := a.hub.Counts(); return n == 0 })
		if got := b.disk.finishes; !slices.Equal(got, []string{items[0].ID + "/1 done"}) {
			t.Errorf("outcomes: %v", got)
		}
	})
}

// setUnread says what reading the body of a delivery fails with from now on.
func (d *disk) setUnread(it bus.Item, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unread[it.Seq] = err
}

// TestS16BodyLost: a delivery whose body is lost becomes a dead letter in its
// first attempt, as one that is too long for a line does, and its lane goes on.
func TestS16BodyLost(t *testing.T) {
	for _, tt := range []struct {
		name   string
		body   string
		unread error
		reason string
	}{
		{"lost", `{}`, fmt.Errorf("%w by accident", bus.ErrBodyLost), "its text was lost by accident"},
		{"too long", `"` + strings.Repeat("x", bus.MaxLine) + `"`, nil, "a stream takes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			a := b.member("a")
			a.lead(1)
			a.follow(a, 1)
			items := slices.Concat(b.items("lane", 1, tt.body), b.items("lane", 1, `{}`))
			b.disk.setUnread(items[0], tt.unread)
			b.send(a, items)
			eventually(t, "the next is handled", func() bool { return b.disk.isFinished(items[1].ID) })
			if got := b.disk.finishes[0]; got != items[0].ID+"/1 failed" {
				t.Errorf("first outcome: %s", got)
			}
			if got := b.disk.reasons[0]; !strings.Contains(got, tt.reason) {
				t.Errorf("reason %q, want %q", got, tt.reason)
			}
		})
	}
}

// TestS16BodyUnread: a body that cannot be read now is asked for until it can be,
// without an attempt being used up; other lanes go on.
func TestS16BodyUnread(t *testing.T) {
	b := newBench(t)
	a := b.member("a")
	a.lead(1)
	a.follow(a, 1)
	items := slices.Concat(b.items("lane", 1, `{}`), b.items("other", 2, `{}`))
	b.disk.setUnread(items[0], errors.New("input/output error"))
	b.send(a, items)
	eventually(t, "the other lane goes on", func() bool { return b.disk.isFinished(items[2].ID) })
	if b.disk.isFinished(items[0].ID) {
		t.Fatal("it is finished without a body")
	}
	b.disk.setUnread(items[0], nil)
	eventually(t, "it is handled", func() bool { return b.disk.isFinished(items[0].ID) })
	if got := b.disk.finishes[2]; got != items[0].ID+"/1 done" {
		t.Errorf("its outcome: %s", got)
	}
}

// TestMoreOutcomesThanOneRequestTakes: outcomes that piled up without a leader
// are all told, none is run again.
func TestMoreOutcomesThanOneRequestTakes(t *testing.T) {
	const n = 140 // of 64 KiB: more than a join or an acknowledgement takes
	b := newBench(t)
	a, c := b.member("a"), b.member("c")
	let := make(chan struct{})
	c.onHandle(func(context.Context, bus.Delivery) bus.Outcome {
		<-let
		return bus.Outcome{Status: bus.Done, Reply: []byte(`"` + strings.Repeat("x", bus.MaxReply-2) + `"`)}
	})
	a.lead(1)
	p := newPeer(t, a, "i-c", 1) // in place of c, to be given more than its slots
	p.join(t, bus.JoinRequest{Name: "c", Concurrency: n})
	p.sub.Close()
	stop, _ := c.follow(a, 1)
	stop()
	var all []bus.Item
	for i := range n {
		all = append(all, b.items(fmt.Sprintf("lane-%d", i), 1, `{}`)...)
	}
	w := bus.NewWorker(t.Context(), "c", bus.WorkerOptions{
		Instance: "i-c", Concurrency: n, Settings: times, Term: b.reg.Term, HighestTerm: func() uint64 { return 0 },
		Calls: c.calls, Handle: func(ctx context.Context, d bus.Delivery) bus.Outcome {
			c.mu.Lock()
			c.seen = append(c.seen, d.ID)
			c.mu.Unlock()
			return c.handle(ctx, d)
		},
	})
	c.worker = w
	stop, _ = c.follow(a, 1)
	b.send(a, all)
	eventually(t, "all run", func() bool { return len(c.began()) == n })
	stop()
	close(let)
	eventually(t, "all outcomes wait", func() bool { _, k := w.InHand(); return k == n })
	c.follow(a, 1)
	eventually(t, "all are told", func() bool { _, k := w.InHand(); return k == 0 })
	eventually(t, "all are finished", func() bool { _, k := a.hub.Counts(); return k == 0 })
	if len(c.began()) != n || len(b.disk.finishes) != n {
		t.Errorf("%d began, %d finished, want %d each", len(c.began()), len(b.disk.finishes), n)
	}
}

// TestAcknowledgementsAreSplit: what became finished while one acknowledgement was
// on its way is told to the same leader, also if it is more than one request
// takes.
func TestAcknowledgementsAreSplit(t *testing.T) {
	const n = 1 + bus.MaxAck/bus.MaxReply + 10
	b := newBench(t)
	a, c := b.member("a"), b.member("c")
	a.lead(1)
	let := make(chan struct{})
	w := bus.NewWorker(t.Context(), "c", bus.WorkerOptions{
		Instance: "i-c", Concurrency: n, Settings: times, Term: b.reg.Term, HighestTerm: func() uint64 { return 0 },
		Calls: c.calls, Handle: func(_ context.Context, d bus.Delivery) bus.Outcome {
			if d.Lane != "lane-0" {
				<-let
			}
			return bus.Outcome{Status: bus.Done, Reply: []byte(`"` + strings.Repeat("x", bus.MaxReply-2) + `"`)}
		},
	})
	c.worker = w
	_, ended := c.follow(a, 1)
	disk := make(chan struct{})
	b.disk.setHold(disk)
	for i := range n {
		b.send(a, b.items(fmt.Sprintf("lane-%d", i), 1, `{}`))
	}
	eventually(t, "all but one run, and that one waits for the disk", func() bool {
		running, _ := w.InHand()
		b.disk.mu.Lock()
		defer b.disk.mu.Unlock()
		return running == n-1 && len(b.disk.finishes) == 1
	})
	close(let)
	eventually(t, "all outcomes wait", func() bool { _, k := w.InHand(); return k == n })
	b.disk.setHold(nil)
	close(disk)
	eventually(t, "all are told", func() bool { _, k := w.InHand(); return k == 0 })
	select {
	case err := <-ended:
		t.Errorf("it had to join anew: %v", err)
	default:
	}
	if len(b.disk.finishes) != n {
		t.Errorf("%d finished, want %d", len(b.disk.finishes), n)
	}
}

// TestF51FrozenReader: a member that never reads its stream delays nobody, and
// what waits for it takes no memory but its place in line.
func TestF51FrozenReader(t *testing.T) {
	b := newBench(t)
	a := b.member("a")
	a.lead(1)
	p := newPeer(t, a, "i-p", 1)
	p.join(t, bus.JoinRequest{Name: "p", Concurrency: 1000}) // and does not read
	a.follow(a, 1)
	var all []bus.Item
	body := `"` + strings.Repeat("x", 10_000) + `"`
	for i := range 2000 {
		all = append(all, b.items(fmt.Sprintf("lane-%d", i), 1, body)...)
	}
	begun := time.Now()
	b.send(a, all)
	eventually(t, "the other has had its share", func() bool {
		counts, pending := a.hub.Counts()
		return pending == counts["i-p"].InFlight
	})
	if took := time.Since(begun); took > 30*time.Second { // far less than the frozen one's time-out
		t.Errorf("took %v", took)
	}
	if counts, _ := a.hub.Counts(); counts["i-p"].InFlight > 1000 {
		t.Errorf("the frozen one has %d", counts["i-p"].InFlight)
	}
}

// TestS13Backlog: 2,000 waiting deliveries do not keep control requests waiting.
func TestS13Backlog(t *testing.T) {
	b := newBench(t)
	a := b.member("a")
	for i := range 2000 {
		b.items(fmt.Sprintf("lane-%d", i), 1, `{}`)
	}
	a.lead(1)
	a.follow(a, 1)
	var took []time.Duration
	for pending := 1; pending > 0; {
		begun := time.Now()
		_, pending = a.hub.Counts()
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	if median := took[len(took)/2]; median > 250*time.Millisecond {
		t.Errorf("a control request took %v", median)
	}
	if got := len(a.began()); got != 2000 {
		t.Errorf("%d handled", got)
	}
}
