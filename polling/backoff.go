package polling

import "time"

// Waits after failures. They double from firstWait to a cap; jitter takes off
// at most a quarter, so that members which failed together do not come back
// together, and yet few polls fit into a long refusal: with another poller
// holding the slot for 55 s they are 12 to 15, and the last wait before the
// slot's return is well below 15 s (F1).
const (
	firstWait   = 100 * time.Millisecond
	failureCap  = 15 * time.Second
	conflictCap = 10 * time.Second
	// hastyCap is for answers that hold nothing and came at once, although
	// they were asked to wait: no failure, but not to be had in a hot loop.
	hastyCap = time.Second
	// pauseCap is what of a pause that Telegram asks for is waited before the
	// next try: its own last for minutes, and a wrong number must not end polling.
	pauseCap = time.Hour
)

// backOff is the wait after the given number of failures in a row, from 1.
// jitter is in [0, 1).
func backOff(failures int, limit time.Duration, jitter float64) time.Duration {
	wait := limit
	// 2^20 x 100 ms is beyond any limit here, and does not overflow.
	if n := failures - 1; n < 20 {
		wait = min(limit, firstWait<<max(n, 0))
	}
	return wait - time.Duration(float64(wait)*jitter/4)
}
