package telegram

import "time"

// window lets at most n events into any interval of the length per. A token
// bucket (golang.org/x/time/rate) would let up to 2n into the first one, and
// Telegram counts them. It is not safe for concurrent use.
type window struct {
	per   time.Duration
	times []time.Time // of the last n events, a ring
	next  int         // the oldest
}

func newWindow(n int, per time.Duration) window {
	return window{per: per, times: make([]time.Time, n)}
}

// earliest returns the instant from which another event fits; in the past if
// one fits now.
func (w *window) earliest() time.Time { return w.times[w.next].Add(w.per) }

// take enters an event at the earliest instant from now on, and returns it.
func (w *window) take(now time.Time) time.Time {
	at := w.earliest()
	if at.Before(now) {
		at = now
	}
	w.times[w.next] = at
	w.next = (w.next + 1) % len(w.times)
	return at
}

// settle says that the event entered last took until now. Counting from there
// keeps the distance at the server's end, whatever the network does.
func (w *window) settle(now time.Time) {
	w.times[(w.next+len(w.times)-1)%len(w.times)] = now
}
