package polling_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tgbridge/lock"
	"tgbridge/polling"
)

// A trace is the order in which things happened, over all fakes.
type trace struct {
	mu    sync.Mutex
	start time.Time
	steps []string
}

func (tr *trace) add(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.steps = append(tr.steps, fmt.Sprintf(format, args...))
}

// of returns the steps that begin with one of the words.
func (tr *trace) of(words ...string) []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var out []string
	for _, s := range tr.steps {
		if slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(s, w) }) {
			out = append(out, s)
		}
	}
	return out
}

func (tr *trace) clear() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.steps = nil
}

// A lease is a Lease in memory.
type lease struct {
	tr *trace

	mu      sync.Mutex
	self    lock.Entry
	entry   lock.Entry // what stands there
	state   lock.State // how an entry that is not ours is seen
	acquire func(mode lock.Mode, expected *lock.Entry) (lock.Result, error)
	ownsErr error
	owns    func() // runs before each Owns answers
	refresh func() (bool, error)
	release func() error
	term    uint64
}

func newLease(tr *trace) *lease {
	return &lease{tr: tr, self: lock.Entry{PID: 10, Cwd: "/own", InstanceID: "me", Generation: 2}}
}

// set changes the lease as an outsider would.
func (l *lease) set(do func(l *lease)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do(l)
}

// lose gives the lease to another.
func (l *lease) lose() {
	l.set(func(l *lease) {
		l.term++
		l.entry = other(l.term)
		l.state = lock.ActiveElsewhere
	})
}

func (l *lease) held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entry.Held()
}

func other(term uint64) lock.Entry {
	return lock.Entry{PID: 20, Cwd: "/other", InstanceID: "rival", Epoch: term, Generation: 1, Name: "rival"}
}

func (l *lease) Acquire(ctx context.Context, mode lock.Mode, expected *lock.Entry) (lock.Result, error) {
	name := "none"
	if expected != nil {
		name = expected.InstanceID
	}
	l.tr.add("acquire %v expecting %s", []string{"plain", "force", "election"}[mode], name)
	if err := ctx.Err(); err != nil {
		return lock.Result{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acquire != nil {
		if r, err := l.acquire(mode, expected); err != nil || !r.Acquired {
			return r, err
		}
	}
	stands := l.entry
	known := expected != nil && stands.SameOwner(*expected)
	switch {
	case stands.SameOwner(l.self):
		return lock.Result{Acquired: true, Term: l.term, State: lock.ActiveHere}, nil
	case !stands.Held():
	case l.state == lock.Stale && (mode != lock.Election || known):
	case mode == lock.Force && known:
	default:
		return lock.Result{State: l.state, Owner: &stands}, nil
	}
	l.term++
	l.self.Epoch = l.term
	l.entry = l.self
	return lock.Result{Acquired: true, Wrote: true, Term: l.term, ReplacedStale: stands.Held() && l.state == lock.Stale}, nil
}

func (l *lease) Refresh(context.Context) (bool, error) {
	l.tr.add("refresh")
	l.mu.Lock()
	hook := l.refresh
	l.mu.Unlock()
	if hook != nil {
		return hook()
	}
	return l.owned()
}

func (l *lease) Owns() (bool, error) {
	l.tr.add("owns")
	l.mu.Lock()
	hook := l.owns
	l.mu.Unlock()
	if hook != nil {
		hook()
	}
	return l.owned()
}

func (l *lease) owned() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ownsErr != nil {
		return false, l.ownsErr
	}
	return l.entry.SameOwner(l.self), nil
}

func (l *lease) Release(ctx context.Context) (lock.State, bool, error) {
	l.tr.add("release")
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	l.mu.Lock()
	hook := l.release
	l.mu.Unlock()
	if hook != nil {
		if err := hook(); err != nil {
			return 0, false, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.entry.SameOwner(l.self):
		l.entry = lock.Entry{Epoch: l.term}
		return lock.ActiveHere, true, nil
	case !l.entry.Held():
		return lock.Inactive, false, nil
	default:
		return l.state, false, nil
	}
}

func (l *lease) State() (lock.State, lock.Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.entry.SameOwner(l.self):
		return lock.ActiveHere, l.entry, nil
	case !l.entry.Held():
		return lock.Inactive, l.entry, nil
	}
	return l.state, l.entry, nil
}

// A reply is what a scripted telegram does with a request.
type reply struct {
	elements []json.RawMessage
	err      error
	after    time.Duration
	never    bool // no answer until the request is given up
	deaf     bool // not even then, until the telegram's deaf channel is closed
}

// A poll is one getUpdates as the telegram saw it.
type poll struct {
	at, end time.Duration // since the trace's start
	request polling.Request
}

// A telegram is a Source in memory. Without a script it keeps pending updates
// and answers as the Bot API does.
type telegram struct {
	tr *trace

	mu      sync.Mutex
	pending []polling.Update
	arrived chan struct{}
	script  func(n int, r polling.Request) (reply, bool)
	deleted func(n int) error
	inspect func(r polling.Request) // of each poll, before it is answered
	polls   []poll
	open    int
	most    int // open at once
	deletes int
	resets  int
	deaf    chan struct{}
}

func newTelegram(tr *trace) *telegram {
	return &telegram{tr: tr, arrived: make(chan struct{}), deaf: make(chan struct{})}
}

func element(id int64) json.RawMessage {
	return fmt.Appendf(nil, `{"update_id":%d,"message":{"message_id":1}}`, id)
}

func (g *telegram) push(ids ...int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range ids {
		g.pending = append(g.pending, polling.Update{ID: id, Raw: element(id)})
	}
	close(g.arrived)
	g.arrived = make(chan struct{})
}

func (g *telegram) GetUpdates(ctx context.Context, r polling.Request) ([]json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g.mu.Lock()
	n := len(g.polls)
	g.polls = append(g.polls, poll{at: time.Since(g.tr.start), end: -1, request: r})
	g.open++
	g.most = max(g.most, g.open)
	script, deaf, inspect := g.script, g.deaf, g.inspect
	g.mu.Unlock()
	if inspect != nil {
		inspect(r)
	}
	if r.HasOffset {
		g.tr.add("poll %d", r.Offset)
	} else {
		g.tr.add("poll without offset")
	}
	defer func() {
		g.mu.Lock()
		g.open--
		g.polls[n].end = time.Since(g.tr.start)
		g.mu.Unlock()
		g.tr.add("closed")
	}()
	if script != nil {
		if a, ok := script(n, r); ok {
			switch {
			case a.deaf:
				<-deaf
				return a.elements, a.err
			case a.never:
				<-ctx.Done()
				return nil, ctx.Err()
			}
			select {
			case <-time.After(a.after):
				return a.elements, a.err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	return g.serve(ctx, r)
}

// serve is what the Bot API does.
func (g *telegram) serve(ctx context.Context, r polling.Request) ([]json.RawMessage, error) {
	timeout := time.After(r.Timeout)
	for {
		g.mu.Lock()
		if r.HasOffset {
			g.pending = slices.DeleteFunc(g.pending, func(u polling.Update) bool { return u.ID < r.Offset })
		}
		var out []json.RawMessage
		for _, u := range g.pending[:min(len(g.pending), r.Limit)] {
			out = append(out, u.Raw)
		}
		arrived := g.arrived
		g.mu.Unlock()
		if len(out) > 0 {
			return out, nil
		}
		select {
		case <-arrived:
		case <-timeout:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (g *telegram) DeleteWebhook(ctx context.Context) error {
	g.tr.add("delete webhook")
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deletes++
	if g.deleted != nil {
		return g.deleted(g.deletes - 1)
	}
	return ctx.Err()
}

func (g *telegram) Reset() {
	g.tr.add("reset")
	g.mu.Lock()
	defer g.mu.Unlock()
	g.resets++
}

func (g *telegram) seen() []poll {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.polls)
}

func (g *telegram) deletions() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.deletes
}

func (g *telegram) resetCount() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.resets
}

func (g *telegram) mostOpen() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.most
}

func (g *telegram) answer(script func(n int, r polling.Request) (reply, bool)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.script = script
}

// A sink is a Sink in memory.
type sink struct {
	tr *trace

	mu         sync.Mutex
	ids        []int64
	at         []time.Duration
	raws       []string
	unreadable []string
	commit     func(ctx context.Context) error
	room       chan struct{} // not nil: full
	ready      chan struct{} // not nil: what Ready returns
	wedge      chan struct{} // not nil: Full blocks until it is closed
}

func (s *sink) Commit(ctx context.Context, batch []polling.Update, unreadable []json.RawMessage) error {
	s.mu.Lock()
	hook := s.commit
	s.mu.Unlock()
	if hook != nil {
		if err := hook(ctx); err != nil {
			s.tr.add("commit fails")
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []int64
	for _, u := range batch {
		ids = append(ids, u.ID)
		s.raws = append(s.raws, string(u.Raw))
		s.at = append(s.at, time.Since(s.tr.start))
	}
	s.ids = append(s.ids, ids...)
	for _, raw := range unreadable {
		s.unreadable = append(s.unreadable, string(raw))
	}
	s.tr.add("commit %v", ids)
	return nil
}

func (s *sink) Confirmed(offset int64, empty bool) {
	s.tr.add("confirmed %d empty=%v", offset, empty)
}

func (s *sink) Ready() <-chan struct{} {
	if s.ready != nil {
		return s.ready
	}
	ready := make(chan struct{})
	close(ready)
	return ready
}

func (s *sink) Full() (<-chan struct{}, bool) {
	s.mu.Lock()
	wedge, room := s.wedge, s.room
	s.mu.Unlock()
	if wedge != nil {
		<-wedge
	}
	return room, room != nil
}

func (s *sink) set(do func(s *sink)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(s)
}

func (s *sink) committed() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ids)
}

// A bench is a Poller among fakes.
type bench struct {
	t     *testing.T
	tr    *trace
	lease *lease
	tg    *telegram
	sink  *sink
	p     *polling.Poller
}

// newBench makes a Poller; adjust may change its options.
func newBench(t *testing.T, adjust func(b *bench, o *polling.Options)) *bench {
	t.Helper()
	tr := &trace{start: time.Now()}
	b := &bench{t: t, tr: tr, lease: newLease(tr), tg: newTelegram(tr), sink: &sink{tr: tr}}
	o := polling.Options{
		Lock: b.lease, Source: b.tg, Sink: b.sink, Cwd: "/own",
		Rand:          func() float64 { return 0.5 },
		OnAcquired:    func(context.Context, lock.Result) error { tr.add("on acquired"); return nil },
		BeforeRelease: func(context.Context) { tr.add("before release") },
	}
	if adjust != nil {
		adjust(b, &o)
	}
	p, err := polling.New(o)
	if err != nil {
		t.Fatal(err)
	}
	b.p = p
	return b
}

// lead starts and insists on leading.
func (b *bench) lead() {
	b.t.Helper()
	r, err := b.p.Start(b.t.Context(), polling.StartRequest{})
	if err != nil || r.Outcome != polling.Leading {
		b.t.Fatalf("Start() = %v, %v, want leading", r.Outcome, err)
	}
}

// stop stops and insists on success.
func (b *bench) stop() polling.StopResult {
	b.t.Helper()
	r, err := b.p.Stop(context.Background())
	if err != nil {
		b.t.Fatalf("Stop() = %v", err)
	}
	return r
}

// elapsed is the time since the bench was made.
func (b *bench) elapsed() time.Duration { return time.Since(b.tr.start) }

// ended waits for the end of the leadership, at most for limit.
func (b *bench) ended(limit time.Duration, want error) {
	b.t.Helper()
	select {
	case <-b.p.Done():
	case <-time.After(limit):
		b.t.Fatalf("leadership goes on after %v", limit)
	}
	if err := b.p.Cause(); !errors.Is(err, want) {
		b.t.Fatalf("Cause() = %v, want %v", err, want)
	}
}

func (b *bench) wantSteps(got []string, want ...string) {
	b.t.Helper()
	if !slices.Equal(got, want) {
		b.t.Errorf("steps:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// inBubble runs a test with a clock of its own.
func inBubble(t *testing.T, name string, do func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Helper()
		synctest.Test(t, do)
	})
}

// settle lets everything happen that can without time passing, and a little
// more.
func settle() {
	synctest.Wait()
	time.Sleep(10 * time.Millisecond)
	synctest.Wait()
}

func api(code int, text string) error { return &polling.APIError{Code: code, Description: text} }

var (
	errConflict = api(409, "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running")
	errWebhook  = api(409, "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first")
)
