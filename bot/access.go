package bot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"tgbridge/internal/telegram"
)

func newAccess(all bool, users []int64) telegram.Access {
	a := telegram.Access{All: all, Users: make(map[int64]struct{}, len(users))}
	for _, id := range users {
		a.Users[id] = struct{}{}
	}
	return a
}

// accessDigest lets members compare whom they allow without telling whom.
func accessDigest(all bool, users []int64) string {
	sum := sha256.Sum256(fmt.Append(nil, all, slices.Compact(slices.Sorted(slices.Values(users)))))
	return hex.EncodeToString(sum[:8])
}

// A DeniedSender is somebody whose update was not handled.
type DeniedSender struct {
	UserID int64     `json:"user_id"` // 0: no user sent it
	Kind   string    `json:"kind"`
	At     time.Time `json:"at"`
}

const (
	deniedShown = 10        // in status
	deniedEvery = time.Hour // between two lines about a sender
	deniedKnown = 1000      // senders remembered for that
)

// deniedBook tells of denied senders, each once an hour. It is safe for
// concurrent use.
type deniedBook struct {
	log zerolog.Logger

	mu   sync.Mutex // guards what follows
	told map[int64]time.Time
	last []DeniedSender
}

func newDeniedBook(log zerolog.Logger) *deniedBook {
	return &deniedBook{log: log, told: map[int64]time.Time{}}
}

// note remembers a denied update, and tells of its sender if that is due.
func (d *deniedBook) note(f telegram.Facts) {
	now := time.Now()
	d.mu.Lock()
	d.last = append(d.last, DeniedSender{UserID: f.UserID, Kind: f.Kind, At: now})
	d.last = d.last[max(0, len(d.last)-deniedShown):]
	due := now.Sub(d.told[f.UserID]) >= deniedEvery
	if due {
		if len(d.told) >= deniedKnown {
			clear(d.told)
		}
		d.told[f.UserID] = now
	}
	d.mu.Unlock()
	if !due {
		return
	}
	if f.UserID == 0 || f.SenderChatID != 0 {
		d.log.Info().Str("kind", f.Kind).Msg("denied update that no user sent; only TGBRIDGE_ALLOW_ALL=true allows it")
		return
	}
	d.log.Info().Str("kind", f.Kind).
		Msgf("denied update from user %d; allow with TGBRIDGE_ALLOWED_USERS=%d", f.UserID, f.UserID)
}

// recent returns the last denied updates, newest last.
func (d *deniedBook) recent() []DeniedSender {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.last)
}
