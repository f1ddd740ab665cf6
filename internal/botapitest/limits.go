package botapitest

import "time"

// Telegram's limits on messages, edits included: so many in all, so many in a
// chat, so many in a group. How long a burst may be and how long one is made
// to wait are not told by Telegram; these are on the hard side.
const (
	totalRate    = 30 // a second, over all chats
	chatRate     = 1  // a second, in one chat
	chatBurst    = 3
	chatPenalty  = 3 * time.Second
	totalPenalty = 5 * time.Second
	groupMost    = 20 // in groupWindow, in a group
	groupWindow  = time.Minute
)

// bucket is a token bucket that refills over time. The zero bucket is full.
type bucket struct {
	spent float64
	at    time.Time
}

func (b *bucket) take(now time.Time, rate, size float64) bool {
	spent := max(0, b.spent-rate*now.Sub(b.at).Seconds())
	if spent+1 > size {
		return false
	}
	b.spent, b.at = spent+1, now
	return true
}

// chatPace is what limits one chat.
type chatPace struct {
	bucket bucket
	sent   []time.Time // in a group: messages of the last window
	until  time.Time   // penalty
}

// admit counts a message to c, or refuses it for as long as the limits want;
// until then everything is refused. b.mu is held.
func (b *Bot) admit(c *chat) *refusal {
	if !b.limited() {
		return nil
	}
	now := time.Now()
	if until := latest(b.totalUntil, c.pace.until); now.Before(until) {
		return tooMany(until.Sub(now))
	}
	if c.Type != "private" {
		if wait := c.pace.groupWait(now); wait > 0 {
			c.pace.until = now.Add(wait)
			return tooMany(wait)
		}
	}
	if !c.pace.bucket.take(now, chatRate, chatBurst) {
		c.pace.until = now.Add(chatPenalty)
		return tooMany(chatPenalty)
	}
	if !b.total.take(now, totalRate, totalRate) {
		b.totalUntil = now.Add(totalPenalty)
		return tooMany(totalPenalty)
	}
	if c.Type != "private" {
		c.pace.sent = append(c.pace.sent, now)
	}
	return nil
}

// groupWait is how long a group that had its share must wait.
func (p *chatPace) groupWait(now time.Time) time.Duration {
	for len(p.sent) > 0 && now.Sub(p.sent[0]) >= groupWindow {
		p.sent = p.sent[1:]
	}
	if len(p.sent) < groupMost {
		return 0
	}
	return p.sent[0].Add(groupWindow).Sub(now)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
