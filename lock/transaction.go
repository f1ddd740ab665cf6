package lock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// Pauses between two tries to take the guard: the first ones short, because a
// transaction takes a millisecond or two.
var guardPauses = [...]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
}

// diskFullPause is the time between two tries while the disk is full.
const diskFullPause = time.Second

// TransactionOptions say what a transaction changes, and for whom.
type TransactionOptions struct {
	// Dir is the state directory; File the name of the file in it, without a
	// path.
	Dir, File string
	// Member is who takes the guard. Its beat and its kernel lock tell others
	// whether it still works on it.
	Member *Member
	// Observer judges those who hold the guard. Nil: a new one, which knows
	// nothing yet of who hangs.
	Observer *Observer
	// StaleAfter is as in Options. Zero: 5 s.
	StaleAfter time.Duration
	Logger     zerolog.Logger
}

// Transaction changes one shared file while no other member changes any in the
// directory (R11). fn gets the file's content, nil if there is none, and
// returns the new one, which is on the disk when Transaction returns nil. A nil
// content leaves the file as it is. fn may run more than once, must have no
// effects but its result, and should be quick; its error is returned, wrapped.
//
// For locks.json itself both contents must be a JSON object: else ErrDamaged.
//
// Other errors: an UnusableError for what a person has to put right (so is a
// content of more than 16 MiB), a BusyError if the guard could not be had in
// 3 x StaleAfter, the cause of ctx, and the system's. The file is unchanged
// then, unless only the last fsync of the directory failed.
func Transaction(ctx context.Context, o TransactionOptions, fn func(current []byte) ([]byte, error)) error {
	if o.Member == nil || o.Dir == "" {
		return errors.New("transaction: directory and member are required")
	}
	if !validShared(o.File) {
		return fmt.Errorf("transaction: %q cannot be the name of a shared file", o.File)
	}
	if o.StaleAfter <= 0 {
		o.StaleAfter = DefaultStaleAfter
	}
	if o.Observer == nil {
		o.Observer = NewObserver(ObserverOptions{Dir: o.Dir, Host: o.Member.host, LocksBelieved: o.Member.LocksBelieved()})
	}
	t := &transactor{dir: o.Dir, member: o.Member, observer: o.Observer, staleAfter: o.StaleAfter, log: o.Logger}
	return t.run(ctx, func() (change, error) { return t.edit(o.File, fn) })
}

// edit is the body of a transaction that changes one file by fn alone.
func (t *transactor) edit(file string, fn func([]byte) ([]byte, error)) (change, error) {
	path := filepath.Join(t.dir, file)
	current, err := readShared(path)
	switch {
	case file == registryName && errors.Is(err, errTooLarge):
		return change{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return change{}, err
	}
	check := func(content []byte) error {
		if file == registryName && content != nil && parseRegistry(content).damaged {
			return fmt.Errorf("%s: %w", path, ErrDamaged)
		}
		return nil
	}
	if err := check(current); err != nil {
		return change{}, err
	}
	next, err := fn(current)
	if err != nil {
		return change{}, fmt.Errorf("change %s: %w", file, err)
	}
	return change{file: file, content: next}, check(next)
}

// validShared reports whether a file may be changed in a transaction: a plain
// name that is none of the package's own, except the registry.
func validShared(file string) bool {
	return file == filepath.Base(file) && filepath.IsLocal(file) && file != "." &&
		file != membersDir && !strings.HasPrefix(file, guardName)
}

// A transactor runs transactions in one directory.
type transactor struct {
	dir        string
	member     *Member
	observer   *Observer
	staleAfter time.Duration
	log        zerolog.Logger
}

// A change is what the body of a transaction wants to be published.
type change struct {
	file    string // name in the directory
	content []byte // nil: nothing is published
	// confirm is asked once more right before the rename, after everything that
	// may take long. Nil: nothing to ask.
	confirm func() error
	// published is called right after the rename, also if a later step fails.
	published func()
}

// errGuardLost says that the guard was taken away: nothing was published.
var errGuardLost = errors.New("the guard was taken away")

// lostTries bounds how often a transaction begins anew after its guard was taken
// away. Each time the process stood still for stale-after or longer.
const lostTries = 5

// patience is how long a transaction waits for the guard, or for room on the
// disk, before it gives up (D8).
func (t *transactor) patience() time.Duration { return 3 * t.staleAfter }

// run takes the guard, lets body decide, publishes and releases (D1 to D8).
func (t *transactor) run(ctx context.Context, body func() (change, error)) error {
	lost := 0
	for start := time.Now(); ; {
		err := t.once(ctx, body)
		switch {
		case errors.Is(err, errGuardLost) && lost < lostTries:
			lost++
			t.log.Warn().Int("times", lost).Msg("guard was taken away while this process stood still: the transaction begins anew")
		case isDiskFull(err) && time.Since(start) < t.patience():
			t.log.Warn().Err(err).Dur("next", diskFullPause).Msg("disk full: the transaction waits")
			if err := sleep(ctx, diskFullPause); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// once is one try: one generation of the guard, from staging to release.
func (t *transactor) once(ctx context.Context, body func() (change, error)) error {
	g, err := t.stage()
	if err != nil {
		return err
	}
	if err := t.take(ctx, g); err != nil {
		if uerr := g.unstage(); uerr != nil {
			t.log.Debug().Err(uerr).Str("path", g.staged).Msg("staged guard not removed")
		}
		return err
	}
	// Also after a panic in body.
	defer func() {
		if err := g.release(); err != nil {
			// What the caller wanted is done, or not done; others take the
			// guard away after 2 x stale-after.
			t.log.Warn().Err(err).Str("path", g.place).Msg("guard not released")
		}
	}()
	c, err := body()
	if err != nil || c.content == nil {
		return err
	}
	return t.publish(g, c)
}

// take puts a staged guard in place, as soon as what stands there is gone or may
// be taken away. It fails with errGuardLost if the staged one is gone.
func (t *transactor) take(ctx context.Context, g guard) error {
	start, wasFree := time.Now(), false
	for try := 0; ; try++ {
		err := g.enter()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, fs.ErrNotExist): // swept, or its directory made anew
			return errGuardLost
		case isDiskFull(err):
			return err
		}
		view, free, rerr := t.relieve()
		if rerr != nil {
			return rerr
		}
		if !isContention(err, view) {
			return fmt.Errorf("take the guard: %w", explain(g.place, "take the guard", err))
		}
		waited := time.Since(start)
		if waited >= t.patience() {
			return t.refused(g.place, view, waited)
		}
		// What became free is tried for at once, but never in a tight loop.
		if !free || wasFree {
			if err := sleep(ctx, guardPauses[min(try, len(guardPauses)-1)]); err != nil {
				// For people; to the caller the end of ctx alone means something.
				return fmt.Errorf("%w, waiting for the guard: %v", err, t.refused(g.place, view, waited))
			}
		}
		wasFree = free
	}
}

// refused says why the guard could not be had.
func (t *transactor) refused(place string, v guardView, waited time.Duration) error {
	if v.kind == guardForeign {
		return &UnusableError{Path: place, Problem: "cannot be the guard of a transaction: " + v.foreign,
			Remedy: "move it away"}
	}
	busy := &BusyError{Path: place, Waited: waited, Instance: v.holder.InstanceID, PID: v.holder.PID}
	if r, err := t.observer.Look(v.holder.InstanceID); err == nil {
		busy.Name, busy.Host = r.Info.Name, r.Info.Host
	}
	return busy
}

// publish puts the new content into its place, out of the guard (D3, R12). If
// the guard was taken away it returns errGuardLost, and nothing has changed.
func (t *transactor) publish(g guard, c change) error {
	next := filepath.Join(g.place, nextFile(g.generation))
	path := filepath.Join(t.dir, c.file)
	if len(c.content) > maxFileBytes { // nobody could read it again
		return &UnusableError{Path: path, Problem: fmt.Sprintf("would get %d bytes", len(c.content)), Err: errTooLarge,
			Remedy: "remove from it what is not needed"}
	}
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_TRUNC|openSafely, 0) // never created
	if errors.Is(err, fs.ErrNotExist) {
		return errGuardLost
	}
	if err == nil {
		err = writeSynced(f, bytes.NewReader(c.content))
	}
	if err != nil {
		return fmt.Errorf("publish %s: %w", c.file, explain(path, "write the new content", err))
	}
	if c.confirm != nil {
		if err := c.confirm(); err != nil {
			return err
		}
	}
	err = patiently(func() error { return os.Rename(next, path) })
	if errors.Is(err, fs.ErrNotExist) {
		return errGuardLost
	}
	if err != nil {
		return fmt.Errorf("publish %s: %w", c.file, explain(path, "publish the new content", err))
	}
	if c.file == registryName {
		t.member.registry.Store(true)
	}
	if c.published != nil {
		c.published()
	}
	if err := syncDir(t.dir); err != nil {
		return fmt.Errorf("publish %s: sync directory: %w", c.file, err)
	}
	return nil
}
