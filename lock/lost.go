package lock

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// lostPause is the time between two looks while Acquire waits on a registry that
// says nothing.
const lostPause = 50 * time.Millisecond

// proof is what is known when the registry does not name an owner that it
// should be able to name (R9).
type proof struct {
	lost    bool          // the registry is missing or damaged, or the lease in it
	fresh   bool          // nobody can have led in this directory yet
	leaders int           // live members that say they lead, and that no entry names
	waited  time.Duration // for so long the registry was lost under our eyes
	wait    time.Duration // for so long it has to be
}

// mayBegin reports whether surely nobody leads. A registry that was removed or
// damaged proves nothing: whoever led may not have noticed.
func mayBegin(p proof) bool {
	return p.leaders == 0 && (!p.lost || p.fresh || p.waited >= p.wait)
}

// A lostWatch remembers since when the registry was seen to be lost.
type lostWatch struct{ since time.Time }

func (w *lostWatch) note(lost bool) (waited time.Duration) {
	switch {
	case !lost:
		w.since = time.Time{}
	case w.since.IsZero():
		w.since = time.Now()
	default:
		return time.Since(w.since)
	}
	return 0
}

// proof gathers what is known of others' leadership, if the registry r holds no
// readable entry under the key. In all other cases the entry itself is proof.
func (l *Lock) proof(r registry, w *lostWatch) (proof, error) {
	lost := r.lost(l.o.Key)
	p := proof{lost: lost, waited: w.note(lost), wait: max(minLostWait, l.o.OwnershipCheck+time.Second)}
	if _, ok := r.lease(l.o.Key); ok {
		return p, nil
	}
	p.fresh = r.missing && l.o.Member.fresh()
	members, err := l.o.Observer.Members()
	if err != nil {
		return p, err
	}
	for _, m := range members {
		if m.Info.Instance == l.self.instance || m.Dead() || m.Hung(l.o.StaleAfter) {
			continue
		}
		if m.Torn || m.Info.Role == RoleLeader && !r.names(m.Info.Instance) {
			p.leaders++
		}
	}
	return p, nil
}

// keepDamaged copies a damaged registry beside itself before a new one is
// published over it, and returns the copy's name. A rename would not be fenced.
// The name tells day and content, so that a copy made again is the same file. Of
// one that is too large to be read as many bytes are kept as of any other, for
// the guard is held meanwhile.
func (l *Lock) keepDamaged() (string, error) {
	path, err := l.copyDamaged()
	if err != nil {
		return "", fmt.Errorf("keep a copy of the damaged registry: %w", err)
	}
	return path, nil
}

func (l *Lock) copyDamaged() (path string, err error) {
	from, err := os.OpenFile(l.path, os.O_RDONLY|openSafely, 0)
	if err != nil {
		return "", explain(l.path, "read", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	content := io.NewSectionReader(from, 0, maxFileBytes)
	sum := sha256.New()
	if _, err := io.Copy(sum, content); err != nil {
		return "", err
	}
	path = filepath.Join(l.o.Dir, fmt.Sprintf("%s.damaged.%s.%x", registryName, time.Now().UTC().Format("20060102"), sum.Sum(nil)[:4]))
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|openSafely, 0o600)
	if err != nil {
		return "", explain(path, "write the copy", err)
	}
	_, _ = content.Seek(0, io.SeekStart) // cannot fail
	return path, writeSynced(to, content)
}
