package lock_test

import (
	"slices"
	"testing"
	"time"

	"tgbridge/lock"
)

// TestAcquireTable is rows A1 to A12, each with all that may vary beside it.
func TestAcquireTable(t *testing.T) {
	const (
		inactive, here, elsewhere, stale = lock.Inactive, lock.ActiveHere, lock.ActiveElsewhere, lock.Stale
		plain, force, election           = lock.Plain, lock.Force, lock.Election
	)
	tests := []struct {
		name                        string
		mode                        lock.Mode
		state                       lock.State
		exact, expected, supersedes bool
		want                        string
	}{
		{"A1 plain, inactive", plain, inactive, false, false, false, "take"},
		{"A2 plain, stale", plain, stale, false, false, false, "take"},
		{"A3 plain, exact", plain, here, true, false, false, "keep"},
		{"A3 force, exact, also expected", force, here, true, true, true, "keep"},
		{"A3 election, exact", election, here, true, false, false, "keep"},
		{"A4 plain, elsewhere", plain, elsewhere, false, false, false, "refuse"},
		{"A4 plain, elsewhere, expected", plain, elsewhere, false, true, false, "refuse"},
		{"A4 plain, here", plain, here, false, false, false, "refuse"},
		{"A4 plain, here, older runtime", plain, here, false, true, true, "refuse"},
		{"A5 force, elsewhere, expected", force, elsewhere, false, true, false, "take"},
		{"A6 force, elsewhere, not expected", force, elsewhere, false, false, false, "refuse"},
		{"A7 election, inactive", election, inactive, false, false, false, "take"},
		{"A8 election, stale, expected", election, stale, false, true, false, "take"},
		{"A9 election, stale, another", election, stale, false, false, false, "refuse"},
		{"A9 election, elsewhere, expected", election, elsewhere, false, true, false, "refuse"},
		{"A9 election, here, expected", election, here, false, true, true, "refuse"},
		{"A10 force, here, expected, older", force, here, false, true, true, "take"},
		{"A11 force, here, expected, younger", force, here, false, true, false, "refuse"},
		{"A11 force, here, older, not expected", force, here, false, false, true, "refuse"},
		{"A12 force, inactive", force, inactive, false, false, false, "take"},
		{"A12 force, stale, none expected", force, stale, false, false, false, "take"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := lock.Decide(tt.mode, tt.state, tt.exact, tt.expected, tt.supersedes); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

var (
	here = lock.Runtime{
		Host:     lock.Host{PID: 7, Name: "h", BootID: "b1", PIDNamespace: "pid:[1]", BornAt: "100"},
		Instance: "me", Cwd: "/w", Generation: 50,
	}
	mine = lock.Entry{
		PID: 7, Cwd: "/w", InstanceID: "me", Epoch: 3, Generation: 50,
		Host: "h", BootID: "b1", PIDNamespace: "pid:[1]", BornAt: "100",
	}
)

func with(e lock.Entry, change func(*lock.Entry)) lock.Entry {
	change(&e)
	return e
}

func TestJudge(t *testing.T) {
	other := with(mine, func(e *lock.Entry) { e.InstanceID, e.PID, e.BornAt = "other", 8, "200" })
	runtime := with(mine, func(e *lock.Entry) { e.InstanceID = "other" })
	tests := []struct {
		name       string
		entry      lock.Entry
		dead, hung bool
		want       lock.State
	}{
		{"no entry", lock.Entry{}, false, false, lock.Inactive},
		{"released", lock.Entry{Epoch: 3, ReleasedMs: 1}, true, true, lock.Inactive},
		{"same member", mine, false, false, lock.ActiveHere},
		{"same member, own beat stands", mine, false, true, lock.ActiveHere},
		{"other member of this process", runtime, false, false, lock.ActiveHere},
		{"other member of this process, closed or before an exec", runtime, true, false, lock.Stale},
		{"other member of this process, whose beat stands", runtime, false, true, lock.Stale},
		{"same pid, other birth", with(runtime, func(e *lock.Entry) { e.BornAt = "99" }), false, false, lock.ActiveElsewhere},
		{"same pid and birth, other PID namespace", with(runtime, func(e *lock.Entry) { e.PIDNamespace = "pid:[2]" }), false, false, lock.ActiveElsewhere},
		{"same pid and birth, other boot", with(runtime, func(e *lock.Entry) { e.BootID = "b2" }), false, false, lock.ActiveElsewhere},
		{"same pid, namespaces unknown", with(runtime, func(e *lock.Entry) { e.PIDNamespace = "" }), false, false, lock.ActiveElsewhere},
		{"lives", other, false, false, lock.ActiveElsewhere},
		{"dead", other, true, false, lock.Stale},
		{"hung", other, false, true, lock.Stale},
		{"epoch is a text, lives", with(other, func(e *lock.Entry) { e.Epoch, e.ForeignEpoch = 0, `"x"` }), false, false, lock.ActiveElsewhere},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := here.Judge(tt.entry, tt.dead, tt.hung); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestR10Adoptable(t *testing.T) {
	tests := []struct {
		name   string
		change func(*lock.Entry)
		want   bool
	}{
		{"own", func(e *lock.Entry) {}, true},
		{"no cwd", func(e *lock.Entry) { e.Cwd = "" }, true},
		{"no instance", func(e *lock.Entry) { e.InstanceID = "" }, true},
		{"no generation", func(e *lock.Entry) { e.Generation = 0 }, true},
		{"no term", func(e *lock.Entry) { e.Epoch = 0 }, true},
		{"other cwd", func(e *lock.Entry) { e.Cwd = "/x" }, false},
		{"other instance", func(e *lock.Entry) { e.InstanceID = "x" }, false},
		{"older generation", func(e *lock.Entry) { e.Generation = 49 }, false},
		{"other pid", func(e *lock.Entry) { e.PID = 8 }, false},
		{"no instance, other birth", func(e *lock.Entry) { e.InstanceID, e.BornAt = "", "99" }, false},
		{"no instance, other PID namespace", func(e *lock.Entry) { e.InstanceID, e.PIDNamespace = "", "pid:[2]" }, false},
		{"no instance, other boot", func(e *lock.Entry) { e.InstanceID, e.BootID = "", "b2" }, false},
		{"term is a text", func(e *lock.Entry) { e.ForeignEpoch = `"3"` }, false},
		{"released", func(e *lock.Entry) { e.PID = 0 }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := here.Adoptable(with(mine, tt.change)); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestA10Supersedes(t *testing.T) {
	tests := []struct {
		name   string
		change func(*lock.Entry)
		want   bool
	}{
		{"older", func(e *lock.Entry) { e.Generation = 49 }, true},
		{"no generation", func(e *lock.Entry) { e.Generation = 0 }, true},
		{"no cwd", func(e *lock.Entry) { e.Generation, e.Cwd = 49, "" }, true},
		{"equal", func(e *lock.Entry) {}, false},
		{"younger", func(e *lock.Entry) { e.Generation = 51 }, false},
		{"other cwd", func(e *lock.Entry) { e.Generation, e.Cwd = 49, "/x" }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := here.Supersedes(with(mine, tt.change)); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestSameOwner(t *testing.T) {
	tests := []struct {
		name   string
		change func(*lock.Entry)
		want   bool
	}{
		{"all equal", func(e *lock.Entry) { e.HeartbeatMs, e.Name, e.BusSocketPath, e.Version = 9, "n", "s", "v" }, true},
		{"pid", func(e *lock.Entry) { e.PID = 8 }, false},
		{"cwd", func(e *lock.Entry) { e.Cwd = "/x" }, false},
		{"instance", func(e *lock.Entry) { e.InstanceID = "x" }, false},
		{"epoch", func(e *lock.Entry) { e.Epoch = 4 }, false},
		{"epoch as text", func(e *lock.Entry) { e.ForeignEpoch = `"3"` }, false},
		{"generation", func(e *lock.Entry) { e.Generation = 51 }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := with(mine, tt.change)
			if mine.SameOwner(o) != tt.want || o.SameOwner(mine) != tt.want {
				t.Errorf("got %v, want %v", mine.SameOwner(o), tt.want)
			}
		})
	}
	if (lock.Entry{}).SameOwner(lock.Entry{}) || mine.SameOwner(lock.Entry{}) {
		t.Error("a missing side is the same")
	}
}

func TestD4MayReclaim(t *testing.T) {
	const stale = 5 * time.Second
	tests := []struct {
		name        string
		dead, stuck bool
		stood       time.Duration
		want        bool
	}{
		{"D4 dead, at once", true, false, 0, true},
		{"D4 beat stands, guard is new", false, true, 0, false},
		{"D4 beat stands, guard before stale-after", false, true, stale - 1, false},
		{"D4 beat stands, guard at stale-after", false, true, stale, true},
		{"D4 lives, guard at stale-after", false, false, stale, false},
		{"D4 lives, guard before twice that", false, false, 2*stale - 1, false},
		{"D4 whoever owns it, at twice that", false, false, 2 * stale, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := lock.MayReclaim(tt.dead, tt.stuck, tt.stood, stale); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestR9MayBegin(t *testing.T) {
	const wait = 3 * time.Second
	tests := []struct {
		name        string
		lost, fresh bool
		leaders     int
		waited      time.Duration
		want        bool
	}{
		{"R9 registry is there", false, false, 0, 0, true},
		{"R9 registry without the entry, an unnamed leader", false, false, 1, 0, false},
		{"R9 lost, just now", true, false, 0, 0, false},
		{"R9 lost, before the time", true, false, 0, wait - 1, false},
		{"R9 lost, at the time", true, false, 0, wait, true},
		{"R9 lost, at the time, a live leader", true, false, 1, time.Hour, false},
		{"R9 new directory", true, true, 0, 0, true},
		{"R9 new directory, a live leader all the same", true, true, 1, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := lock.MayBegin(tt.lost, tt.fresh, tt.leaders, tt.waited, wait); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestD2Names(t *testing.T) {
	const g, h = "0f8fad5b-d9cb-469f-a165-70867728950e", "7c9e6679-7425-40de-944b-e07fc1f90ae7"
	tests := []struct {
		name        string
		names       []string
		kind        string
		generations []string
	}{
		{"empty", nil, "empty", nil},
		{"whole", []string{"owner." + g + ".json", "next." + g + ".json"}, "ours", []string{g}},
		{"owner alone", []string{"owner." + g + ".json"}, "ours", []string{g}},
		{"next alone", []string{"next." + g + ".json"}, "ours", []string{g}},
		{"two generations", []string{"owner." + h + ".json", "next." + g + ".json"}, "ours", []string{g, h}},
		{"foreign file", []string{"owner." + g + ".json", "notes.txt"}, "foreign", nil},
		{"no generation", []string{"owner.json"}, "foreign", nil},
		{"upper case", []string{"owner.0F8FAD5B-D9CB-469F-A165-70867728950E.json"}, "foreign", nil},
		{"suffix", []string{"owner." + g + ".json.tmp"}, "foreign", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kind, generations := lock.ClassifyGuard(tt.names)
			if kind != tt.kind || !slices.Equal(generations, tt.generations) {
				t.Errorf("got %s %v, want %s %v", kind, generations, tt.kind, tt.generations)
			}
		})
	}
}
