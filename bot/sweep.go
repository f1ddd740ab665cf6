package bot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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
