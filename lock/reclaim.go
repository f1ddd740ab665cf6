package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"
)

// guardFacts is what decides whether a guard may be taken from its holder.
type guardFacts struct {
	dead  bool          // the holder is dead
	stuck bool          // the holder has a member file, and its beat stood for stale-after
	stood time.Duration // this very guard stood for so long under the observer's eyes
}

// mayReclaim is D4 and, without a beat, D7: at once from the dead; after
// stale-after from one whose beat stands as long; after twice that from anyone,
// whatever the files say. Nothing can go wrong by it: who is overtaken cannot
// publish.
func mayReclaim(f guardFacts, staleAfter time.Duration) bool {
	return f.dead ||
		f.stuck && f.stood >= staleAfter ||
		f.stood >= 2*staleAfter
}

// relieve looks at what stands in the way of a transaction and takes it away if
// that may be done. It returns what it saw, and whether the way may be free now.
func (t *transactor) relieve() (guardView, bool, error) {
	place := filepath.Join(t.dir, guardName)
	v, err := lookAtGuard(place)
	if err != nil {
		return v, false, explain(place, "look at the guard", err)
	}
	switch v.kind {
	case guardAbsent:
		return v, true, nil
	case guardEmpty:
		// Where rename replaces empty directories this is not needed. It can
		// only fail on a guard that was put there meanwhile.
		return v, rmdir(place) == nil, nil
	case guardForeign:
		return v, false, nil
	}
	facts, err := t.facts(place, v)
	if err != nil || !mayReclaim(facts, t.staleAfter) {
		return v, false, err
	}
	if v.kind == guardOld {
		err = patiently(func() error { return unlink(place) }) // cannot hit a directory
	} else {
		for _, generation := range v.generations {
			err = errors.Join(err, removeGuardFiles(place, generation, false))
		}
	}
	if err != nil { // what is left of it is reclaimed by a later transaction
		return v, false, fmt.Errorf("remove the guard of a dead or hung member: %w", explain(place, "remove the guard", err))
	}
	t.log.Info().Str("path", place).Str("holder", v.holder.InstanceID).Int("pid", v.holder.PID).
		Bool("dead", facts.dead).Dur("stood", facts.stood).Msg("guard of a dead or hung member removed")
	return v, true, nil
}

// watch looks at what stands at the guard's place and touches nothing. Whoever
// has or waits for a lease does so all the time: then a guard that nobody will
// ever release has been seen to stand before it is in the way.
func (t *transactor) watch() {
	place := filepath.Join(t.dir, guardName)
	v, err := lookAtGuard(place)
	if err == nil && (v.kind == guardOurs || v.kind == guardOld) {
		_, _ = t.facts(place, v) // what fails is told by the transaction
	}
}

// facts gathers what mayReclaim decides by.
func (t *transactor) facts(place string, v guardView) (guardFacts, error) {
	f := guardFacts{stood: t.observer.guardStood(place, v.mark)}
	if v.kind == guardOld {
		f.dead = v.holder.PID > 0 && processGone(v.holder.PID, "")
		return f, nil
	}
	w := v.holder.owner()
	found, err := t.observer.find(w, t.staleAfter)
	if err != nil {
		return f, err
	}
	f.dead = found.dead
	f.stuck = found.hung && found.file
	return f, nil
}

// isContention reports whether a rename to the guard's place failed because of
// what stands there (D8). Some systems answer with a refusal of permission.
func isContention(err error, v guardView) bool {
	return isTaken(err) || errors.Is(err, fs.ErrPermission) && v.kind != guardAbsent
}
