package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Sweep removes what dead members left: staged guards and unfinished files of
// their own at once (D9), the member's file once it is older than olderThan
// (M5), its kernel lock taken first. Where the kernel cannot be asked, a member
// counts as dead if this observer saw its beat stand for olderThan. It returns
// the instances whose file it removed, sorted; what else bears these ids can go
// as well, since ids are never used again. Files of other forms, and owners
// named in the registry, are never touched. An error leaves the rest for the
// next call.
func (o *Observer) Sweep(olderThan time.Duration) ([]string, error) {
	if err := o.sweepDebris(olderThan); err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	r, err := readRegistry(filepath.Join(filepath.Dir(o.dir), registryName), nil)
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	if r.missing || r.damaged {
		return nil, nil // the members' terms are needed to begin anew
	}
	readings, err := o.Members()
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	var removed []string
	for _, m := range readings {
		instance := m.Info.Instance
		if r.names(instance) || !o.sweepable(instance, m, olderThan) {
			continue
		}
		gone, err := o.removeMember(instance, m.Dead(), olderThan)
		if err != nil {
			return removed, fmt.Errorf("sweep: %w", err)
		}
		if gone {
			removed = append(removed, instance)
		}
	}
	return removed, nil
}

// sweepable reports whether a member may be removed: the kernel says that it is
// dead, or says nothing and its beat stood for so long.
func (o *Observer) sweepable(instance string, r Reading, olderThan time.Duration) bool {
	return r.Dead() || r.Kernel == LockUnknown && o.unchanged(instance) >= olderThan
}

// removeMember removes a member's file under its kernel lock, so that nobody
// takes it for a live one meanwhile. Only with that lock the file's age, which
// is wall clock, counts.
func (o *Observer) removeMember(instance string, dead bool, olderThan time.Duration) (removed bool, err error) {
	path := filepath.Join(o.dir, instance)
	f, err := os.OpenFile(path, os.O_RDWR|openSafely, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if dead {
		if time.Since(info.ModTime()) < olderThan || o.flock(f, lockExclusive) != nil {
			return false, nil
		}
	}
	// The owner may have made it anew since it was opened.
	if there, err := os.Lstat(path); err != nil || !os.SameFile(info, there) {
		return false, nil
	}
	return true, unlink(path)
}

// sweepDebris removes staged guards and unfinished member files of the dead.
func (o *Observer) sweepDebris(olderThan time.Duration) error {
	dir := filepath.Dir(o.dir)
	err := forEachName(dir, func(name string) error {
		instance, generation, ok := parseStaged(name)
		if !ok || !o.shownDead(instance, olderThan) {
			return nil
		}
		return removeGuardFiles(filepath.Join(dir, name), generation, true)
	})
	if err != nil {
		return err
	}
	return forEachName(o.dir, func(name string) error {
		instance, ok := parseHidden(name)
		if !ok || !o.shownDead(instance, olderThan) {
			return nil
		}
		return unlink(filepath.Join(o.dir, name))
	})
}

// parseStaged returns whose a staged guard is, and of which generation.
func parseStaged(name string) (instance, generation string, ok bool) {
	rest, ok := strings.CutPrefix(name, stagedPrefix)
	if !ok {
		return "", "", false
	}
	instance, generation, _ = strings.Cut(rest, ".")
	_, ok = parseGuardFile(ownerFile(generation))
	return instance, generation, ok && validInstance(instance)
}

// parseHidden returns whose unfinished or scratch file it is.
func parseHidden(name string) (instance string, ok bool) {
	name, ok = strings.CutPrefix(name, ".")
	if !ok {
		return "", false
	}
	for _, suffix := range []string{stagedSuffix, scratchSuffix} {
		if instance, ok := strings.CutSuffix(name, suffix); ok {
			return instance, validInstance(instance)
		}
	}
	return "", false
}

// forEachName calls do for each name in a directory, one that is missing
// included, until an error.
func forEachName(dir string, do func(name string) error) error {
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range files {
		if err := do(f.Name()); err != nil {
			return err
		}
	}
	return nil
}

// shownDead reports whether a member, with or without a file, is dead beyond
// doubt: by the kernel, or by olderThan without a beat.
func (o *Observer) shownDead(instance string, olderThan time.Duration) bool {
	r, err := o.Look(instance)
	return err == nil && o.sweepable(instance, r, olderThan)
}
