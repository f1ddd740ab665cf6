package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tgbridge/bus"
	"tgbridge/internal/secret"
)

// The secret of every leader in these tests, and what may be seen nowhere.
const secretText = "bus-secret-0123456789abcdef"

var times = bus.Settings{
	HeartbeatMS: 1000, StaleAfterMS: 5000, OwnershipCheckMS: 1000, PollTimeoutMS: 50_000, RedeliverAfterMS: 30_000,
	Route: bus.Sticky, Access: "digest", Kinds: []string{"message"},
}

// registry stands for the lease: which term is held.
type registry struct{ term atomic.Uint64 }

func (r *registry) Term() (uint64, error) { return r.term.Load(), nil }

// disk stands for the journal, which one hub after another takes over.
type disk struct {
	mu       sync.Mutex
	items    map[string]*stored
	bodies   map[uint64][]byte
	unread   map[uint64]error // by seq: what reading a body fails with
	calls    map[string]bus.CallRecord
	results  map[string]bus.CallResult
	hold     chan struct{} // if not nil, durable records wait until it is closed
	broken   error         // of every record
	finishes []string
	reasons  []string // of dead letters
}

type stored struct {
	bus.Restored
	finished bool
}

func newDisk() *disk {
	return &disk{
		items: map[string]*stored{}, bodies: map[uint64][]byte{}, unread: map[uint64]error{},
		calls: map[string]bus.CallRecord{}, results: map[string]bus.CallResult{},
	}
}

// add makes deliveries durable, before a hub is told of them.
func (d *disk) add(items []bus.Item, body []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, it := range items {
		it.Attempt = 1
		d.items[it.ID] = &stored{Restored: bus.Restored{Item: it}}
		d.bodies[it.Seq] = body
	}
}

// restored is what a successor reads.
func (d *disk) restored() []bus.Restored {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []bus.Restored
	for _, id := range sortedKeys(d.items) {
		if s := d.items[id]; !s.finished {
			out = append(out, s.Restored)
		}
	}
	// Ids of these tests sort as they arrive.
	return out
}

func (d *disk) callRecords() []bus.CallRecord {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []bus.CallRecord
	for _, id := range sortedKeys(d.calls) {
		r := d.calls[id]
		_, r.Done = d.results[id]
		out = append(out, r)
	}
	return out
}

func (d *disk) isFinished(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.items[id] != nil && d.items[id].finished
}

func (d *disk) setHold(c chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hold = c
}

func (d *disk) setBroken(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = err
}

// store is the disk as one term writes it: what a deposed one writes is in a
// file that nobody reads any more.
type store struct {
	d    *disk
	reg  *registry
	term uint64
}

func (s store) Record(actions []bus.Action, durable bool, done func(error)) {
	s.d.mu.Lock()
	hold, broken := s.d.hold, s.d.broken
	if broken == nil && s.reg.term.Load() == s.term {
		for _, a := range actions {
			s.d.apply(a)
		}
	}
	s.d.mu.Unlock()
	if durable && hold != nil {
		go func() { // ends with the test, which closes hold
			<-hold
			done(broken)
		}()
		return
	}
	done(broken)
}

func (d *disk) apply(a bus.Action) {
	s := d.items[a.Item.ID]
	switch a.Kind {
	case bus.Assign, bus.Adopt:
		s.Attempt, s.Member = a.Item.Attempt, a.Member
	case bus.TakeBack:
		s.Attempt, s.Member = a.Item.Attempt, ""
	case bus.Finish:
		s.Member = ""
		if a.Dead != "" {
			d.reasons = append(d.reasons, a.Dead)
		}
		s.Replying = len(a.Outcome.Reply) > 0 || a.Dead != ""
		s.finished = !s.Replying
		d.finishes = append(d.finishes, fmt.Sprintf("%s/%d %s", a.Item.ID, a.Item.Attempt, a.Outcome.Status))
	}
}

var errNoResult = errors.New("no such result")

func (s store) Body(seq uint64) ([]byte, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	return s.d.bodies[seq], s.d.unread[seq]
}

func (s store) Intend(r bus.CallRecord) error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.reg.term.Load() != s.term {
		return bus.ErrHubClosed
	}
	s.d.calls[r.Request] = r
	return nil
}

func (s store) Conclude(request string, r bus.CallResult) error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.reg.term.Load() != s.term {
		return bus.ErrHubClosed
	}
	s.d.results[request] = r
	return nil
}

func (s store) Withdraw(request string) error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.reg.term.Load() != s.term {
		return bus.ErrHubClosed
	}
	delete(s.d.calls, request)
	return nil
}

func (s store) Result(request string) (bus.CallResult, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	r, ok := s.d.results[request]
	if !ok {
		return bus.CallResult{}, errNoResult
	}
	return r, nil
}

// owner asks the registry whether a term is held still.
type owner struct {
	reg  *registry
	term uint64
}

func (o owner) Owns() (bool, error) { return o.reg.term.Load() == o.term, nil }

// bench is a fleet in one process: a registry, a disk, members.
type bench struct {
	t    *testing.T
	dir  string
	reg  *registry
	disk *disk
	seq  uint64
	dead sync.Map // instances of which a probe says so
}

func newBench(t *testing.T) *bench {
	return &bench{t: t, dir: t.TempDir(), reg: &registry{}, disk: newDisk()}
}

// member is one with all that a member has.
type member struct {
	b      *bench
	name   string
	server *bus.Server
	calls  *bus.Calls
	worker *bus.Worker
	hub    *bus.Hub // of the last term that it led

	mu      sync.Mutex
	handle  func(ctx context.Context, d bus.Delivery) bus.Outcome
	perform func(ctx context.Context, c bus.Call) (bus.CallResult, error)
	seen    []string // id/attempt of deliveries, as handlers began
	bodies  [][]byte
}

// member starts one whose instance is i-name.
func (b *bench) member(name string) *member {
	b.t.Helper()
	m := &member{b: b, name: name}
	m.handle = func(context.Context, bus.Delivery) bus.Outcome { return done }
	m.perform = func(context.Context, bus.Call) (bus.CallResult, error) {
		return bus.CallResult{Status: 200, Body: json.RawMessage(`{"ok":true}`)}, nil
	}
	life, end := context.WithCancel(context.Background())
	var err error
	m.server, err = bus.Listen(bus.ServerOptions{
		Path: filepath.Join(b.dir, name+".sock"), Secret: secret.New(secretText),
		Status: func(context.Context) any { return map[string]string{"name": name} },
	})
	if err != nil {
		b.t.Fatal(err)
	}
	m.calls = bus.NewCalls(life, "i-"+name, func(ctx context.Context, c bus.Call) (bus.CallResult, error) {
		m.mu.Lock()
		perform := m.perform
		m.mu.Unlock()
		return perform(ctx, c)
	})
	m.worker = bus.NewWorker(life, name, bus.WorkerOptions{
		Instance: "i-" + name, PID: 1, Host: "h", Version: "v", Concurrency: 4, Settings: times,
		HandlerTimeout: time.Minute, Term: b.reg.Term, HighestTerm: func() uint64 { return 0 },
		Calls: m.calls, Logger: zerolog.Nop(),
		Handle: func(ctx context.Context, d bus.Delivery) bus.Outcome {
			m.mu.Lock()
			m.seen = append(m.seen, fmt.Sprintf("%s/%d", d.ID, d.Attempt))
			m.bodies = append(m.bodies, d.Body)
			handle := m.handle
			m.mu.Unlock()
			return handle(ctx, d)
		},
	})
	b.t.Cleanup(func() {
		end()
		m.calls.Follow()
		if err := m.server.Close(); err != nil {
			b.t.Error(err)
		}
		m.worker.Wait()
		m.calls.Wait()
	})
	return m
}

func (m *member) onHandle(f func(ctx context.Context, d bus.Delivery) bus.Outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handle = f
}

func (m *member) onPerform(f func(ctx context.Context, c bus.Call) (bus.CallResult, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.perform = f
}

// began returns what its handlers began, in order.
func (m *member) began() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string{}, m.seen...)
}

func (m *member) target(term uint64) bus.Target {
	return bus.Target{Socket: m.server.Path(), Secret: secret.New(secretText), Term: term}
}

// lead begins a term of this member, with whoever lives expected to join. The
// function returned ends it as a deposed leader would.
func (m *member) lead(term uint64, alive ...bus.Present) (end func() error) {
	m.b.t.Helper()
	return m.leadWith(term, func(*bus.HubOptions) {}, alive...)
}

func (m *member) leadWith(term uint64, change func(*bus.HubOptions), alive ...bus.Present) (end func() error) {
	m.b.t.Helper()
	m.b.reg.term.Store(term)
	s := store{m.b.disk, m.b.reg, term}
	o := bus.HubOptions{
		Term: term, Settings: times, PingEvery: 50 * time.Millisecond, Store: s, Leadership: owner{m.b.reg, term}, Calls: m.calls,
		Dispatch: bus.DispatchOptions{Self: "i-" + m.name, RetryAfter: 10 * time.Millisecond},
		Probe: func(_ context.Context, instance string) bool {
			_, dead := m.b.dead.Load(instance)
			return dead
		},
		SendReply:  func(context.Context, bus.Item) error { return nil },
		HigherTerm: func(uint64) {}, Handover: func(bus.HeirChoice) {},
		Logger: zerolog.Nop(),
	}
	change(&o)
	m.hub = bus.NewHub(o)
	hub := m.hub
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- hub.Run(ctx) }()
	m.calls.Lead(s, m.b.disk.callRecords())
	m.server.Lead(hub)
	if err := hub.Begin(m.b.disk.restored(), alive); err != nil {
		m.b.t.Fatal(err)
	}
	end = sync.OnceValue(func() error {
		m.server.Lead(nil)
		m.calls.Follow()
		cancel()
		return <-ran
	})
	m.b.t.Cleanup(func() { _ = end() })
	return end
}

// follow makes the member follow a leader until stop is called; err has why it
// ended. It returns when the member is joined.
func (m *member) follow(leader *member, term uint64) (stop func(), ended chan error) {
	m.b.t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	ended = make(chan error, 1)
	gone := make(chan struct{})
	joined := make(chan struct{})
	go func() {
		defer close(gone)
		ended <- m.worker.Follow(ctx, leader.target(term), func(bus.Message) { close(joined) })
	}()
	stop = func() {
		cancel(errStopped)
		<-gone
	}
	m.b.t.Cleanup(stop)
	select {
	case <-joined:
	case err := <-ended:
		m.b.t.Fatalf("%s follows %s: %v", m.name, leader.name, err)
	case <-time.After(patience):
		m.b.t.Fatalf("%s has not joined %s", m.name, leader.name)
	}
	return stop, ended
}

// patience is for machines with much else to do; no test needs it all.
const patience = time.Minute

var errStopped = errors.New("stopped by the test")

// items makes n deliveries of a lane, durable.
func (b *bench) items(lane string, n int, body string) []bus.Item {
	var out []bus.Item
	for range n {
		b.seq++
		out = append(out, bus.Item{Seq: b.seq, ID: fmt.Sprintf("d%05d", b.seq), Lane: lane})
	}
	b.disk.add(out, []byte(body))
	return out
}

// send gives deliveries to the leader's hub.
func (b *bench) send(leader *member, items []bus.Item) {
	b.t.Helper()
	if err := leader.hub.Add(items); err != nil {
		b.t.Fatal(err)
	}
}

// eventually waits for a condition that other goroutines bring about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not in %v: %s", patience, what)
		}
		time.Sleep(time.Millisecond)
	}
}
