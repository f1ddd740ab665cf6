package bot

import (
	"sync"
	"time"
)

// A trouble is a failure of the journal that may pass: nothing is lost, but what
// needs the disk waits. Whoever fails tries again each second and tells it anew;
// so it is over when nobody has told it for a while.
type trouble struct {
	mu  sync.Mutex // guards what follows; held for no I/O
	err error
	at  time.Time
}

// troubleFor is how long a trouble that is not told again lasts.
const troubleFor = 3 * time.Second

// note tells a trouble. It reports whether there was none before.
func (t *trouble) note(err error) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first = time.Since(t.at) > troubleFor
	t.err, t.at = err, time.Now()
	return first
}

// text says what the present trouble is; "" is none.
func (t *trouble) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil || time.Since(t.at) > troubleFor {
		return ""
	}
	return t.err.Error()
}
