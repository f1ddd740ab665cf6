package bot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"tgbridge/internal/journal"
)

// How long what a dead member left is kept; and for how long if there are more
// files of members than that, because each who acquires the lease reads them all.
// For that long even who does not run often sees by the file that it is dead.
const (
	sweepAfter      = time.Hour
	crowd           = 64
	sweepCrowdAfter = time.Minute
)

// sweep removes what members left that have been dead for some time: their files,
// and then their sockets.
func (t *term) sweep() {
	after := sweepAfter
	readings, err := t.b.observer.Members()
	if len(readings) > crowd {
		after = sweepCrowdAfter
	}
	var gone []string
	if err == nil {
		gone, err = t.b.observer.Sweep(after)
	}
	if err != nil {
		t.b.log.Warn().Err(err).Msg("leftovers of dead members not swept")
	}
	for _, instance := range gone {
		path := filepath.Join(t.b.dir, "sockets", filepath.Base(instance)+".sock")
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.b.log.Warn().Err(err).Msg("socket of a dead member not removed")
		}
	}
}

// forgetCalls forgets the calls of no delivery (of commands, or of a delivery
// that was lost) that the last sweep saw already: nobody asks for their results
// any more. Those of a delivery go with it. It returns what to forget next time.
func (t *term) forgetCalls(old map[string]bool) (next map[string]bool) {
	next = map[string]bool{}
	var records []journal.Record
	for _, c := range t.journal.Calls() {
		if c.Seq != 0 {
			if _, err := t.journal.Body(c.Seq); !errors.Is(err, journal.ErrNotFound) {
				continue
			}
		}
		switch {
		case !c.Done && c.By == t.b.member.Instance(): // in flight
		case old[c.Request]:
			records = append(records, journal.Record{Kind: journal.KindForget, Request: c.Request})
		default:
			next[c.Request] = true
		}
	}
	if len(records) > 0 {
		t.journal.TryWrite(records, false, func(error) {}) // what is not forgotten now is later
	}
	return next
}
