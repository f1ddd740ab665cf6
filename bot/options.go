package bot

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"tgbridge/bus"
	"tgbridge/internal/secret"
	"tgbridge/internal/telegram"
)

// Secret is a text that cannot be printed.
type Secret = secret.Secret

// NewSecret returns a Secret that holds text.
func NewSecret(text string) Secret { return secret.New(text) }

// A Route says which members handle updates.
type Route = bus.Route

const (
	// Sticky gives each chat, or topic, to one member.
	Sticky = bus.Sticky
	// ToLeader lets the leader handle everything; the others stand by.
	ToLeader = bus.ToLeader
)

// Options configure a Bridge. Token is required; the zero value of everything
// else is the documented default. All members of a bot must have the same times
// and should have the same of the rest.
type Options struct {
	Token    Secret // of the bot, NUMBER:SECRET
	APIURL   string // of the Bot API server; default https://api.telegram.org
	StateDir string // shared by all members; default $XDG_STATE_HOME/tgbridge, else ~/.local/state/tgbridge; links are followed once, when Run begins
	Name     string // shown in status, decides which lanes the member gets; up to 64 characters; default the working directory's base name
	Version  string // of the program, for status

	AllowedUsers   []int64  // numeric ids of the users whose updates are handled; default nobody
	AllowAll       bool     // a public bot
	AllowedUpdates []string // kinds asked of Telegram; nil: as last time
	WebhookDelete  bool     // delete a webhook that is set (pending updates stay), instead of stopping with ErrWebhookSet

	Route          Route         // default Sticky
	Concurrency    int           // lanes that this member handles at a time; default 16
	HandlerTimeout time.Duration // default 10 minutes
	Attempts       int           // then the update becomes a dead letter; default 3
	Unpaced        bool          // none of our own limits on sending, for servers that have none

	Heartbeat      time.Duration // default 1 s
	StaleAfter     time.Duration // a member without a beat for so long hangs; default 5 s, at least 5 x Heartbeat
	OwnershipCheck time.Duration // default 1 s, at most 2 s and StaleAfter / 2
	PollTimeout    time.Duration // default 50 s, whole seconds from 1 s to 50 s
	RedeliverAfter time.Duration // patience with the work of a member that hangs; default 30 s, at least 2 x StaleAfter

	// Logger's writer must not block: the member logs in the middle of its work,
	// and stands still with a terminal that was stopped by Ctrl-S, or a pipe that
	// nobody reads. Package diode of zerolog keeps such a one apart. Default:
	// nothing is logged.
	Logger zerolog.Logger
}

// maxName leaves room for what a leader adds to a name that is taken.
const maxName = 64

// withDefaults fills in the defaults.
func (o Options) withDefaults() (Options, error) {
	o.APIURL = cmp.Or(o.APIURL, telegram.DefaultAPIURL)
	o.Route = cmp.Or(o.Route, Sticky)
	o.Concurrency = cmp.Or(o.Concurrency, 16)
	o.HandlerTimeout = cmp.Or(o.HandlerTimeout, 10*time.Minute)
	o.Attempts = cmp.Or(o.Attempts, 3)
	o.Heartbeat = cmp.Or(o.Heartbeat, time.Second)
	o.StaleAfter = cmp.Or(o.StaleAfter, 5*time.Second)
	o.OwnershipCheck = cmp.Or(o.OwnershipCheck, time.Second)
	o.PollTimeout = cmp.Or(o.PollTimeout, 50*time.Second)
	o.RedeliverAfter = cmp.Or(o.RedeliverAfter, 30*time.Second)
	if o.Name == "" {
		dir, err := os.Getwd()
		if err != nil {
			return o, fmt.Errorf("default name: %w", err)
		}
		o.Name = filepath.Base(dir)
	}
	if o.StateDir == "" {
		dir, err := defaultStateDir()
		if err != nil {
			return o, err
		}
		o.StateDir = dir
	}
	dir, err := filepath.Abs(o.StateDir)
	if err != nil {
		return o, fmt.Errorf("state directory: %w", err)
	}
	o.StateDir = dir
	return o, nil
}

// defaultStateDir follows the XDG base directory specification, by which a
// relative XDG_STATE_HOME does not count.
func defaultStateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "tgbridge"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", errors.New("state directory: set Options.StateDir, XDG_STATE_HOME or HOME")
	}
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("state directory: HOME (%q) is no absolute path; set Options.StateDir", home)
	}
	return filepath.Join(home, ".local", "state", "tgbridge"), nil
}

// validate checks what must hold together, after withDefaults.
func (o Options) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.Route == Sticky || o.Route == ToLeader, "route %q is neither sticky nor leader", o.Route)
	check(o.Name != "" && utf8.RuneCountInString(o.Name) <= maxName && !strings.ContainsFunc(o.Name, unicode.IsControl),
		"name %q is not 1 to %d characters without control characters", o.Name, maxName)
	check(o.Concurrency >= 1 && o.Concurrency <= 1000, "concurrency %d is not 1 to 1000", o.Concurrency)
	check(o.Attempts >= 1, "attempts %d is less than 1", o.Attempts)
	check(o.HandlerTimeout > 0, "handler timeout %s is not positive", o.HandlerTimeout)
	check(o.Heartbeat > 0 && o.Heartbeat <= o.StaleAfter/5, "heartbeat %s is not within stale-after %s / 5", o.Heartbeat, o.StaleAfter)
	check(o.OwnershipCheck > 0 && o.OwnershipCheck <= min(2*time.Second, o.StaleAfter/2),
		"ownership check %s is not within 2s and stale-after %s / 2", o.OwnershipCheck, o.StaleAfter)
	check(o.RedeliverAfter >= 2*o.StaleAfter, "redeliver-after %s is less than 2 x stale-after %s", o.RedeliverAfter, o.StaleAfter)
	check(o.PollTimeout >= time.Second && o.PollTimeout <= 50*time.Second && o.PollTimeout%time.Second == 0,
		"poll timeout %s is not whole seconds, 1s to 50s", o.PollTimeout)
	for _, id := range o.AllowedUsers {
		check(id > 0, "allowed user %d is not a positive id", id)
	}
	return errors.Join(errs...)
}

// settings are what members compare at join.
func (o Options) settings() bus.Settings {
	return bus.Settings{
		HeartbeatMS:      o.Heartbeat.Milliseconds(),
		StaleAfterMS:     o.StaleAfter.Milliseconds(),
		OwnershipCheckMS: o.OwnershipCheck.Milliseconds(),
		PollTimeoutMS:    o.PollTimeout.Milliseconds(),
		RedeliverAfterMS: o.RedeliverAfter.Milliseconds(),
		Route:            o.Route,
		Access:           accessDigest(o.AllowAll, o.AllowedUsers),
		Kinds:            slices.Sorted(slices.Values(o.AllowedUpdates)),
	}
}
