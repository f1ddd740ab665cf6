package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/rs/zerolog"
)

// claim makes dir/<term> the only directory of a term, with what the highest
// lower one holds, and empty if there is none. It reports whether there was one.
//
// Of two leaders that both find none, each makes its own and looks again: the
// lower one then sees the higher or, if it looked too early, is seen by it, and
// the higher one takes its directory. So nothing is ever written beside a
// directory that a leader made. Where several are found nevertheless, somebody
// put them there: they are told, and left alone.
func claim(d disk, dir string, term uint64, log zerolog.Logger) (found bool, err error) {
	if err := d.mkdirAll(dir); err != nil {
		return false, wrap("make journal directory", err)
	}
	own, made := termPath(dir, term), false
	for range 100 {
		lower, err := lowerTerms(dir, term, made)
		switch {
		case err != nil && made:
			_ = d.remove(own) // empty: nothing was written
			return false, err
		case err != nil:
			return false, err
		case len(lower) == 0 && made:
			tellBeyond(dir, own, log)
			return false, nil
		case len(lower) == 0:
			err = d.mkdir(own)
			made = err == nil
		case made:
			err = d.remove(own)
			made = false
		case len(lower) > 1 && d.remove(termPath(dir, lower[len(lower)-1])) == nil:
			continue // it was empty, and no leader makes one above another: somebody put it there
		default:
			if err = d.rename(termPath(dir, lower[len(lower)-1]), own); err == nil {
				tellStray(d, dir, lower[:len(lower)-1], log)
				found = true
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // another leader was faster: look who
		}
		if err == nil {
			err = d.syncDir(dir)
		}
		if found || err != nil {
			tellBeyond(dir, own, log)
			return found, wrap("take over journal directory", err)
		}
	}
	return false, fmt.Errorf("take over journal for term %d: %s does not come to rest", term, dir)
}

// lowerTerms returns the terms below term, rising. A directory of a higher one,
// or of the same unless it was made by the caller, is ErrSuperseded.
func lowerTerms(dir string, term uint64, made bool) ([]uint64, error) {
	terms, err := listTerms(dir)
	if err != nil {
		return nil, err
	}
	n, own := slices.BinarySearch(terms, term)
	if rest := terms[n:]; len(rest) > 1 || len(rest) == 1 && !(own && made) {
		return nil, fmt.Errorf("take over journal for term %d: %s is there: %w",
			term, termPath(dir, rest[len(rest)-1]), ErrSuperseded)
	}
	return terms[:n], nil
}

// tellStray removes the directories of lower terms that are empty and tells of
// the others.
func tellStray(d disk, dir string, terms []uint64, log zerolog.Logger) {
	for _, t := range terms {
		if d.remove(termPath(dir, t)) != nil {
			log.Warn().Str(keyPath, termPath(dir, t)).
				Msg("a second journal, of a lower term, is not read: remove it unless it is wanted")
		}
	}
}

// tellBeyond tells of what is named like a term, or a file of this one, that there
// cannot be.
func tellBeyond(dir, own string, log zerolog.Logger) {
	for _, path := range slices.Concat(listBeyond(dir, ""), listBeyond(own, logEnding)) {
		log.Warn().Str(keyPath, path).Uint64("highest", maxNumber).
			Msg("the name is a number above the highest there can be: it is not read; remove it, or, if it is a journal that is wanted, stop all members and rename it to a number above its neighbours'")
	}
}
