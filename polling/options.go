package polling

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"

	"tgbridge/lock"
)

// Defaults of Options.
const (
	DefaultPollTimeout    = 50 * time.Second
	DefaultOwnershipCheck = time.Second
	DefaultStaleAfter     = 5 * time.Second
)

// A Lease is the part of *lock.Lock that a Poller uses; the rules are those of
// package lock. All methods must be safe for concurrent use and return once
// their context ends.
type Lease interface {
	// Acquire asks for the lease (rows A1-A12).
	Acquire(ctx context.Context, mode lock.Mode, expected *lock.Entry) (lock.Result, error)
	// Refresh verifies exact ownership; false forgets it (R1). An error is no
	// answer.
	Refresh(ctx context.Context) (bool, error)
	// Owns verifies exact ownership by a fresh read; fast (R3). An error is no
	// answer.
	Owns() (bool, error)
	// Release gives the lease back if it is exactly ours, and tells what state
	// it found and whether it did (R2).
	Release(ctx context.Context) (lock.State, bool, error)
	// State reads the lease, the zero Entry if there is none, and judges it.
	State() (lock.State, lock.Entry, error)
}

var _ Lease = (*lock.Lock)(nil)

// A Registrar makes this member a follower of whoever leads. Winning the lease
// ends no registration: OnAcquired may, if that is not so already.
type Registrar interface {
	// Follow registers with owner and replaces an earlier registration. An
	// error means that there is none; it may say that the owner refused.
	Follow(ctx context.Context, owner lock.Entry) error
	// Unfollow ends the registration and returns when it is off. Without one
	// it does nothing.
	Unfollow()
}

// Options of a Poller. Lock, Source and Sink are required; zero of everything
// else means what its comment says. None of its functions may call methods of
// the Poller that start or stop.
type Options struct {
	Lock   Lease
	Source Source
	Sink   Sink

	// Registrar may be nil: then a refused start only tells who leads (P5).
	Registrar Registrar
	// Cwd is this member's working directory, as in its lease (P10).
	Cwd string
	// Allowed says, by an error for people to read, that polling is not
	// possible (no token) or not wanted here (P1). Nil allows.
	Allowed func() error
	// RuntimeClosed reports whether the runtime of this process that owner
	// names has been closed without giving its lease back (P2). Nil: none has.
	RuntimeClosed func(owner lock.Entry) bool
	// OnAcquired is called once for each leadership, when the lease is
	// verified and before the first poll; an error rolls the start back. ctx is
	// the leadership: it ends, with the cause, when this member may no longer
	// act as the leader, and OnAcquired must return then. However long it
	// takes, the member counts as making progress; but polling waits for it,
	// so what can go on beside the first poll should.
	OnAcquired func(ctx context.Context, r lock.Result) error
	// BeforeRelease is called in every step-down that gives the lease back or
	// keeps it on purpose, if OnAcquired had succeeded: after the last poll's
	// connection is closed and before the lease is released. It stops
	// dispatching and returns then. ctx is that of Stop or Suspend; in a
	// step-down by itself it ends after StaleAfter, or after a second if the
	// own deadline has passed. When ctx ends it is not waited for any more.
	BeforeRelease func(ctx context.Context)

	// PollTimeout is how long a poll waits at Telegram: whole seconds, 1 s to
	// 50 s, default 50 s.
	PollTimeout time.Duration
	// OwnershipCheck is how often ownership is verified. Default 1 s; at most
	// 2 s and half of StaleAfter.
	OwnershipCheck time.Duration
	// StaleAfter is when other members hold a member without a beat for hung.
	// Default 5 s. The own deadline is 0.8 of it.
	StaleAfter time.Duration
	// AllowedUpdates are the kinds asked for; nil leaves what was asked last.
	AllowedUpdates []string
	// WebhookDelete lets a webhook be deleted, keeping pending updates;
	// otherwise one ends the leadership with ErrWebhookSet.
	WebhookDelete bool

	// TokenProven reports whether any request with this token ever succeeded
	// in this process; from then on a refusal of the token is waited out. Nil:
	// the Poller goes by its own requests. It must not block.
	TokenProven func() bool
	// SetTokenProven is called when a request has succeeded. May be nil. It
	// must not block.
	SetTokenProven func()
	// Rand gives numbers in [0, 1) for the jitter of waits. Nil: math/rand/v2.
	// It must not block.
	Rand func() float64
	// Logger gets role changes and faults; never the token or an update.
	// The zero value logs nothing.
	Logger zerolog.Logger
}

// withDefaults fills in what is zero.
func (o Options) withDefaults() Options {
	if o.Allowed == nil {
		o.Allowed = func() error { return nil }
	}
	if o.RuntimeClosed == nil {
		o.RuntimeClosed = func(lock.Entry) bool { return false }
	}
	if o.OnAcquired == nil {
		o.OnAcquired = func(context.Context, lock.Result) error { return nil }
	}
	if o.BeforeRelease == nil {
		o.BeforeRelease = func(context.Context) {}
	}
	if o.PollTimeout == 0 {
		o.PollTimeout = DefaultPollTimeout
	}
	if o.OwnershipCheck == 0 {
		o.OwnershipCheck = DefaultOwnershipCheck
	}
	if o.StaleAfter == 0 {
		o.StaleAfter = DefaultStaleAfter
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return o
}

// validate checks what must hold together, after withDefaults. All faults are
// told at once.
func (o Options) validate() error {
	var faults []error
	if o.Lock == nil || o.Source == nil || o.Sink == nil {
		faults = append(faults, errors.New("lock, source and sink are required"))
	}
	if o.PollTimeout < time.Second || o.PollTimeout > 50*time.Second || o.PollTimeout%time.Second != 0 {
		faults = append(faults, fmt.Errorf("poll timeout %v: must be whole seconds from 1s to 50s", o.PollTimeout))
	}
	if o.StaleAfter < 0 {
		faults = append(faults, fmt.Errorf("stale-after %v: must be positive", o.StaleAfter))
	}
	if o.OwnershipCheck < 0 || o.OwnershipCheck > min(2*time.Second, o.StaleAfter/2) {
		faults = append(faults, fmt.Errorf("ownership check %v: must be at most 2s and half of stale-after (%v)",
			o.OwnershipCheck, o.StaleAfter))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("polling options: %w", err)
	}
	return nil
}

// ownDeadline is how long a leader may go without a pass of its loop or a
// successful check before it steps down: sooner than others hold it for hung.
func (o Options) ownDeadline() time.Duration { return o.StaleAfter * 8 / 10 }
