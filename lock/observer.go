package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// KernelLock is what the kernel says of a member's lock, where it can be
// believed.
type KernelLock int

const (
	// LockUnknown: there is no file, locks do not work for the owner or the
	// observer, or they run under different boots. The beat alone decides.
	LockUnknown KernelLock = iota
	// LockFree: the member is dead.
	LockFree
	// LockHeld: the member's process exists.
	LockHeld
)

// A Reading is what an observer sees of one member.
type Reading struct {
	Info   MemberInfo // zero if !Exists; if Torn, but for the instance
	Exists bool       // there is a file
	Torn   bool       // its line did not parse, also not when read again: it says nothing, in particular not "leads not"
	Kernel KernelLock
	Beat   uint64 // 0 if the digits are none
	// Unmoved is for how long this observer saw the same beat, or no file. A
	// first reading starts it at zero, and so does a gap in which the observer
	// looked at nobody.
	Unmoved time.Duration
}

// Dead reports whether the member is dead for certain: its kernel lock is free,
// and that can be believed.
func (r Reading) Dead() bool { return r.Kernel == LockFree }

// Hung reports whether the member is not known to be dead, and makes no
// progress: its beat, or the absence of its file, stood for staleAfter under
// this observer's eyes.
func (r Reading) Hung(staleAfter time.Duration) bool {
	return !r.Dead() && r.Unmoved >= staleAfter
}

// ObserverOptions say what an observer looks at.
type ObserverOptions struct {
	// Dir is the state directory.
	Dir string
	// Host is who looks. Zero: ThisHost().
	Host Host
	// LocksBelieved: the observer found that kernel locks exclude here
	// (Member.LocksBelieved, LocksExclude). If not, it goes by beats alone.
	LocksBelieved bool
	// MaxGap is the longest time between two readings, of whichever members, that
	// counts as watching. After a longer one, in which the observer itself may
	// have been stopped, and all members with it, Unmoved begins anew. Zero: 2 s.
	MaxGap time.Duration
	// Now is a monotonic clock. Nil: the system's.
	Now func() time.Duration
}

// defaultMaxGap lets an observer that reads every quarter of a heartbeat be slow
// by a factor of eight.
const defaultMaxGap = 2 * time.Second

// An Observer tells of members whether they live and make progress. It
// remembers their beats and when, on its own monotonic clock, they changed; so
// one is kept for the life of a process. Its methods may be used concurrently.
type Observer struct {
	dir      string
	host     Host
	believed bool
	maxGap   time.Duration
	now      func() time.Duration
	flock    flockFunc

	mu      sync.Mutex // guards what follows; never held across I/O
	seen    map[string]sighting
	guard   map[string]sighting // by path
	looked  time.Duration       // at anybody, last
	watched time.Duration       // since when there was no gap
	dead    map[string]Reading  // made after the death: these files do not change any more
}

// A sighting is the last that was seen of something that may change.
type sighting struct {
	mark    string
	changed time.Duration // when the mark was seen to change, or first
	looked  time.Duration // last
}

// NewObserver returns an observer that has seen nothing yet.
func NewObserver(o ObserverOptions) *Observer { return newObserver(o, systemFlock) }

func newObserver(o ObserverOptions, flock flockFunc) *Observer {
	if o.Host == (Host{}) {
		o.Host = ThisHost()
	}
	if o.MaxGap <= 0 {
		o.MaxGap = defaultMaxGap
	}
	if o.Now == nil {
		start := time.Now()
		o.Now = func() time.Duration { return time.Since(start) }
	}
	return &Observer{
		dir: filepath.Join(o.Dir, membersDir), host: o.Host, believed: o.LocksBelieved,
		maxGap: o.MaxGap, now: o.Now, flock: flock,
		seen: map[string]sighting{}, guard: map[string]sighting{}, dead: map[string]Reading{},
	}
}

// tornTries is how often a line that does not parse is read again at once.
const tornTries = 3

// Look reads one member's file and tries its kernel lock, with a shared lock,
// creating nothing (M3). A missing file is a reading like any other, and so is
// what is not a regular file, and an instance id that can be no file's name. An
// error (EMFILE, EIO, EACCES) is no answer.
func (o *Observer) Look(instance string) (Reading, error) {
	if !validInstance(instance) {
		return o.absent(instance), nil
	}
	var mark string
	var r Reading
	for try := 1; ; try++ {
		content, free, err := o.probe(filepath.Join(o.dir, instance), o.believed)
		if errors.Is(err, fs.ErrNotExist) {
			return o.absent(instance), nil
		}
		if err != nil {
			return Reading{}, fmt.Errorf("look at member %s: %w", instance, explain(filepath.Join(o.dir, instance), "read the member's file", err))
		}
		r = Reading{Exists: true}
		mark, r.Info, r.Torn = decodeMember(content)
		r.Info.Instance = instance // the file's name decides, not what a copy says
		if o.believed && r.Info.Locks && r.Info.BootID != "" && r.Info.BootID == o.host.BootID {
			r.Kernel = free
		}
		if !r.Torn || try == tornTries {
			break
		}
	}
	if beat, err := strconv.ParseUint(mark, 10, 64); err == nil {
		r.Beat = beat
	}
	r.Unmoved = o.note(instance, "beat "+mark)
	return r, nil
}

// absent is the reading of a member without a file.
func (o *Observer) absent(instance string) Reading {
	return Reading{Unmoved: o.note(instance, "absent")}
}

// probe reads a member's file and says what its kernel lock is, if that is to be
// tried. Whatever is not a regular file is nobody's, as if there were none.
func (o *Observer) probe(path string, tryLock bool) (content []byte, lock KernelLock, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|openSafely, 0)
	if err != nil {
		if info, lerr := os.Lstat(path); lerr == nil && !info.Mode().IsRegular() {
			err = fs.ErrNotExist
		}
		return nil, LockUnknown, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, LockUnknown, cmp.Or(err, fs.ErrNotExist)
	}
	content = make([]byte, fileBytes)
	n, err := f.ReadAt(content, 0)
	if n < fileBytes && !errors.Is(err, io.EOF) {
		return nil, LockUnknown, err
	}
	content = content[:n]
	if !tryLock {
		return content, LockUnknown, nil
	}
	switch err := o.flock(f, lockShared); {
	case err == nil:
		return content, LockFree, nil
	case errors.Is(err, errHeld):
		return content, LockHeld, nil
	}
	return content, LockUnknown, nil
}

// note compares a mark with the one seen before. Any difference is progress.
func (o *Observer) note(instance, mark string) (unmoved time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	if now-o.looked > o.maxGap {
		o.watched = now
	}
	o.looked = now
	s, known := o.seen[instance]
	if !known || s.mark != mark {
		s = sighting{mark: mark, changed: now}
	}
	s.looked = now
	o.seen[instance] = s
	return now - max(s.changed, o.watched)
}

// unchanged returns for how long the last mark of a member stood, gaps
// included, as seen by this observer.
func (o *Observer) unchanged(instance string) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, known := o.seen[instance]
	if !known {
		return 0
	}
	return o.now() - s.changed
}

// guardStood returns for how long the thing at a guard's place, told by its
// mark, has stood there whenever this observer looked. Gaps count: what is
// taken from a guard's holder is only the right to publish.
func (o *Observer) guardStood(path, mark string) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	s, known := o.guard[path]
	if !known || s.mark != mark {
		s = sighting{mark: mark, changed: now}
		o.guard[path] = s
	}
	return now - s.changed
}

// afterEOF is when a lock that seems held is tried again after its owner's
// stream ended: the kernel closes sockets some time before it drops locks.
var afterEOF = [...]time.Duration{
	200 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond,
	5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
}

// DeadAfterEOF reports whether a member whose stream just ended is dead. Before
// "held" counts as alive the lock is tried again over the next 39 ms (M3). It
// returns false at once where only the beat can tell, and when ctx ends.
func (o *Observer) DeadAfterEOF(ctx context.Context, instance string) bool {
	for try := 0; ; try++ {
		r, err := o.Look(instance)
		switch {
		case err == nil && r.Dead():
			return true
		case err == nil && r.Kernel == LockUnknown && !r.Torn:
			return false
		case try == len(afterEOF) || sleep(ctx, afterEOF[try]) != nil:
			return false
		}
	}
}

// Members returns a reading of every member's file, sorted by instance id. A
// missing directory has none. What is forgotten meanwhile is what was last seen
// long ago.
func (o *Observer) Members() ([]Reading, error) {
	instances, err := o.instances()
	if err != nil {
		return nil, err
	}
	readings := make([]Reading, 0, len(instances))
	for _, instance := range instances {
		r, known := o.knownDead(instance)
		if !known {
			r, err = o.Look(instance)
		}
		if err == nil && !known && r.Dead() {
			r, err = o.lookAtDead(instance)
		}
		if err != nil {
			return nil, err
		}
		if !r.Exists {
			continue // swept since
		}
		readings = append(readings, r)
	}
	o.forget(instances)
	return readings, nil
}

// knownDead returns what is left of a member that was found dead before. Ids are
// never used again, so that it stays so.
func (o *Observer) knownDead(instance string) (Reading, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r, known := o.dead[instance]
	return r, known
}

// lookAtDead reads the file of a member that is dead once more, since what was
// read when that was found may be older than its last change, and remembers it:
// where many have died, elections read only what is new.
func (o *Observer) lookAtDead(instance string) (Reading, error) {
	r, err := o.Look(instance)
	if err == nil && r.Dead() && !r.Torn {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.dead[instance] = r
	}
	return r, err
}

// instances lists the members' directory, sorted.
func (o *Observer) instances() ([]string, error) {
	files, err := os.ReadDir(o.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list members: %w", explain(o.dir, "list the members", err))
	}
	var instances []string
	for _, f := range files {
		if validInstance(f.Name()) && f.Type().IsRegular() {
			instances = append(instances, f.Name())
		}
	}
	return instances, nil
}

// forgetAfter bounds what an observer remembers of members that have no file.
const forgetAfter = 10 * time.Minute

func (o *Observer) forget(present []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	for instance, s := range o.seen {
		if _, there := slices.BinarySearch(present, instance); !there && now-s.looked > forgetAfter {
			delete(o.seen, instance)
		}
	}
	for instance := range o.dead {
		if _, there := slices.BinarySearch(present, instance); !there {
			delete(o.dead, instance)
		}
	}
}

// highestTerm returns the highest term in any member's file, dead ones
// included. No locks are tried: after many crashes there are many files.
func (o *Observer) highestTerm() (uint64, error) {
	instances, err := o.instances()
	if err != nil {
		return 0, err
	}
	var highest uint64
	for _, instance := range instances {
		known, _ := o.knownDead(instance)
		info := known.Info
		for try, torn := 0, !known.Exists; torn && try < tornTries; try++ {
			content, _, err := o.probe(filepath.Join(o.dir, instance), false)
			if errors.Is(err, fs.ErrNotExist) {
				break // swept since
			}
			if err != nil {
				return 0, fmt.Errorf("look at member %s: %w", instance, explain(filepath.Join(o.dir, instance), "read the member's file", err))
			}
			_, info, torn = decodeMember(content)
		}
		highest = max(highest, info.Term, info.Joined)
	}
	return highest, nil
}

// find says what can be seen of an owner: of its member file, or, if it keeps
// none, of its process.
func (o *Observer) find(w owner, staleAfter time.Duration) (finding, error) {
	key := w.instance
	if !validInstance(key) {
		key = strings.Join([]string{"no file", w.instance, w.bootID, w.pidNamespace, strconv.Itoa(w.pid), w.bornAt}, "\x00")
	}
	r, err := o.Look(key)
	if err != nil {
		return finding{}, err
	}
	if r.Exists {
		return finding{file: true, dead: r.Dead(), hung: r.Hung(staleAfter)}, nil
	}
	if w.pid > 0 && o.host.sees(w.bootID, w.pidNamespace) && processGone(w.pid, w.bornAt) {
		return finding{dead: true}, nil
	}
	return finding{hung: r.Hung(staleAfter)}, nil
}

// An owner is of a lease or of a guard.
type owner struct {
	instance             string
	pid                  int
	bootID, pidNamespace string
	bornAt               string
}

func (e Entry) owner() owner {
	return owner{instance: e.InstanceID, pid: e.PID, bootID: e.BootID, pidNamespace: e.PIDNamespace, bornAt: e.BornAt}
}
