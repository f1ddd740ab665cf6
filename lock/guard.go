package lock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
)

// The guard is a directory whose files carry a generation, a UUID, in their
// names:
//
//	locks.json.transaction/owner.<generation>.json   who holds it
//	locks.json.transaction/next.<generation>.json    what will be published
//
// It is made whole in a private directory and put in place by one rename, which
// fails while a non-empty guard stands there. Whatever takes something away
// names the generation that it takes from, so no step can hit another guard
// than the one it means, however late it comes, and all of them can be
// repeated:
//
//	state of the guard's place       left by                       what follows
//	nothing                          release                       the next rename takes it
//	owner and next                   a holder at work, or killed   publish and release; or reclaim: next, owner
//	owner alone                      a holder that published, or   release; or reclaim: owner
//	                                 a reclaimer between its steps
//	next alone                       nobody of ours                reclaim: next
//	empty directory                  a holder or reclaimer between the next rename replaces it
//	                                 its last two steps
//	staged directory, any content    a process killed before the   no authority; swept when its member is dead
//	                                 rename
//
// The new content is published by renaming next out of the guard. Once a
// reclaimer has unlinked next, that fails with ENOENT, for ever: this, and no
// clock, is the fence.
const (
	guardName    = registryName + ".transaction"
	stagedPrefix = guardName + ".staged."
)

// guardFile matches the names of files that a guard may hold.
var guardFile = regexp.MustCompile(`^(?:owner|next)\.([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.json$`)

// parseGuardFile returns the generation in the name of a guard's file.
func parseGuardFile(name string) (generation string, ok bool) {
	m := guardFile.FindStringSubmatch(name)
	if m == nil {
		return "", false
	}
	return m[1], true
}

func ownerFile(generation string) string { return "owner." + generation + ".json" }
func nextFile(generation string) string  { return "next." + generation + ".json" }

// guardOwner is the content of an owner file. It only tells how soon a guard may
// be taken away, and may be missing after a power cut.
type guardOwner struct {
	PID          int    `json:"pid"`
	AcquiredAtMs int64  `json:"acquiredAtMs"`
	Generation   string `json:"generation"`
	InstanceID   string `json:"instanceId,omitempty"`
	BootID       string `json:"bootId,omitempty"`
	PIDNamespace string `json:"pidNamespace,omitempty"`
	BornAt       string `json:"bornAt,omitempty"`
}

func (g guardOwner) owner() owner {
	return owner{instance: g.InstanceID, pid: g.PID, bootID: g.BootID, pidNamespace: g.PIDNamespace, bornAt: g.BornAt}
}

// A guard is one generation of it, staged or in place.
type guard struct {
	generation string
	staged     string // directory before the rename
	place      string // directory after it
}

// stage makes a whole guard beside its place (D1).
func (t *transactor) stage() (guard, error) {
	generation := uuid.NewString()
	g := guard{
		generation: generation,
		staged:     filepath.Join(t.dir, stagedPrefix+t.member.Instance()+"."+generation),
		place:      filepath.Join(t.dir, guardName),
	}
	content, err := json.Marshal(guardOwner{
		PID: t.member.host.PID, AcquiredAtMs: time.Now().UnixMilli(), Generation: generation,
		InstanceID: t.member.Instance(), BootID: t.member.host.BootID,
		PIDNamespace: t.member.host.PIDNamespace, BornAt: t.member.host.BornAt,
	})
	if err != nil {
		return guard{}, fmt.Errorf("encode guard's owner: %w", err)
	}
	err = os.Mkdir(g.staged, 0o700)
	if errors.Is(err, fs.ErrNotExist) { // someone removed the whole state directory
		if err = os.MkdirAll(t.dir, 0o700); err == nil {
			err = os.Mkdir(g.staged, 0o700)
		}
	}
	if err == nil {
		err = writeNew(filepath.Join(g.staged, ownerFile(generation)), content)
	}
	if err == nil {
		err = writeNew(filepath.Join(g.staged, nextFile(generation)), nil)
	}
	if err != nil {
		return guard{}, errors.Join(explain(t.dir, "begin a transaction", err), g.unstage())
	}
	return g, nil
}

// enter puts a staged guard in its place. syscall.Rename, because os.Rename
// refuses a directory as target before it asks the system, and rename(2)
// replaces an empty one.
func (g guard) enter() error {
	for {
		err := syscall.Rename(g.staged, g.place)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return &os.LinkError{Op: "rename", Old: g.staged, New: g.place, Err: err}
		}
	}
}

// unstage removes a guard that was not put in place, whatever there is of it.
func (g guard) unstage() error { return removeGuardFiles(g.staged, g.generation, true) }

// release gives the guard up (D3), also one that is gone or someone else's by
// now: rmdir cannot remove another's guard, which is never empty.
func (g guard) release() error { return removeGuardFiles(g.place, g.generation, true) }

// removeGuardFiles takes one generation out of a guard's directory: next first,
// from which moment it cannot publish, then owner. Either may be gone.
func removeGuardFiles(dir, generation string, andDir bool) error {
	for _, name := range []string{nextFile(generation), ownerFile(generation)} {
		if err := patiently(func() error { return unlink(filepath.Join(dir, name)) }); err != nil {
			return err
		}
	}
	if !andDir {
		return nil
	}
	if err := rmdir(dir); err != nil && !isTaken(err) {
		return err
	}
	return nil
}

// isTaken reports whether err says that something stands in a name's way.
func isTaken(err error) bool {
	return errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) ||
		errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR)
}

// A guardKind is what stands at the guard's place.
type guardKind int

const (
	guardAbsent  guardKind = iota
	guardEmpty             // an empty directory is no guard
	guardOurs              // a directory with well-formed names alone
	guardOld               // a plain file, as older formats use
	guardForeign           // anything else: never touched
)

// A guardView is what a contender sees at the guard's place.
type guardView struct {
	kind        guardKind
	generations []string // of guardOurs, sorted
	foreign     string   // what makes it guardForeign
	mark        string   // differs between any two guards
	holder      guardOwner
}

// lookAtGuard reads what stands at a guard's place. Names alone say what it is;
// the owner file, if it can be read, says who to ask about.
func lookAtGuard(place string) (guardView, error) {
	info, err := os.Lstat(place)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return guardView{kind: guardAbsent}, nil
	case err != nil:
		return guardView{}, err
	case info.Mode().IsRegular():
		return lookAtOldGuard(place, info)
	case !info.IsDir():
		return guardView{kind: guardForeign, foreign: "it is not a directory (" + info.Mode().String() + ")"}, nil
	}
	files, err := os.ReadDir(place)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return guardView{kind: guardAbsent}, nil // replaced just now: looked at again
	}
	if err != nil {
		return guardView{}, err
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name()
	}
	v := classifyGuard(names)
	if v.kind == guardOurs {
		v.holder = readGuardOwner(filepath.Join(place, ownerFile(v.generations[0])))
	}
	return v, nil
}

// classifyGuard says what a directory with these names is.
func classifyGuard(names []string) guardView {
	if len(names) == 0 {
		return guardView{kind: guardEmpty}
	}
	v := guardView{kind: guardOurs}
	for _, name := range names {
		generation, ok := parseGuardFile(name)
		if !ok {
			return guardView{kind: guardForeign, foreign: fmt.Sprintf("it holds %q", name)}
		}
		v.generations = append(v.generations, generation)
	}
	slices.Sort(v.generations)
	v.generations = slices.Compact(v.generations)
	v.mark = "generation " + strings.Join(v.generations, " ")
	return v
}

// lookAtOldGuard reads a plain file at the guard's place (D7).
func lookAtOldGuard(place string, info fs.FileInfo) (guardView, error) {
	content, err := readShared(place)
	if errors.Is(err, fs.ErrNotExist) {
		return guardView{kind: guardAbsent}, nil
	}
	var unusable *UnusableError
	if errors.As(err, &unusable) {
		return guardView{kind: guardForeign, foreign: unusable.Problem}, nil
	}
	if err != nil {
		return guardView{}, err
	}
	v := guardView{kind: guardOld, mark: fmt.Sprintf("file %d %s", inodeOf(info), content)}
	_ = json.Unmarshal(content, &v.holder) // an owner that cannot be read is one that only age removes
	return v, nil
}

// readGuardOwner returns a zero owner for a file that is gone, empty or torn.
func readGuardOwner(path string) guardOwner {
	content, err := readShared(path)
	if err != nil {
		return guardOwner{}
	}
	var g guardOwner
	if json.Unmarshal(content, &g) != nil {
		return guardOwner{}
	}
	return g
}
