package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// ErrDamaged says that the registry is there and is not a JSON object: it is
// empty, torn, of another shape, or has more than 16 MiB; or that the lease in
// question has a term above MaxTerm. Only Acquire replaces that, and it keeps a
// copy.
var ErrDamaged = errors.New("registry is damaged")

// ErrOwnerChanged says that the lease is not held by the owner from whom it was
// to be taken. Nothing was changed.
var ErrOwnerChanged = errors.New("owner of the lease has changed")

// An UnusableError says that something stands in the way which this package
// must not remove: a directory in the registry's place, files of another user,
// unknown names in the guard. Nothing was changed. A person has to act; Remedy
// says how.
type UnusableError struct {
	Path    string // what is in the way
	Problem string // what is wrong with it
	Remedy  string // what to do
	Err     error  // the system's error, or nil
}

func (e *UnusableError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v; %s", e.Path, e.Problem, e.Err, e.Remedy)
	}
	return fmt.Sprintf("%s: %s; %s", e.Path, e.Problem, e.Remedy)
}

// Unwrap returns the system's error.
func (e *UnusableError) Unwrap() error { return e.Err }

// IsUnusable reports whether err means that the directory or the registry
// cannot be used until a person has acted: an UnusableError, or any refusal of
// permission and a read-only file system. Trying again does not help.
func IsUnusable(err error) bool {
	var u *UnusableError
	return errors.As(err, &u) || errors.Is(err, fs.ErrPermission) || isReadOnly(err)
}

// A BusyError says that the guard stayed with others for the whole time that a
// transaction waits (3 x stale-after). Nothing was changed; trying again later
// is right.
type BusyError struct {
	Path     string        // of the guard
	Waited   time.Duration // how long this process waited
	Instance string        // of the last holder seen, or ""
	Name     string        // its name, or ""
	PID      int           // its pid in its own PID namespace, or 0
	Host     string        // its host, or ""
}

func (e *BusyError) Error() string {
	holder := "an unknown member"
	if e.PID != 0 {
		holder = fmt.Sprintf("member %q (pid %d on %s, instance %s)", e.Name, e.PID, e.Host, e.Instance)
	}
	return fmt.Sprintf("%s: held by %s for the %s that this process waited; it is taken away by itself once its holder is dead or hung, so look at that process",
		e.Path, holder, e.Waited.Round(time.Millisecond))
}

// explain turns what only a person can put right into an UnusableError: a
// refusal of permission, with the path's owner and this process's user, a file
// system that is read-only, a file in the place of a directory. Other errors come
// back as they are.
func explain(path, verb string, err error) error {
	if err == nil {
		return nil
	}
	if isReadOnly(err) {
		return &UnusableError{Path: path, Problem: "cannot " + verb, Err: bare(err),
			Remedy: "the file system is mounted read-only: make it writable, or give another state directory"}
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return &UnusableError{Path: path, Problem: "cannot " + verb, Err: bare(err),
			Remedy: "move away what stands in the place of one of its directories"}
	}
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return &UnusableError{
		Path:    path,
		Problem: fmt.Sprintf("cannot %s: %s", verb, ownership(path)),
		Remedy:  "run all members as one user, or give the state directory to this one",
		Err:     bare(err),
	}
}

// ownership tells who owns path, or the nearest directory above it that can be
// seen, and who asks.
func ownership(path string) string {
	for at := path; ; {
		if info, err := os.Lstat(at); err == nil {
			if uid, ok := ownerOf(info); ok {
				return fmt.Sprintf("%s belongs to uid %d, mode %04o, this process is uid %d", at, uid, info.Mode().Perm(), os.Geteuid())
			}
			return fmt.Sprintf("this process is uid %d", os.Geteuid())
		}
		up := filepath.Dir(at)
		if up == at {
			return fmt.Sprintf("this process is uid %d", os.Geteuid())
		}
		at = up
	}
}

// bare takes the path off a system error, for messages that name it already.
func bare(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	var l *os.LinkError
	if errors.As(err, &l) {
		return l.Err
	}
	return err
}
