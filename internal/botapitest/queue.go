package botapitest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Numbers of the open-source server's update queue (tdlib/td, TQueue).
const (
	maxPending   = 100_000       // updates that wait; what comes beyond is lost
	maxUpdateID  = 2_000_000_000 // ids are below
	maxPoll      = 100           // updates in one answer
	maxPollBytes = 1 << 22       // their size, each counted with 50 bytes more
	futureOffset = 10            // an offset higher than the next id by more means the head
)

// ErrQueueFull means that as many updates wait as the Bot API server keeps.
// Those injected before it are in the queue, the rest is not.
var ErrQueueFull = errors.New("100000 updates are waiting already")

// ErrUpdateID means that an update's id is not above those before it, or out
// of range.
var ErrUpdateID = errors.New("update id does not rise")

// pending is an update that waits to be confirmed.
type pending struct {
	id      int64
	raw     []byte
	expires time.Time
}

// queue holds a bot's updates in the order of their ids. The zero queue has
// chosen no ids yet.
type queue struct {
	updates []pending // a window that moves through its array
	next    int64     // the id of the next update, 0 before the first is chosen
	soonest time.Time // no update's life ends before this
}

// head is the lowest id that waits, or the next one.
func (q *queue) head() int64 {
	if len(q.updates) == 0 {
		return q.next
	}
	return q.updates[0].id
}

// chooseIDs lets ids begin at first, or at random where it is 0.
func (q *queue) chooseIDs(first int64) {
	if first == 0 {
		first = 2*maxPending + 1 + rand.Int64N(maxUpdateID/2-2*maxPending)
	}
	q.next = first
}

// push appends an update under the next id and returns that.
func (q *queue) push(raw []byte, expires time.Time) (int64, error) {
	return q.pushAs(q.nextID(), raw, expires)
}

// nextID chooses a first id if none was, or if ids have run out: then what
// waits is lost, as on the Bot API server.
func (q *queue) nextID() int64 {
	if q.next == 0 || q.next >= maxUpdateID {
		q.updates = nil
		q.chooseIDs(0)
	}
	return q.next
}

// pushAs appends an update under an id of its own. It may repeat the last
// one's id, which Telegram never does.
func (q *queue) pushAs(id int64, raw []byte, expires time.Time) (int64, error) {
	if len(q.updates) >= maxPending {
		return 0, ErrQueueFull
	}
	if id <= 0 || id >= maxUpdateID {
		return 0, fmt.Errorf("inject update %d: ids are 1 to %d: %w", id, maxUpdateID-1, ErrUpdateID)
	}
	if n := len(q.updates); n > 0 && id < q.updates[n-1].id {
		return 0, fmt.Errorf("inject update %d while %d waits: %w", id, q.updates[n-1].id, ErrUpdateID)
	}
	if len(q.updates) == 0 || expires.Before(q.soonest) {
		q.soonest = expires
	}
	q.updates = append(q.updates, pending{id: id, raw: raw, expires: expires})
	q.next = id + 1
	return id, nil
}

// replace changes what an update that waits says.
func (q *queue) replace(id int64, raw []byte) bool {
	i := slices.IndexFunc(q.updates, func(p pending) bool { return p.id == id })
	if i < 0 {
		return false
	}
	q.updates[i].raw = raw
	return true
}

// take confirms what is below offset and returns up to limit updates from
// there, and the ids that this confirmed and those whose life had ended.
func (q *queue) take(offset int64, limit int, now time.Time) (batch []pending, confirmed, expired []int64) {
	from := q.from(offset)
	first := 0
	for first < len(q.updates) && q.updates[first].id < from {
		confirmed = append(confirmed, q.updates[first].id)
		first++
	}
	q.drop(first)
	expired = q.expire(now)
	size := 0
	for _, p := range q.updates {
		size += len(p.raw) + 50
		if len(batch) == limit || size >= maxPollBytes {
			break
		}
		batch = append(batch, p)
	}
	return batch, confirmed, expired
}

// from turns an offset, a signed number of 32 bits, into the id to begin at.
func (q *queue) from(offset int64) int64 {
	if offset < 0 {
		offset += q.next
	}
	if offset <= 0 || offset > q.next+futureOffset || offset < q.next-2*maxPending {
		return q.head()
	}
	return offset
}

func (q *queue) drop(n int) {
	clear(q.updates[:n])
	q.updates = q.updates[n:]
}

// expire removes the updates whose life has ended.
func (q *queue) expire(now time.Time) (ids []int64) {
	if !now.After(q.soonest) {
		return nil
	}
	q.soonest = now.Add(24 * time.Hour)
	q.updates = slices.DeleteFunc(q.updates, func(p pending) bool {
		if now.After(p.expires) {
			ids = append(ids, p.id)
			return true
		}
		if p.expires.Before(q.soonest) {
			q.soonest = p.expires
		}
		return false
	})
	return ids
}

// clear drops everything that waits and returns its ids. The next id stays.
func (q *queue) clear() (ids []int64) {
	for _, p := range q.updates {
		ids = append(ids, p.id)
	}
	q.updates = nil
	return ids
}
