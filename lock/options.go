package lock

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"tgbridge/internal/secret"
)

// Defaults of Options.
const (
	DefaultStaleAfter     = 5 * time.Second
	DefaultOwnershipCheck = time.Second
)

// maxOwnershipCheck is the largest time between two ownership checks, and
// minLostWait how long nobody begins on a registry that was lost: by then every
// leader has checked, and stepped down (R9).
const (
	maxOwnershipCheck = 2 * time.Second
	minLostWait       = maxOwnershipCheck + time.Second
)

// Options say which lease, for whom, and by which times. The times must be the
// same for all members of a directory.
type Options struct {
	// Dir is the state directory, the member's.
	Dir string
	// Key is the lease's name in the registry.
	Key string
	// Member is who holds the lease. Required.
	Member *Member
	// Observer judges other owners. Give one that already watches, if there is
	// one: a hung owner is known as such only after StaleAfter. Nil: a new one.
	Observer *Observer
	// Cwd is part of the owner's identity. Empty: the working directory.
	Cwd string
	// SocketPath and Secret are published with the lease; both may be empty.
	SocketPath string
	Secret     secret.Secret
	// Heartbeat is how often members raise their beats, StaleAfter how long a
	// beat may stand, OwnershipCheck how often an owner calls Owns or Refresh.
	// Zero: 1 s, 5 s, 1 s. Heartbeat must be at most StaleAfter/5, and
	// OwnershipCheck at most 2 s and StaleAfter/2.
	Heartbeat      time.Duration
	StaleAfter     time.Duration
	OwnershipCheck time.Duration
	// Floor returns the highest term known from elsewhere, such as directories
	// named by term; a new term is higher. What is above MaxTerm does not count,
	// and whoever reads it should say so. It is called inside transactions, maybe
	// more than once, and should be quick. Nil: 0.
	Floor func() (uint64, error)
	// Logger gets what no result tells: guards taken from the dead, a full disk.
	Logger zerolog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.Heartbeat == 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	if o.StaleAfter == 0 {
		o.StaleAfter = DefaultStaleAfter
	}
	if o.OwnershipCheck == 0 {
		o.OwnershipCheck = DefaultOwnershipCheck
	}
	if o.Floor == nil {
		o.Floor = func() (uint64, error) { return 0, nil }
	}
	if err := o.validate(); err != nil {
		return o, err
	}
	if o.Observer == nil {
		o.Observer = NewObserver(ObserverOptions{Dir: o.Dir, Host: o.Member.host, LocksBelieved: o.Member.LocksBelieved()})
	}
	if o.Cwd == "" {
		cwd, err := os.Getwd()
		if err != nil {
			return o, fmt.Errorf("working directory: %w", err)
		}
		o.Cwd = cwd
	}
	return o, nil
}

func (o Options) validate() error {
	switch {
	case o.Dir == "":
		return errors.New("no state directory given")
	case o.Key == "" || !utf8.ValidString(o.Key):
		return fmt.Errorf("key %q: want a text in UTF-8", o.Key)
	case o.Member == nil:
		return errors.New("no member given")
	case o.Heartbeat < 0 || o.StaleAfter < 0 || o.OwnershipCheck < 0:
		return errors.New("times must not be negative")
	case o.Heartbeat > o.StaleAfter/5:
		return fmt.Errorf("heartbeat %s is more than a fifth of stale-after %s: an owner would be taken for hung", o.Heartbeat, o.StaleAfter)
	case o.OwnershipCheck > min(maxOwnershipCheck, o.StaleAfter/2):
		return fmt.Errorf("ownership check %s is more than 2s or half of stale-after %s: an owner would see too late that it lost", o.OwnershipCheck, o.StaleAfter)
	}
	return nil
}
