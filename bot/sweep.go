package bot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"tgbridge/internal/journal"
)

// sweep removes what members left that have been dead for an hour: their files,
// and then their sockets.
func (t *term) sweep() {
	gone, err := t.b.observer.Sweep(sweepAfter)
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
		t.write(records, false, func(error) {}) // what is not forgotten now is later
	}
	return next
}
