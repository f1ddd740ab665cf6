package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/rs/zerolog"
)

// claim makes dir/<term> the only directory of a term, with what the highest
// lower one holds, and empty if there is none.
//
// Of two leaders that both find none, each makes its own and looks again: the
// lower one then sees the higher or, if it looked too early, is seen by it, and
// the higher one takes its directory. So nothing is ever written beside a
// directory that a leader made. Where several are found nevertheless, somebody
// put them there: they are told, and left alone.
func claim(d disk, dir string, term uint64, log zerolog.Logger) error {
	if err := d.mkdirAll(dir); err != nil {
		return fmt.Errorf("make journal directory: %w", classify(err))
	}
	own, made := termPath(dir, term), false
	for range 100 {
		terms, err := listTerms(dir)
		if err != nil {
			return err
		}
		var lower []uint64
		for _, t := range terms {
			if t > term || t == term && !made {
				if made {
					_ = d.remove(own) // empty: nothing was written
				}
				return fmt.Errorf("take over journal for term %d: %s is there: %w", term, termPath(dir, t), ErrSuperseded)
			}
			if t < term {
				lower = append(lower, t)
			}
		}
		switch {
		case len(lower) == 0 && made:
			return nil
		case len(lower) == 0:
			if err := d.mkdir(own); err != nil {
				return fmt.Errorf("make journal directory: %w", classify(err))
			}
			made = true
			if err := d.syncDir(dir); err != nil {
				return fmt.Errorf("make journal directory: %w", err)
			}
		case made:
			if err := d.remove(own); err != nil {
				return fmt.Errorf("remove empty journal directory: %w", err)
			}
			made = false
		default:
			from := termPath(dir, lower[len(lower)-1])
			err := d.rename(from, own)
			if errors.Is(err, fs.ErrNotExist) {
				continue // another leader was faster: look who
			}
			if err == nil {
				err = d.syncDir(dir)
			}
			if err != nil {
				return fmt.Errorf("take over journal: %w", classify(err))
			}
			tellStray(d, dir, lower[:len(lower)-1], log)
			return nil
		}
	}
	return fmt.Errorf("take over journal for term %d: %s does not come to rest", term, dir)
}

// tellStray removes the directories of lower terms that are empty and tells of
// the others.
func tellStray(d disk, dir string, terms []uint64, log zerolog.Logger) {
	for _, t := range terms {
		if d.remove(termPath(dir, t)) != nil {
			log.Warn().Str(keyPath, filepath.Clean(termPath(dir, t))).
				Msg("a second journal, of a lower term, is not read: remove it unless it is wanted")
		}
	}
}
