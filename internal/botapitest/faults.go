package botapitest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// FaultAct says what a Fault does to a request.
type FaultAct string

// What faults do. "Performed" means that the call has its effect: a message is
// stored, an offset confirms.
const (
	// FaultDelay only delays, by Fault.Latency; the call is performed.
	FaultDelay FaultAct = "delay"
	// FaultAnswer sends Fault.Answer; the call is performed if Fault.Effect.
	FaultAnswer FaultAct = "answer"
	// FaultStall never answers and keeps the connection open; the call is
	// performed if Fault.Effect.
	FaultStall FaultAct = "stall"
	// FaultCut cuts the connection without an answer; the call is performed
	// before if Fault.Effect.
	FaultCut FaultAct = "cut"
	// FaultCutBody sends Fault.Answer, or performs the call and sends its
	// answer, and cuts the connection after Fault.Bytes bytes of the body (0:
	// half of it).
	FaultCutBody FaultAct = "cut_body"
	// FaultSlowBody is the same, sent one byte each Fault.Every.
	FaultSlowBody FaultAct = "slow_body"
	// FaultConflict answers as if another poll had the bot's place: with 409,
	// and late within three seconds of another conflict.
	FaultConflict FaultAct = "conflict"
)

// A Fault spoils requests. Which ones: those that match Method, Bot and Chat,
// without the first Skip of them, and each with Probability. Until when: Times
// requests were spoiled, or For has passed. Faults are asked in the order in
// which they were added; the first one due acts, alone.
type Fault struct {
	// ID names the fault in the ledger and to RemoveFault; empty means that
	// AddFault chooses one.
	ID string
	// Method is a method in any case; empty means all.
	Method string
	// Bot and Chat are ids; 0 means all.
	Bot, Chat int64
	// Skip is how many matching requests pass before the first is spoiled.
	Skip int
	// Times is how many are spoiled; 0 means any number.
	Times int
	// For is how long the fault lasts; 0 means for ever.
	For time.Duration
	// Probability is between 0 and 1; 0 means 1.
	Probability float64
	// AfterDisconnect lets the fault begin when a client next closes the
	// connection of a poll that waits, as one does that crashes.
	AfterDisconnect bool
	// Latency is waited before anything else.
	Latency time.Duration

	// Act is what happens. FaultAnswer needs Answer.
	Act    FaultAct
	Effect bool
	Answer *Answer
	Bytes  int
	Every  time.Duration
	// Reset lets FaultCut and FaultCutBody end the connection with a reset
	// (RST) instead of an orderly end.
	Reset bool
}

func (f *Fault) validate() error {
	switch f.Act {
	case FaultDelay, FaultStall, FaultCut, FaultCutBody, FaultSlowBody, FaultConflict:
	case FaultAnswer:
		if f.Answer == nil {
			return fmt.Errorf("fault %q needs an answer", f.Act)
		}
	default:
		return fmt.Errorf("fault %q is none of delay, answer, stall, cut, cut_body, slow_body, conflict", f.Act)
	}
	if f.Probability < 0 || f.Probability > 1 {
		return fmt.Errorf("probability %v is not between 0 and 1", f.Probability)
	}
	if f.Skip < 0 || f.Times < 0 || f.For < 0 || f.Latency < 0 || f.Bytes < 0 || f.Every < 0 {
		return fmt.Errorf("a number of fault %q is negative", f.Act)
	}
	return nil
}

// faults are those of a Server, in the order in which they are asked.
type faults struct {
	mu   sync.Mutex // guards what follows
	last int
	list []*armed
}

// armed is a Fault with what is left of it.
type armed struct {
	Fault
	dormant bool      // waits for a disconnection
	until   time.Time // zero for ever
	skip    int
	times   int
}

// AddFault arms a fault and returns its id. Errors say what is wrong with it.
func (s *Server) AddFault(f Fault) (string, error) {
	if err := f.validate(); err != nil {
		return "", fmt.Errorf("add fault: %w", err)
	}
	f.Method = strings.ToLower(f.Method)
	if f.Probability == 0 {
		f.Probability = 1
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.last++
	if f.ID == "" {
		f.ID = "fault" + strconv.Itoa(s.faults.last)
	}
	a := &armed{Fault: f, dormant: f.AfterDisconnect, skip: f.Skip, times: f.Times}
	if !a.dormant {
		a.start()
	}
	s.faults.list = append(s.faults.list, a)
	return f.ID, nil
}

// RemoveFault disarms the faults of this id and reports whether there were
// any. What they already stalled or slowed down stays so.
func (s *Server) RemoveFault(id string) bool {
	return s.faults.remove(func(a *armed) bool { return a.ID == id })
}

// ClearFaults disarms all faults.
func (s *Server) ClearFaults() { s.faults.remove(func(*armed) bool { return true }) }

func (a *armed) start() {
	a.dormant = false
	if a.For > 0 {
		a.until = time.Now().Add(a.For)
	}
}

func (fs *faults) remove(which func(*armed) bool) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var kept []*armed
	for _, a := range fs.list {
		if !which(a) {
			kept = append(kept, a)
		}
	}
	removed := len(kept) < len(fs.list)
	fs.list = kept
	return removed
}

// disconnected starts the faults that wait for a poll's client to go.
func (fs *faults) disconnected(bot int64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, a := range fs.list {
		if a.dormant && (a.Bot == 0 || a.Bot == bot) {
			a.start()
		}
	}
}

// pick returns the fault that is due for a call, nil if none is.
func (fs *faults) pick(c *call) *Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for i := 0; i < len(fs.list); i++ {
		a := fs.list[i]
		if a.over() {
			fs.list = append(fs.list[:i:i], fs.list[i+1:]...)
			i--
			continue
		}
		if a.due(c) {
			return &a.Fault
		}
	}
	return nil
}

func (a *armed) over() bool {
	return !a.until.IsZero() && !time.Now().Before(a.until) || a.Times > 0 && a.times == 0
}

func (a *armed) due(c *call) bool {
	if a.dormant || a.Method != "" && a.Method != c.method ||
		a.Bot != 0 && (c.bot == nil || a.Bot != c.bot.id) ||
		a.Chat != 0 && a.Chat != c.args.chatNumber() {
		return false
	}
	if a.skip > 0 {
		a.skip--
		return false
	}
	if a.Probability < 1 && rand.Float64() >= a.Probability {
		return false
	}
	if a.Times > 0 {
		a.times--
	}
	return true
}

// suffer answers a call as a fault wants it.
func (c *call) suffer(w http.ResponseWriter, f *Fault, argsErr error) {
	c.end.Fault = f.ID
	if f.Latency > 0 {
		c.pause(f.Latency)
	}
	switch f.Act {
	case FaultDelay:
		c.write(w, c.perform(argsErr))
	case FaultConflict:
		c.write(w, c.sufferConflict())
	case FaultStall, FaultCut:
		if f.Effect {
			c.perform(argsErr)
			c.end.Error = ""
		}
		if f.Act == FaultStall {
			select {
			case <-c.ctx.Done():
				c.end.Gone = true
			case <-c.server.closing:
			}
		}
		c.cut(f)
	case FaultAnswer:
		if f.Effect {
			c.perform(argsErr)
		}
		c.end.Error = description(f.Answer.Body)
		c.write(w, *f.Answer)
	case FaultCutBody, FaultSlowBody:
		a := f.Answer
		if a == nil {
			performed := c.perform(argsErr)
			a = &performed
		}
		c.writePart(w, *a, f)
	}
}

func (c *call) sufferConflict() Answer {
	r := &refusal{code: 409, description: terminatedByPoll}
	if c.bot != nil {
		_, r = c.bot.conflict(c, terminatedByPoll)
	}
	c.end.Error = r.description
	return r.answer()
}

func (c *call) cut(f *Fault) {
	if f.Reset {
		resetConn(c.ctx)
	}
	panic(http.ErrAbortHandler)
}

// writePart sends an answer's head and some of its body, then cuts; or all of
// it, slowly.
func (c *call) writePart(w http.ResponseWriter, a Answer, f *Fault) {
	c.writeHeader(w, a, len(a.Body))
	flusher := http.NewResponseController(w)
	if f.Act == FaultSlowBody {
		for i := range a.Body {
			_, _ = w.Write(a.Body[i : i+1])
			_ = flusher.Flush()
			c.pause(f.Every)
			if c.ctx.Err() != nil {
				c.end.Gone = true
				panic(http.ErrAbortHandler)
			}
		}
		return
	}
	part := f.Bytes
	if part == 0 {
		part = len(a.Body) / 2
	}
	_, _ = w.Write(a.Body[:min(part, len(a.Body))])
	_ = flusher.Flush()
	c.cut(f)
}
