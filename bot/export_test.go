package bot

import (
	"time"

	"tgbridge/bus"
	"tgbridge/internal/journal"
	"tgbridge/internal/telegram"
	"tgbridge/lock"
)

// Decisions, for their tables.
var (
	HeirDelay    = heirDelay
	EndingOf     = endingOf
	Restored     = restored
	DecodeParams = decodeParams
)

// An Ending is why a member stopped following, or leading.
type Ending = ending

const (
	Begun      = begun
	LeaderDead = leaderDead
	LeaderHung = leaderHung
	LeaderLeft = leaderLeft
	LeaseMoved = leaseMoved
	StreamLost = streamLost
	LedBefore  = ledBefore
)

// LostLeader is the cause with which the watch of a leader ends a Follow.
func LostLeader(e Ending) error { return &leaderLost{e} }

// A Situation has the fields of a situation.
type Situation struct {
	Self    string
	Ended   Ending
	Lost    lock.Entry
	Heirs   []string
	Heir    string
	Present lock.Entry
	Judged  lock.State
	Fails   int
}

// A Plan has the fields of a plan.
type Plan struct {
	Join     bool
	Mode     lock.Mode
	Expected *lock.Entry
	Delay    time.Duration
	Watch    bool
}

// Decide is decide.
func Decide(s Situation) Plan {
	p := decide(situation{
		self: s.Self, present: s.Present, judged: s.Judged,
		past: past{ended: s.Ended, lost: s.Lost, heirs: s.Heirs, heir: s.Heir, fails: s.Fails},
	})
	return Plan{Join: p.join, Mode: p.mode, Expected: p.expected, Delay: p.delay, Watch: p.watch}
}

// SettingsOf are the settings that a member with these options joins with.
func SettingsOf(o Options) bus.Settings {
	o, _ = o.withDefaults()
	return o.settings()
}

// GiveUpAfter makes a member that does not run yet give calls up when Telegram
// cannot be reached for so long, instead of after minutes.
func GiveUpAfter(b *Bridge, d time.Duration) {
	api, err := telegram.NewAPI(b.client, telegram.APIOptions{Unpaced: b.o.Unpaced, MaxWait: d, Check: b.checkLeads, Logger: b.log})
	if err != nil {
		panic(err)
	}
	b.api = api
}

// Sweep is what a leader does now and then. It reports false if b does not lead.
func Sweep(b *Bridge) bool {
	t := b.term.Load()
	if t != nil {
		t.sweep()
	}
	return t != nil
}

// StoredResult returns the result of a call as a leader reads it.
func StoredResult(j *journal.Journal, request string) (bus.CallResult, error) {
	return store{&term{journal: j}}.Result(request)
}
