package telegram

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// Telegram's limits (https://core.telegram.org/bots/faq#broadcasting-to-users).
const (
	allPerSecond   = 30
	groupPerMinute = 20

	// everyoneAfter is how many targets penalised within a second mean that
	// the penalty is for the whole bot: Telegram does not say whom it is for.
	everyoneAfter = 3

	// idleAfter is when a target that nobody uses is forgotten; by then none
	// of its limits can still delay anything.
	idleAfter = time.Minute
)

// pacer makes calls wait for their turn. A call belongs to a target: its chat,
// or its method where it has no chat. Calls that count as messages take turns
// in their chat, first come first served, one at a time, and keep Telegram's
// limits; all others wait only while their target or everyone is penalised. A
// target that waits delays no other one: a slot of the whole bot is taken only
// when the chat is ready.
type pacer struct {
	off bool // no limits of our own; turns and penalties stay

	mu      sync.Mutex // guards all below and every target and turn; never held while waiting
	targets map[string]*target
	all     window
	paused  time.Time // everyone, until then
	recent  []penalty // of the last second, one for each target
	swept   time.Time // when idle targets were last forgotten
}

type target struct {
	users  int // turns that have joined and not left
	busy   bool
	queue  []*turn // waiting for busy to end, in order
	chat   window
	group  *window // nil for no group
	paused time.Time
	used   time.Time // when the last user left
}

type penalty struct {
	key string
	at  time.Time
}

// turn is one call's place at a target. It is used by one goroutine.
type turn struct {
	pacer  *pacer
	target *target
	key    string
	paced  bool
	mine   chan struct{} // closed when the turn has come
	slot   time.Time     // in the window of the whole bot, zero if none
	spent  bool          // an attempt was let through
}

func newPacer(off bool) *pacer {
	return &pacer{
		off:     off,
		targets: make(map[string]*target),
		all:     newWindow(allPerSecond, time.Second),
	}
}

// join takes a place without waiting. It must be given back with leave.
func (p *pacer) join(key string, paced bool) *turn {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.sweep(now)
	g := p.targets[key]
	if g == nil {
		g = &target{chat: newWindow(1, time.Second)}
		if isGroup(key) {
			group := newWindow(groupPerMinute, time.Minute)
			g.group = &group
		}
		p.targets[key] = g
	}
	g.users++
	t := &turn{pacer: p, target: g, key: key, paced: paced, mine: make(chan struct{})}
	switch {
	case !paced:
		close(t.mine)
	case g.busy:
		g.queue = append(g.queue, t)
	default:
		g.busy = true
		close(t.mine)
	}
	return t
}

// isGroup says whether a chat is one that has more than one reader: groups and
// channels have negative ids, and only they are addressed by name.
func isGroup(key string) bool {
	return strings.HasPrefix(key, chatPrefix+"-") || strings.HasPrefix(key, chatPrefix+"@")
}

// sweep forgets idle targets, now and then. Caller holds mu.
func (p *pacer) sweep(now time.Time) {
	if now.Sub(p.swept) < idleAfter {
		return
	}
	p.swept = now
	for key, g := range p.targets {
		if g.users == 0 && now.Sub(g.used) >= idleAfter && !now.Before(g.paused) {
			delete(p.targets, key)
		}
	}
}

// await waits for the turn. The error is the context's cause.
func (t *turn) await(ctx context.Context) error {
	select {
	case <-t.mine:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pass waits until the call, whose turn it is, may begin an attempt; each
// attempt needs its own. The error is the context's cause.
func (t *turn) pass(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		delay := t.take()
		if delay <= 0 {
			return nil
		}
		if err := sleep(ctx, delay); err != nil {
			return err
		}
	}
}

// take enters an attempt into the limits, or returns how long to wait before
// asking again.
func (t *turn) take() time.Duration {
	p, g := t.pacer, t.target
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	limited := t.paced && !p.off
	ready := later(p.paused, g.paused)
	if limited {
		ready = later(ready, g.chat.earliest())
		if g.group != nil {
			ready = later(ready, g.group.earliest())
		}
	}
	if ready.After(now) {
		t.slot = time.Time{} // would have passed by then
		return ready.Sub(now)
	}
	if !limited {
		return 0
	}
	if t.slot.IsZero() {
		t.slot = p.all.take(now)
	}
	if t.slot.After(now) {
		return t.slot.Sub(now)
	}
	t.slot = time.Time{}
	t.spent = true
	g.chat.take(now)
	if g.group != nil {
		g.group.take(now)
	}
	return 0
}

// done says that the attempt let through last has ended.
func (t *turn) done() {
	t.pacer.mu.Lock()
	defer t.pacer.mu.Unlock()
	if !t.spent {
		return
	}
	t.spent = false
	now := time.Now()
	t.target.chat.settle(now)
	if t.target.group != nil {
		t.target.group.settle(now)
	}
}

// punish lets nobody through to the turn's target before the instant until.
func (t *turn) punish(until time.Time) {
	p := t.pacer
	p.mu.Lock()
	defer p.mu.Unlock()
	t.target.paused = later(t.target.paused, until)
	now := time.Now()
	p.recent = slices.DeleteFunc(p.recent, func(r penalty) bool {
		return r.key == t.key || now.Sub(r.at) > time.Second
	})
	p.recent = append(p.recent, penalty{key: t.key, at: now})
	if len(p.recent) >= everyoneAfter {
		p.paused = later(p.paused, until)
	}
}

// leave gives the place back, and the turn to the next.
func (t *turn) leave() {
	p, g := t.pacer, t.target
	p.mu.Lock()
	defer p.mu.Unlock()
	g.users--
	g.used = time.Now()
	if !t.paced {
		return
	}
	if i := slices.Index(g.queue, t); i >= 0 {
		g.queue = slices.Delete(g.queue, i, i+1)
		return
	}
	if len(g.queue) == 0 {
		g.busy = false
		return
	}
	close(g.queue[0].mine)
	g.queue = slices.Delete(g.queue, 0, 1)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sleep waits for d or the context's end, and returns the latter's cause.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
