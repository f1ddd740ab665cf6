package bot_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tgbridge/bot"
	"tgbridge/bus"
	"tgbridge/internal/secret"
	"tgbridge/lock"
)

// lease is a held lease of that instance and term.
func lease(instance string, term uint64) lock.Entry {
	return lock.Entry{PID: 7, InstanceID: instance, Epoch: term, Generation: 1}
}

func TestDecide(t *testing.T) {
	x4, y5 := lease("x", 4), lease("y", 5)
	released := lock.Entry{Epoch: 4, ReleasedMs: 1}
	heirs := []string{"a", "me", "b"}
	tests := []struct {
		name string
		s    bot.Situation
		want bot.Plan
	}{
		// Somebody leads: join.
		{"start, another leads", bot.Situation{Present: x4, Judged: lock.ActiveElsewhere}, bot.Plan{Join: true}},
		{"start, another runtime of this process leads", bot.Situation{Present: x4, Judged: lock.ActiveHere}, bot.Plan{Join: true}},
		{"S7 joined in vain once", bot.Situation{Present: x4, Judged: lock.ActiveElsewhere, Lost: x4, Fails: 1, Ended: bot.StreamLost},
			bot.Plan{Join: true, Delay: 2 * time.Millisecond}},
		{"S7 joined in vain three times", bot.Situation{Present: x4, Judged: lock.ActiveElsewhere, Lost: x4, Fails: 3, Ended: bot.StreamLost},
			bot.Plan{Join: true, Delay: 8 * time.Millisecond}},
		{"S7 joined in vain for ever", bot.Situation{Present: x4, Judged: lock.ActiveElsewhere, Lost: x4, Fails: 1 << 40, Ended: bot.StreamLost},
			bot.Plan{Join: true, Delay: 500 * time.Millisecond}},
		{"S8 lost the election", bot.Situation{Present: y5, Judged: lock.ActiveElsewhere, Lost: x4, Ended: bot.LeaderDead, Heirs: heirs},
			bot.Plan{Join: true}},
		{"said dead, but it leads", bot.Situation{Present: x4, Judged: lock.ActiveElsewhere, Lost: x4, Ended: bot.LeaderDead, Heirs: heirs},
			bot.Plan{Join: true}},

		// Nobody leads: acquire.
		{"start, nobody ever led", bot.Situation{}, bot.Plan{Mode: lock.Plain}},
		{"start, released", bot.Situation{Present: released}, bot.Plan{Mode: lock.Plain}},
		{"start, the owner is dead", bot.Situation{Present: x4, Judged: lock.Stale}, bot.Plan{Mode: lock.Election, Expected: &x4}},
		{"own lease of an earlier attempt", bot.Situation{Present: lease("me", 4), Judged: lock.ActiveHere},
			bot.Plan{Mode: lock.Election, Expected: ptr(lease("me", 4))}},
		{"leader died, first heir", bot.Situation{Present: x4, Judged: lock.Stale, Lost: x4, Ended: bot.LeaderDead, Heirs: []string{"me", "b"}},
			bot.Plan{Mode: lock.Election, Expected: &x4}},
		{"leader died, second heir", bot.Situation{Present: x4, Judged: lock.Stale, Lost: x4, Ended: bot.LeaderDead, Heirs: heirs},
			bot.Plan{Mode: lock.Election, Expected: &x4, Delay: 21 * time.Millisecond, Watch: true}},
		{"leader hung, not in the roster", bot.Situation{Present: x4, Judged: lock.Stale, Lost: x4, Ended: bot.LeaderHung, Heirs: []string{"a", "b"}},
			bot.Plan{Mode: lock.Election, Expected: &x4, Delay: 22 * time.Millisecond, Watch: true}},
		{"leader died, no roster came", bot.Situation{Present: x4, Judged: lock.Stale, Lost: x4, Ended: bot.LeaderDead},
			bot.Plan{Mode: lock.Election, Expected: &x4}},
		{"the successor died too", bot.Situation{Present: y5, Judged: lock.Stale, Lost: x4, Ended: bot.LeaderDead, Heirs: []string{"me"}},
			bot.Plan{Mode: lock.Election, Expected: &y5}},
		{"leader left", bot.Situation{Present: released, Lost: x4, Ended: bot.LeaderLeft, Heirs: heirs},
			bot.Plan{Mode: lock.Election, Expected: &x4, Delay: 21 * time.Millisecond, Watch: true}},
		{"leader left to me", bot.Situation{Present: released, Lost: x4, Ended: bot.LeaderLeft, Heirs: heirs, Heir: "me"},
			bot.Plan{Mode: lock.Election, Expected: &x4}},
		{"leader left to another", bot.Situation{Present: released, Lost: x4, Ended: bot.LeaderLeft, Heirs: []string{"me", "a"}, Heir: "a"},
			bot.Plan{Mode: lock.Election, Expected: &x4, Delay: time.Second, Watch: true}},
		{"I handed over to anybody", bot.Situation{Present: released, Ended: bot.LedBefore},
			bot.Plan{Mode: lock.Plain, Delay: time.Second, Watch: true}},
		{"I handed over to one", bot.Situation{Present: released, Ended: bot.LedBefore, Heir: "a"},
			bot.Plan{Mode: lock.Plain, Delay: time.Second, Watch: true}},
		{"I lost the lease, which is free again", bot.Situation{Present: released, Ended: bot.LeaseMoved}, bot.Plan{Mode: lock.Plain}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.s.Self = "me"
			if diff := cmp.Diff(tt.want, bot.Decide(tt.s), cmp.AllowUnexported(secret.Secret{})); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

func TestHeirDelay(t *testing.T) {
	tests := []struct {
		name  string
		heirs []string
		ended bot.Ending
		want  time.Duration
	}{
		{"at the start there is nobody to wait for", []string{"a", "b"}, bot.Begun, 0},
		{"first", []string{"me", "a"}, bot.LeaderDead, 0},
		{"second", []string{"a", "me"}, bot.LeaderDead, 21 * time.Millisecond},
		{"third", []string{"a", "b", "me"}, bot.LeaderHung, 22 * time.Millisecond},
		{"not named", []string{"a", "b", "c"}, bot.LeaderLeft, 23 * time.Millisecond},
		{"nobody named", nil, bot.LeaderDead, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := bot.HeirDelay(tt.heirs, "me", tt.ended); got != tt.want {
				t.Errorf("delay %v, want %v", got, tt.want)
			}
		})
	}
}

func TestEndingOf(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want bot.Ending
		heir string
	}{
		{"goodbye", &bus.ByeError{}, bot.LeaderLeft, ""},
		{"goodbye with an heir", fmt.Errorf("follow: %w", &bus.ByeError{Heir: "a"}), bot.LeaderLeft, "a"},
		{"dead", bot.LostLeader(bot.LeaderDead), bot.LeaderDead, ""},
		{"hung", fmt.Errorf("follow: %w", bot.LostLeader(bot.LeaderHung)), bot.LeaderHung, ""},
		{"another term", bus.ErrTermPassed, bot.LeaseMoved, ""},
		{"end of stream", io.EOF, bot.StreamLost, ""},
		{"refused", &bus.Refused{Status: 503, ErrorAnswer: bus.ErrorAnswer{Code: bus.CodeNotLeader}}, bot.StreamLost, ""},
		{"anything else", errors.New("connection reset"), bot.StreamLost, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, heir := bot.EndingOf(tt.err)
			if got != tt.want || heir != tt.heir {
				t.Errorf("ending %v heir %q, want %v and %q", got, heir, tt.want, tt.heir)
			}
		})
	}
}
