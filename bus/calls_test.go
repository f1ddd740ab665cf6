package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tgbridge/bus"
)

// far is the far side: it counts what arrives, and answers when it is let.
type far struct {
	mu    sync.Mutex
	made  map[string]int
	let   chan struct{} // nil: at once
	fails error
}

func (f *far) perform(ctx context.Context, c bus.Call) (bus.CallResult, error) {
	f.mu.Lock()
	if f.made == nil {
		f.made = map[string]int{}
	}
	f.made[c.Request]++
	n, let, fails := f.made[c.Request], f.let, f.fails
	f.mu.Unlock()
	if let != nil {
		select {
		case <-let:
		case <-ctx.Done():
			return bus.CallResult{}, context.Cause(ctx)
		}
		f.mu.Lock()
		fails = f.fails
		f.mu.Unlock()
	}
	if fails != nil {
		return bus.CallResult{}, fails
	}
	return bus.CallResult{Status: 200, Body: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}, nil
}

func (f *far) count(request string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.made[request]
}

// caller is the calls of one member, with a log of its own term.
type caller struct {
	*bus.Calls
	far *far
}

func newCaller(t *testing.T, instance string) caller {
	f := &far{}
	ctx, cancel := context.WithCancel(context.Background())
	c := caller{bus.NewCalls(ctx, instance, f.perform), f}
	t.Cleanup(func() {
		cancel()
		c.Follow()
		c.Wait()
	})
	return c
}

// terms is a log that one leader after another has.
type terms struct {
	d   *disk
	reg *registry
}

func newTerms() *terms { return &terms{newDisk(), &registry{}} }

func (l *terms) begin(c caller, term uint64) {
	l.reg.term.Store(term)
	c.Lead(store{l.d, l.reg, term}, l.d.callRecords())
}

func theCall(request string) bus.Call {
	return bus.Call{Request: request, Method: "sendMessage", ContentType: "application/json", Body: []byte(`{"text":"hi"}`)}
}

type outcome struct {
	body string
	err  error
}

func start(c caller, call bus.Call) chan outcome {
	out := make(chan outcome, 1)
	go func() {
		r, err := c.Do(context.Background(), call)
		out <- outcome{string(r.Body), err}
	}()
	return out
}

// TestS5SameRequest: an id is one call, in flight and afterwards; with other
// bytes it is an error.
func TestS5SameRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a := newTerms(), newCaller(t, "i-a")
		l.begin(a, 1)
		a.far.let = make(chan struct{})
		first, second := start(a, theCall("r")), start(a, theCall("r"))
		synctest.Wait()
		for name, change := range map[string]func(c *bus.Call){
			"body":         func(c *bus.Call) { c.Body = []byte(`{"text":"ho"}`) },
			"method":       func(c *bus.Call) { c.Method = "sendPhoto" },
			"content type": func(c *bus.Call) { c.ContentType = "text/plain" },
		} {
			other := theCall("r")
			change(&other)
			if _, err := a.Do(t.Context(), other); !errors.Is(err, bus.ErrOtherRequest) {
				t.Errorf("other %s in flight: %v", name, err)
			}
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Do(impatient, theCall("r")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who does not wait: %v", err)
		}
		close(a.far.let)
		for _, c := range []chan outcome{first, second, start(a, theCall("r"))} {
			if got := <-c; got != (outcome{`{"n":1}`, nil}) {
				t.Errorf("got %+v", got)
			}
		}
		l.begin(a, 2) // from the log too
		b := newCaller(t, "i-b")
		l.begin(b, 3)
		if got := <-start(b, theCall("r")); got != (outcome{`{"n":1}`, nil}) {
			t.Errorf("from the successor: %+v", got)
		}
		other := theCall("r")
		other.Body = nil
		if got := <-start(b, other); !errors.Is(got.err, bus.ErrOtherRequest) {
			t.Errorf("other bytes at the successor: %+v", got)
		}
	})
}

// TestG7ForeignCall: what a former leader has in flight is waited for.
func TestG7ForeignCall(t *testing.T) {
	result := &bus.CallResult{Status: 200, Body: json.RawMessage(`{"of":"a"}`)}
	tests := []struct {
		name  string
		again bool
		then  func(c caller)
		want  outcome // of the call at the successor
		made  int     // there
	}{
		{"in flight, then ended", false, func(c caller) {
			c.join([]bus.CallState{{Request: "r"}}, true)
			c.join([]bus.CallState{{Request: "r", Result: result}}, false)
		}, outcome{`{"of":"a"}`, nil}, 0},
		{"ended at its join", false, func(c caller) { c.join([]bus.CallState{{Request: "r", Result: result}}, true) },
			outcome{`{"of":"a"}`, nil}, 0},
		{"not named: never begun", false, func(c caller) { c.join(nil, true) }, outcome{`{"n":1}`, nil}, 1},
		{"in flight, then not begun after all", false, func(c caller) {
			c.join([]bus.CallState{{Request: "r"}}, true)
			c.join([]bus.CallState{{Request: "r", NotBegun: true}}, false)
		}, outcome{`{"n":1}`, nil}, 1},
		{"later news do not name it: still in flight", false, func(c caller) {
			c.join([]bus.CallState{{Request: "r"}}, true)
			c.join(nil, false)
			c.Lost("i-a")
		}, outcome{"", bus.ErrOutcomeUnknown}, 0},
		{"another's join says nothing", false, func(c caller) {
			_ = c.Joined("i-x", []bus.CallState{{Request: "r", Result: result}}, true)
			c.Lost("i-x")
			c.Lost("i-a")
		}, outcome{"", bus.ErrOutcomeUnknown}, 0},
		{"died or hung", false, func(c caller) { c.Lost("i-a") }, outcome{"", bus.ErrOutcomeUnknown}, 0},
		{"died or hung, a reply", true, func(c caller) { c.Lost("i-a") }, outcome{`{"n":1}`, nil}, 1},
		{"the term ends", false, func(c caller) { c.Follow() }, outcome{"", bus.ErrNotBegun}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, a, b := newTerms(), newCaller(t, "i-a"), newCaller(t, "i-b")
				l.begin(a, 1)
				a.far.let = make(chan struct{})
				_ = start(a, theCall("r"))
				synctest.Wait()
				a.Follow()
				l.begin(b, 2)
				if got := b.Makers(); !slices.Equal(got, []string{"i-a"}) {
					t.Fatalf("makers: %v", got)
				}
				call := theCall("r")
				call.Again = tt.again
				first, second := start(b, call), start(b, call)
				synctest.Wait()
				select {
				case got := <-first:
					t.Fatalf("did not wait: %+v", got)
				default:
				}
				tt.then(b)
				for _, c := range []chan outcome{first, second} {
					if got := <-c; got != tt.want {
						t.Errorf("got %+v, want %+v", got, tt.want)
					}
				}
				if got := b.far.count("r"); got != tt.made {
					t.Errorf("made %d times, want %d", got, tt.made)
				}
				if r, ok := l.d.results["r"]; strings.Contains(tt.want.body, "of") && (!ok || string(r.Body) != tt.want.body) {
					t.Errorf("recorded: %+v", r)
				}
			})
		})
	}
}

func (c caller) join(states []bus.CallState, complete bool) {
	_ = c.Joined("i-a", states, complete)
}

// TestG7UnknownOutcome: nobody makes again what may have had its effect: not the
// leader that made it, nor the successor, whatever the error was.
func TestG7UnknownOutcome(t *testing.T) {
	for _, cause := range []error{bus.ErrOutcomeUnknown, errors.New("connection reset")} {
		l, a, b := newTerms(), newCaller(t, "i-a"), newCaller(t, "i-b")
		l.begin(a, 1)
		a.far.fails = cause
		for range 2 {
			r, err := a.Do(t.Context(), theCall("r"))
			var answer bus.ErrorAnswer
			if json.Unmarshal(r.Body, &answer) != nil || err != nil || r.Status != 502 || answer.Code != bus.CodeUnknown || answer.Error != cause.Error() {
				t.Errorf("Do: %d %s, %v", r.Status, r.Body, err)
			}
		}
		a.Follow()
		l.begin(b, 2)
		b.join(nil, true)
		if r, err := b.Do(t.Context(), theCall("r")); err != nil || r.Status != 502 {
			t.Errorf("at the successor: %d %s, %v", r.Status, r.Body, err)
		}
		if a.far.count("r") != 1 || b.far.count("r") != 0 {
			t.Errorf("made %d and %d times", a.far.count("r"), b.far.count("r"))
		}
	}
}

// TestErrNotBegun: a call that was not made may be made under the same id, here
// or at the successor, which is told if it may wait.
func TestErrNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a, b := newTerms(), newCaller(t, "i-a"), newCaller(t, "i-b")
		if _, err := a.Do(t.Context(), theCall("r")); !errors.Is(err, bus.ErrNotBegun) {
			t.Errorf("without a term: %v", err)
		}
		l.begin(a, 1)
		a.far.fails = bus.ErrNotBegun
		if _, err := a.Do(t.Context(), theCall("r")); !errors.Is(err, bus.ErrNotBegun) {
			t.Errorf("Do: %v", err)
		}
		if len(l.d.calls) != 0 {
			t.Errorf("the intent stays: %v", l.d.calls)
		}
		a.far.let = make(chan struct{})
		first := start(a, theCall("r"))
		synctest.Wait()
		a.Follow()
		l.begin(b, 2)
		states, _ := a.States()
		b.join(states, true) // names it in flight
		second := start(b, theCall("r"))
		synctest.Wait()
		close(a.far.let)
		if got := <-first; !errors.Is(got.err, bus.ErrNotBegun) {
			t.Errorf("first: %+v", got)
		}
		states, _ = a.States()
		if len(states) != 1 || !states[0].NotBegun {
			t.Fatalf("states: %+v", states)
		}
		b.join(states, false)
		a.Told(states)
		if got := <-second; got != (outcome{`{"n":1}`, nil}) {
			t.Errorf("second: %+v", got)
		}
		if states, _ = a.States(); len(states) != 0 {
			t.Errorf("states after they were told: %+v", states)
		}
	})
}

// TestResultTooLongOrNoJSON: what no log and no request takes is an unknown
// outcome.
func TestResultTooLongOrNoJSON(t *testing.T) {
	for name, body := range map[string]string{"no JSON": "<html>", "empty": "", "long": `"` + strings.Repeat("x", bus.MaxResult) + `"`} {
		l := newTerms()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := caller{Calls: bus.NewCalls(ctx, "i-a", func(context.Context, bus.Call) (bus.CallResult, error) {
			return bus.CallResult{Status: 200, Body: json.RawMessage(body)}, nil
		})}
		l.begin(c, 1)
		if r, err := c.Do(t.Context(), theCall("r")); err != nil || r.Status != 502 || !json.Valid(r.Body) {
			t.Errorf("%s: %d %.100s, %v", name, r.Status, r.Body, err)
		}
	}
}

// TestCallsMemory: results are forgotten, yet a delivery's calls are not made
// again while it may be.
func TestCallsMemory(t *testing.T) {
	l, a := newTerms(), newCaller(t, "i-a")
	l.begin(a, 1)
	for i := range 3000 {
		call := theCall(fmt.Sprintf("r%d", i))
		call.Seq = 1
		if _, err := a.Do(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	call := theCall("r0")
	call.Seq = 1
	if r, err := a.Do(t.Context(), call); err != nil || string(r.Body) != `{"n":1}` {
		t.Errorf("the first again: %s, %v", r.Body, err)
	}
	if n := a.far.count("r0"); n != 1 {
		t.Errorf("made %d times", n)
	}
	if states, _ := a.States(); len(states) != 0 {
		t.Errorf("%d states are left to tell", len(states))
	}
}

// TestCallAcrossLeaderChange: a handler's call that a leader change cut off is
// repeated to the new leader under its id; the old one's result is told there,
// and the far side saw one call.
func TestCallAcrossLeaderChange(t *testing.T) {
	b := newBench(t)
	a, c, e := b.member("a"), b.member("c"), b.member("e")
	let := make(chan struct{})
	var made atomic.Int32
	perform := func(context.Context, bus.Call) (bus.CallResult, error) {
		made.Add(1)
		<-let
		return bus.CallResult{Status: 200, Body: json.RawMessage(`{"ok":true}`)}, nil
	}
	a.onPerform(perform)
	c.onPerform(perform)
	answers := make(chan string, 2)
	e.onHandle(func(ctx context.Context, d bus.Delivery) bus.Outcome {
		for range 2 { // twice the same is two calls
			r, err := e.worker.Call(ctx, "sendMessage", "application/json", []byte(`{"text":"hi"}`))
			answers <- fmt.Sprint(string(r), err)
		}
		return done
	})
	end := a.lead(1)
	stop, _ := e.follow(a, 1)
	items := b.items("lane", 1, `{}`)
	b.send(a, items)
	eventually(t, "the call is made", func() bool { return made.Load() == 1 })
	stop()
	_ = end()
	c.lead(2, bus.Present{Instance: "i-a", Name: "a"})
	e.follow(c, 2)
	a.follow(c, 2)
	eventually(t, "the successor waits for a", func() bool { return slices.Equal(c.calls.Makers(), []string{"i-a"}) })
	close(let)
	for range 2 {
		if got := <-answers; got != `{"ok":true}<nil>` {
			t.Errorf("answer: %s", got)
		}
	}
	if n := made.Load(); n != 2 {
		t.Errorf("%d calls arrived, want 2", n)
	}
	eventually(t, "finished", func() bool { return b.disk.isFinished(items[0].ID) })
}

// TestG7RedeliveredHandler: what a later attempt sends again is answered from
// the record.
func TestG7RedeliveredHandler(t *testing.T) {
	b := newBench(t)
	a := b.member("a")
	var made atomic.Int32
	a.onPerform(func(context.Context, bus.Call) (bus.CallResult, error) {
		return bus.CallResult{Status: 200, Body: json.RawMessage(fmt.Sprint(made.Add(1)))}, nil
	})
	var answers []string
	a.onHandle(func(ctx context.Context, d bus.Delivery) bus.Outcome {
		for _, text := range []string{"x", "x", fmt.Sprint(d.Attempt)} {
			r, err := a.worker.Call(ctx, "sendMessage", "application/json", []byte(text))
			answers = append(answers, fmt.Sprint(string(r), err))
		}
		if d.Attempt < 2 {
			return failed
		}
		return done
	})
	a.lead(1)
	a.follow(a, 1)
	items := b.items("lane", 1, `{}`)
	b.send(a, items)
	eventually(t, "finished", func() bool { return b.disk.isFinished(items[0].ID) })
	if want := []string{"1<nil>", "2<nil>", "3<nil>", "1<nil>", "2<nil>", "4<nil>"}; !slices.Equal(answers, want) {
		t.Errorf("answers %v, want %v", answers, want)
	}
}

// TestCallOutsideHandlers: with the errors that a caller may see.
func TestCallOutsideHandlers(t *testing.T) {
	b := newBench(t)
	a := b.member("a")
	early := make(chan error, 1)
	go func() { // waits for a leader
		_, err := a.worker.Call(context.Background(), "getMe", "application/json", []byte(`{}`))
		early <- err
	}()
	waiting, cancel := context.WithCancelCause(t.Context())
	cancel(errStopped)
	if _, err := a.worker.Call(waiting, "getMe", "application/json", nil); !errors.Is(err, errStopped) {
		t.Errorf("Call without a leader: %v", err)
	}
	a.lead(1)
	a.follow(a, 1)
	if err := <-early; err != nil {
		t.Errorf("Call before there was a leader: %v", err)
	}
	a.onPerform(func(context.Context, bus.Call) (bus.CallResult, error) { return bus.CallResult{}, errors.New("reset") })
	if _, err := a.worker.Call(t.Context(), "getMe", "application/json", nil); !errors.Is(err, bus.ErrOutcomeUnknown) {
		t.Errorf("unknown: %v", err)
	}
	a.onPerform(func(context.Context, bus.Call) (bus.CallResult, error) {
		return bus.CallResult{Status: 502, Body: json.RawMessage(`{"error":"no","code":"telegram"}`)}, nil
	})
	if _, err := a.worker.Call(t.Context(), "getMe", "application/json", nil); !bus.IsRefused(err, bus.CodeTelegram) {
		t.Errorf("refused: %v", err)
	}
	if _, err := a.worker.Call(t.Context(), "getMe", "application/json", make([]byte, bus.MaxCall+1)); !bus.IsRefused(err, bus.CodeBody) {
		t.Errorf("too long: %v", err)
	}
}
