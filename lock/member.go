package lock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

// MemberOptions say who a member is.
type MemberOptions struct {
	// Dir is the state directory, shared by all members. It is made with mode
	// 0700 if it is not there, with the directories above it.
	Dir string
	// Instance is the member's random id, never used twice; letters, digits,
	// '-' and '_', at most 128. Empty: a new UUID.
	Instance string
	// Name and Version are for people.
	Name    string
	Version string
	// Role is what the file says at first. Empty: RoleStarting.
	Role Role
	// Heartbeat is how often Run raises the beat. Zero: 1 s.
	Heartbeat time.Duration
	// Logger gets warnings: what does not work here, and files made anew.
	Logger zerolog.Logger
}

// DefaultHeartbeat is how often a member's beat is raised.
const DefaultHeartbeat = time.Second

// A Member is this process's presence in a state directory: a file that it
// holds locked in the kernel. It must be kept until Close: a Member that the
// garbage collector takes looks dead to others. All methods may be used
// concurrently; after Close those that write return os.ErrClosed.
type Member struct {
	dir       string // the state directory
	path      string // of the member's file
	host      Host
	flock     flockFunc
	heartbeat time.Duration
	log       zerolog.Logger

	highest    atomic.Uint64 // term, of all that this process has seen
	runtimes   sync.Map      // key of a lease -> *atomic.Int64, how many Locks were made for it
	freshUntil time.Time     // the directory is new, by our own mkdir; zero if not
	registry   atomic.Bool   // a registry was seen in the directory since

	making sync.Mutex // one at a time makes the file anew or closes; taken before mu
	mu     sync.Mutex // guards what follows; held for nothing longer than a pwrite or a rename
	file   *os.File   // nil after Close
	info   MemberInfo
	beat   uint64
}

// freshFor is how long a directory that we made counts as new: nobody else can
// lead in it before, because everyone else waits at least so long (R9).
const freshFor = minLostWait

// OpenMember makes the member's file in Dir/members and locks it (M1). Where
// kernel locks do not work, it says so once in the log, by name, and goes on:
// the member is then judged by its beat alone.
//
// Errors: an UnusableError if the directory is not writable, or what is in it
// belongs to another user; fs.ErrExist if the instance id was used before;
// errors.ErrUnsupported on Windows.
func OpenMember(o MemberOptions) (*Member, error) {
	return openMember(o, ThisHost(), systemFlock)
}

func openMember(o MemberOptions, host Host, flock flockFunc) (*Member, error) {
	if err := supported(); err != nil {
		return nil, fmt.Errorf("open member: %w", err)
	}
	if o.Dir == "" {
		return nil, errors.New("open member: no state directory given")
	}
	if o.Instance == "" {
		o.Instance = uuid.NewString()
	}
	if !validInstance(o.Instance) {
		return nil, fmt.Errorf("open member: instance id %q: want 1 to 128 letters, digits, '-' or '_'", o.Instance)
	}
	if o.Role == "" {
		o.Role = RoleStarting
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	m := &Member{
		dir: o.Dir, path: filepath.Join(o.Dir, membersDir, o.Instance),
		host: host, flock: flock, heartbeat: o.Heartbeat, log: o.Logger,
		info: MemberInfo{
			Instance: o.Instance, Name: o.Name, PID: host.PID, Host: host.Name, BootID: host.BootID,
			PIDNamespace: host.PIDNamespace, BornAt: host.BornAt, Role: o.Role, Version: o.Version,
		},
	}
	if err := m.open(); err != nil {
		return nil, fmt.Errorf("open member: %w", err)
	}
	return m, nil
}

func (m *Member) open() error {
	made, err := makeStateDir(m.dir)
	if err != nil {
		return err
	}
	if made {
		m.freshUntil = time.Now().Add(freshFor)
	}
	if err := m.makeMembersDir(); err != nil {
		return err
	}
	if _, err := os.Lstat(m.path); err == nil {
		return fmt.Errorf("instance id %s was used before: %w", m.info.Instance, fs.ErrExist)
	}
	excludes, err := locksExclude(m.hidden(scratchSuffix), m.flock)
	if err != nil && !errors.Is(err, errNoLocks) {
		return err
	}
	m.info.Locks = excludes
	if err == nil && !excludes {
		err = errors.New("a lock that is held does not exclude another")
	}
	if err != nil {
		m.tellNoLocks(err)
	}
	if err := m.make(); err != nil {
		return err
	}
	if err := checkOwners(m.dir, m.file); err != nil {
		return errors.Join(err, m.file.Close(), unlink(m.path))
	}
	return nil
}

func (m *Member) tellNoLocks(err error) {
	m.log.Warn().Err(err).Str("path", filepath.Dir(m.path)).
		Msg("kernel locks do not work here: members are judged by their beat alone, a death is seen after stale-after")
}

// makeStateDir makes dir, and tells whether this call's own mkdir made it. A new
// one is on the disk when it returns, so that no later fsync in it is in vain.
func makeStateDir(dir string) (made bool, err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return false, explain(filepath.Dir(dir), "make the state directory", err)
	}
	err = os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return false, checkDir(dir)
	}
	if err != nil {
		return false, explain(dir, "make the state directory", err)
	}
	return true, syncDir(filepath.Dir(dir))
}

func (m *Member) makeMembersDir() error {
	dir := filepath.Dir(m.path)
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return checkDir(dir)
	}
	return explain(dir, "make the members' directory", err)
}

func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return explain(dir, "use the directory", err)
	}
	if !info.IsDir() {
		return &UnusableError{Path: dir, Problem: "is not a directory", Remedy: "move it away"}
	}
	return nil
}

// checkOwners refuses a directory that another user's members use: files are
// 0600, so either side would shut the other out. The own uid is read off a file
// that we made, because some file systems map uids.
func checkOwners(dir string, own *os.File) error {
	info, err := own.Stat()
	if err != nil {
		return err
	}
	uid, ok := ownerOf(info)
	if !ok {
		return nil
	}
	for _, path := range []string{filepath.Join(dir, registryName), filepath.Join(dir, membersDir)} {
		info, err := os.Lstat(path)
		if err != nil {
			continue // missing, or the transaction will say what is wrong
		}
		if theirs, ok := ownerOf(info); ok && theirs != uid {
			return &UnusableError{Path: path,
				Problem: fmt.Sprintf("belongs to uid %d, and what this process makes to uid %d", theirs, uid),
				Remedy:  "run all members as one user"}
		}
	}
	return nil
}

// make creates the member's file under a name that readers skip, locks it, and
// renames it into place, so that nobody ever sees it unlocked. A file that it
// held before is let go after that. The caller holds making, or nobody else
// knows m.
func (m *Member) make() (err error) {
	staged := m.hidden(stagedSuffix)
	f, err := os.OpenFile(staged, os.O_RDWR|os.O_CREATE|os.O_TRUNC|openSafely, 0o600)
	if err != nil {
		return explain(staged, "make the member's file", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), unlink(staged))
		}
	}()
	lockErr := lockOwn(f, m.flock)
	m.mu.Lock()
	defer m.mu.Unlock()
	if lockErr != nil {
		if m.info.Locks {
			m.tellNoLocks(lockErr)
		}
		m.info.Locks = false
	}
	line, err := encodeLine(m.info)
	if err != nil {
		return err
	}
	if err := m.write(f, append(encodeBeat(m.beat), line...), 0); err != nil {
		return err
	}
	if err := os.Rename(staged, m.path); err != nil {
		return fmt.Errorf("put member's file in place: %w", explain(m.path, "put the member's file in place", err))
	}
	old := m.file
	m.file = f
	if old != nil {
		return old.Close()
	}
	return nil
}

// hidden is the path of a file of this member that readers skip.
func (m *Member) hidden(suffix string) string {
	return filepath.Join(filepath.Dir(m.path), "."+filepath.Base(m.path)+suffix)
}

// Instance returns the member's id.
func (m *Member) Instance() string { return filepath.Base(m.path) }

// Info returns the line as the file holds it.
func (m *Member) Info() MemberInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.info
}

// SetRole changes role and joined term, both in the file (written, not synced)
// when it returns nil. On an error the file may say either.
func (m *Member) SetRole(role Role, term uint64) error {
	m.NoteTerm(term)
	return m.change(func(i *MemberInfo) { i.Role, i.Joined = role, term })
}

// SetName changes the name. It fails, and changes nothing, if the name is too
// long for the line.
func (m *Member) SetName(name string) error {
	return m.change(func(i *MemberInfo) { i.Name = name })
}

// NoteTerm raises the highest term that this member has seen, in memory and in
// its file. Lower ones, and what is above MaxTerm, change nothing. A write that
// fails is told in the log: the file is written again with the next change.
func (m *Member) NoteTerm(term uint64) {
	if term > MaxTerm || !m.raise(term) {
		return
	}
	if err := m.change(func(*MemberInfo) {}); err != nil {
		m.log.Warn().Err(err).Uint64("term", term).Msg("highest term not written to the member's file")
	}
}

func (m *Member) raise(term uint64) bool {
	for {
		old := m.highest.Load()
		if term <= old {
			return false
		}
		if m.highest.CompareAndSwap(old, term) {
			return true
		}
	}
}

// runtimesOf counts the Locks that were made of this member for a key.
func (m *Member) runtimesOf(key string) *atomic.Int64 {
	n, _ := m.runtimes.LoadOrStore(key, new(atomic.Int64))
	return n.(*atomic.Int64)
}

// HighestTerm returns the highest term that NoteTerm and SetRole were told.
func (m *Member) HighestTerm() uint64 { return m.highest.Load() }

// change rewrites the line in place.
func (m *Member) change(edit func(*MemberInfo)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		return os.ErrClosed
	}
	info := m.info
	edit(&info)
	info.Term = m.highest.Load()
	line, err := encodeLine(info)
	if err != nil {
		return err
	}
	if err := m.write(m.file, line, lineOffset); err != nil {
		return err
	}
	m.info = info
	return nil
}

// Beat raises the beat (M2): the caller says that what the registry says of this
// member is true, and that it gets on.
func (m *Member) Beat() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		return os.ErrClosed
	}
	m.beat++
	return m.write(m.file, encodeBeat(m.beat), 0)
}

// write writes to the member's file. Its errors name that file, which was opened
// under another name.
func (m *Member) write(f *os.File, content []byte, at int64) error {
	_, err := f.WriteAt(content, at)
	if err == nil {
		return nil
	}
	return explain(m.path, "write the member's file", &fs.PathError{Op: "write member's file", Path: m.path, Err: bare(err)})
}

// Check makes the member's file anew if it is not the one at its path any more
// (M4), and writes it again if somebody damaged it. To be called about once a
// second. After an error the next call tries again.
func (m *Member) Check() error {
	m.making.Lock()
	defer m.making.Unlock()
	m.mu.Lock()
	f := m.file
	m.mu.Unlock()
	if f == nil {
		return os.ErrClosed
	}
	ours, err := f.Stat()
	if err != nil {
		return fmt.Errorf("check member's file: %w", err)
	}
	there, err := os.Lstat(m.path)
	switch {
	case err == nil && os.SameFile(ours, there):
		return m.restore()
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("check member's file: %w", explain(m.path, "look at the member's file", err))
	}
	if err := os.MkdirAll(filepath.Dir(m.path), 0o700); err != nil {
		return fmt.Errorf("check member's file: %w", explain(m.path, "make its directory", err))
	}
	if err := m.make(); err != nil {
		return fmt.Errorf("make member's file anew: %w", err)
	}
	m.log.Warn().Str("path", m.path).Msg("the member's file was gone from its place: made anew")
	return nil
}

// restore writes the file's content again if somebody changed it: the beat alone
// would never say who the member is.
func (m *Member) restore() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	line, err := encodeLine(m.info)
	if err != nil {
		return err
	}
	found := make([]byte, lineBytes)
	n, err := m.file.ReadAt(found, lineOffset)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return fmt.Errorf("check member's file: %w", err)
	case bytes.Equal(found[:n], line):
		return nil
	}
	if err := m.write(m.file, append(encodeBeat(m.beat), line...), 0); err != nil {
		return err
	}
	m.log.Warn().Str("path", m.path).Msg("the member's file was damaged: written again")
	return nil
}

// LocksBelieved reports whether this member found that kernel locks exclude
// here, and holds one on its file.
func (m *Member) LocksBelieved() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.info.Locks
}

// Run raises the beat every heartbeat while alive returns true, and makes the
// file anew if someone removed it, until ctx ends. It returns nil then, and
// earlier only with the error of a file that was closed. It is for callers
// without a loop of their own; alive must be quick.
func (m *Member) Run(ctx context.Context, alive func() bool) error {
	for {
		var err error
		if alive() {
			err = m.Beat()
		}
		if err = errors.Join(err, m.Check()); errors.Is(err, os.ErrClosed) {
			return err
		}
		if err != nil {
			m.log.Warn().Err(err).Dur("next", m.heartbeat).Msg("member's file not written")
		}
		if sleep(ctx, m.heartbeat) != nil {
			return nil
		}
	}
}

// Close drops the kernel lock, so that everyone sees this member dead, and
// leaves its file to the sweeper; a command's file is removed. Release the lease
// before. A second call does nothing.
func (m *Member) Close() error {
	m.making.Lock()
	defer m.making.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		return nil
	}
	var err error
	if m.info.Role == RoleCommand {
		err = unlink(m.path)
	}
	// A child that is being started at this instant has a copy of the descriptor
	// until its exec, so that closing ours alone would not end the lock.
	if m.info.Locks {
		err = errors.Join(err, systemUnlock(m.file))
	}
	err = errors.Join(err, m.file.Close())
	m.file = nil
	return err
}

// fresh reports whether nobody can lead in the directory: this member's own
// mkdir made it, a moment ago, and no registry was seen in it since (R9).
func (m *Member) fresh() bool {
	return time.Now().Before(m.freshUntil) && !m.registry.Load()
}
