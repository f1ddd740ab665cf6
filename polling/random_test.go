package polling_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tgbridge/lock"
	"tgbridge/polling"
)

// TestRandomWeather runs leaderships through random faults of Telegram, disk
// and registry, with losses, stops and wedges, and checks at every poll and
// commit what must hold whatever happens:
//
//   - G1: one poll at a time, and none begins without the lease;
//   - G2: an offset passes nothing that is not durable;
//   - and at the end, in fair weather: every update is there, in order.
func TestRandomWeather(t *testing.T) {
	seeds := 150
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		inBubble(t, fmt.Sprintf("G1 G2 seed %d", seed), func(t *testing.T) {
			newWeather(t, uint64(seed)).run()
		})
	}
}

type weather struct {
	*bench
	rng  *rand.Rand
	fair atomic.Bool
	next int64
}

func newWeather(t *testing.T, seed uint64) *weather {
	w := &weather{rng: rand.New(rand.NewPCG(seed, 1)), next: 1}
	w.bench = newBench(t, func(_ *bench, o *polling.Options) {
		o.WebhookDelete = true
		o.TokenProven = func() bool { return true }
	})
	w.tg.inspect = w.inspect
	// Decided by the poll's number, not by the order in which goroutines ask
	// a shared generator.
	w.tg.answer(func(n int, _ polling.Request) (reply, bool) {
		if w.fair.Load() {
			return reply{}, false
		}
		return weatherReply(rand.New(rand.NewPCG(seed, uint64(n)+2)))
	})
	var commits atomic.Uint64
	w.sink.commit = func(context.Context) error {
		n := commits.Add(1)
		if w.fair.Load() {
			return nil
		}
		switch rand.New(rand.NewPCG(seed, n<<32)).IntN(6) {
		case 0:
			return syscall.ENOSPC
		case 1:
			return errors.New("fsync: EIO")
		case 2:
			time.Sleep(3 * time.Second)
		}
		return nil
	}
	return w
}

// weatherReply is what Telegram does to one poll; mostly it serves it.
func weatherReply(rng *rand.Rand) (reply, bool) {
	after := time.Duration(rng.IntN(4000)) * time.Millisecond
	switch rng.IntN(14) {
	case 0:
		return reply{err: errConflict, after: after}, true
	case 1:
		return reply{err: api(429, "Too Many Requests: retry after 3")}, true
	case 2:
		return reply{err: io.ErrUnexpectedEOF, after: after}, true
	case 3:
		return reply{err: errWebhook}, true
	case 4:
		return reply{err: api(401, "Unauthorized")}, true
	case 5:
		return reply{never: true}, true
	case 6:
		return reply{elements: []json.RawMessage{json.RawMessage(`{}`)}}, true
	case 7:
		return reply{after: after}, true
	}
	return reply{}, false
}

// inspect checks a poll as it begins.
func (w *weather) inspect(r polling.Request) {
	if !w.lease.mine() {
		w.t.Error("a poll began without the lease")
	}
	if w.tg.mostOpen() > 1 {
		w.t.Error("two polls at once")
	}
	if !r.HasOffset {
		return
	}
	durable := w.sink.committed()
	for id := int64(1); id < r.Offset; id++ {
		if !slices.Contains(durable, id) {
			w.t.Errorf("offset %d passes update %d, which is not durable", r.Offset, id)
		}
	}
}

func (w *weather) run() {
	for range 60 {
		w.event()
		time.Sleep(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
		w.keepLeading()
	}
	w.fair.Store(true)
	w.lease.set(func(l *lease) { l.ownsErr, l.refresh, l.release = nil, nil, nil; l.state = lock.Stale })
	for range 5 {
		w.keepLeading()
		time.Sleep(30 * time.Second)
	}
	seen := map[int64]bool{}
	var order []int64
	for _, id := range w.sink.committed() {
		if !seen[id] {
			seen[id] = true
			order = append(order, id)
		}
	}
	if int64(len(order)) != w.next-1 || !slices.IsSorted(order) {
		w.t.Errorf("committed %v, want 1 to %d in order", order, w.next-1)
	}
	if s := w.p.State(); s.State != polling.StatePolling {
		w.t.Errorf("State() = %+v, want polling", s)
	}
	w.stop()
}

// event lets one thing happen.
func (w *weather) event() {
	eio := errors.New("EIO")
	switch w.rng.IntN(9) {
	case 0:
		w.lease.lose()
		w.lease.set(func(l *lease) { l.state = lock.Stale })
	case 1:
		w.lease.set(func(l *lease) { l.ownsErr = eio })
	case 2:
		w.lease.set(func(l *lease) { l.release = func() error { return eio } })
	case 3:
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		_, _ = w.p.Stop(ctx) // it may fail while the registry does
	case 4:
		release := w.wedge()
		time.AfterFunc(time.Duration(w.rng.IntN(6000))*time.Millisecond, release)
	default:
		w.lease.set(func(l *lease) { l.ownsErr, l.release = nil, nil })
		for range w.rng.IntN(4) {
			w.tg.push(w.next)
			w.next++
		}
	}
}

// keepLeading starts anew what has ended, as the owner of a Poller does.
func (w *weather) keepLeading() {
	select {
	case <-w.p.Done():
	default:
		if w.p.Done() != nil {
			return
		}
	}
	_, _ = w.p.Start(w.t.Context(), polling.StartRequest{}) // it may fail while the registry does
}

// mine reports whether the lease names this member, whatever checks say.
func (l *lease) mine() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entry.SameOwner(l.self)
}
