package polling

import (
	"context"
	"sync"
	"time"
)

// A gate guards the beginning of everything that a leadership does outside:
// requests, commits, deletions. Once shut it never opens again, so a goroutine
// that was wedged or frozen and goes on later finds it shut (G1, G5, F41); for
// that nobody has to wait for the goroutine. What is inside when it is shut
// has its context cancelled and is counted, so that a step-down can wait until
// the last connection is closed.
type gate struct {
	ctx    context.Context // of what is inside; done once the gate is shut
	cancel context.CancelCauseFunc

	mu      sync.Mutex // guards the rest; taken last
	isShut  bool
	inside  int
	idle    chan struct{} // closed when shut and nothing is inside
	lastOut time.Time     // when somebody left last
}

// newGate returns an open gate. Its context is a child of parent.
func newGate(parent context.Context) *gate {
	ctx, cancel := context.WithCancelCause(parent)
	return &gate{ctx: ctx, cancel: cancel, idle: make(chan struct{})}
}

// enter lets one in, who must leave, unless the gate is shut.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isShut {
		return false
	}
	g.inside++
	return true
}

// leave is the counterpart of a successful enter.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.lastOut = time.Now()
	if g.isShut && g.inside == 0 {
		close(g.idle)
	}
}

// shut lets nobody in from now on and cancels the context of those inside.
// Only the first call has an effect.
func (g *gate) shut(cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isShut {
		return
	}
	g.isShut = true
	g.cancel(cause)
	if g.inside == 0 {
		close(g.idle)
	}
}

// open reports whether the gate is not shut: asked by those inside right
// before they act.
func (g *gate) open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.isShut
}

// lastLeft is when somebody left last, zero if nobody ever did.
func (g *gate) lastLeft() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lastOut
}
