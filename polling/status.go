package polling

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// What Status.State may say.
const (
	StateOff          = "off"          // this member does not lead
	StateStarting     = "starting"     // acquired, polling has not begun
	StatePolling      = "polling"      // and Telegram answers
	StateFull         = "full"         // enough is pending, nothing is fetched
	StateConflict     = "conflict"     // another program polls
	StateWebhook      = "webhook"      // a webhook is set and being deleted
	StateUnauthorized = "unauthorized" // the token is refused
	StateWaiting      = "waiting"      // another failure is waited out
	StateLeaving      = "leaving"      // stepping down
)

const (
	// complainEvery is how often one kind of fault is told at warn level.
	complainEvery = time.Minute
	// accepted is how long a poll must have waited to show that it is not
	// refused any more: refusals are at most 3 s late.
	accepted = 5 * time.Second
)

// Status is a snapshot for people and for status commands. It holds neither
// the token nor updates.
type Status struct {
	State string // one of the State constants
	Term  uint64 // of the present leadership, or else the last; 0 before the first
	// LastPoll is the wall-clock time of the last poll that Telegram answered
	// with updates or with none; zero if there was none.
	LastPoll time.Time
	// LastError is the last failure, fit for a terminal; "" once a poll
	// succeeded. ErrorSince is when failures in a row began.
	LastError  string
	ErrorSince time.Time
	// Conflicts counts the polls that were refused or ended because somebody
	// else polled, since the Poller was made.
	Conflicts int
	// Offset is what the next poll confirms, if HasOffset.
	Offset    int64
	HasOffset bool
}

// A board collects what Status shows, and when which fault was told. It lives
// as long as the Poller: a new leadership does not tell everything again.
type board struct {
	logger zerolog.Logger

	mu     sync.Mutex // guards the rest; taken last
	status Status     // without State
	fault  fault
	told   map[fault]time.Time
	// conflicted is when the last conflict was met.
	conflicted time.Time
}

// begin is told when a leadership begins.
func (b *board) begin(term uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Term = term
	b.status.Offset, b.status.HasOffset = 0, false
	b.clear()
}

// clear forgets the present fault. The caller holds mu.
func (b *board) clear() {
	b.fault = noFault
	b.status.LastError, b.status.ErrorSince = "", time.Time{}
}

// answered is told of each answered poll, with the course after it.
func (b *board) answered(c course) {
	b.mu.Lock()
	b.status.LastPoll = time.Now().Round(0)
	b.status.Offset, b.status.HasOffset = c.offset, c.hasOffset
	kind := b.fault
	b.mu.Unlock()
	if c.fault == noFault {
		b.resolved(kind)
	}
}

// resolved is told when what one kind of fault prevents has succeeded.
func (b *board) resolved(kind fault) {
	b.mu.Lock()
	over := b.fault == kind && kind != noFault
	since := b.status.ErrorSince
	if over {
		b.clear()
	}
	b.mu.Unlock()
	if over {
		b.logger.Info().Dur("after", time.Since(since)).Msg("polling works again")
	}
}

// failed records and tells a failure: at warn level once a minute for each
// kind (F7), else at debug level; of conflicts not the first, as a single one
// does no harm and has many reasons. wait is what comes before the next try.
func (b *board) failed(kind fault, err error, wait time.Duration) {
	level, s := b.record(kind, err)
	// Outside the mutex: a log that blocks must block nobody else (S12).
	b.logger.WithLevel(level).
		Str("error", s.LastError).
		Dur("retry_in", wait).
		Int("conflicts", s.Conflicts).
		Msg(faultTexts[kind])
}

// record records a failure, and says at which level it is told.
func (b *board) record(kind fault, err error) (zerolog.Level, Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.fault == noFault {
		b.status.ErrorSince = now.Round(0)
	}
	single := kind == conflict && b.fault != conflict && now.Sub(b.conflicted) >= complainEvery
	b.fault = kind
	b.status.LastError = printable(err.Error())
	if kind == conflict {
		b.status.Conflicts++
		b.conflicted = now
	}
	if single {
		return zerolog.DebugLevel, b.status
	}
	if told, ever := b.told[kind]; ever && now.Sub(told) < complainEvery {
		return zerolog.DebugLevel, b.status
	}
	b.told[kind] = now
	return zerolog.WarnLevel, b.status
}

// snapshot is the status at the given progress.
func (b *board) snapshot(p Progress, now time.Time) Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.status
	s.State = stateName(p, b.fault, now)
	return s
}

// stateName finds the word for a leadership's state. A fault is shown until a
// poll has succeeded, also while the next try is under way; unless Telegram
// was reached and lets that try wait.
func stateName(p Progress, f fault, now time.Time) string {
	switch {
	case !p.Leading || p.Unexercised:
		return StateOff
	case p.Phase == PhaseLeaving:
		return StateLeaving
	case p.Phase == PhaseStarting:
		return StateStarting
	case p.Phase == PhaseFull:
		return StateFull
	case f != unreachable && p.Phase == PhasePolling && now.Sub(p.Since) >= accepted:
		return StatePolling
	}
	switch f {
	case noFault:
		return StatePolling
	case conflict:
		return StateConflict
	case webhook:
		return StateWebhook
	case tokenRefused:
		return StateUnauthorized
	default:
		return StateWaiting
	}
}
