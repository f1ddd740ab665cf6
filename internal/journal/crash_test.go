package journal_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"tgbridge/internal/journal"
)

// A step of the crash test: records written together, with or without fsync;
// or none, for a takeover. The first writes of it may fail.
type step struct {
	fail    int
	sync    bool
	records []journal.Record
}

// crashSteps goes through every kind of record, with rotations in between (the
// files are small) and takeovers.
func crashSteps() []step {
	return []step{
		{},
		{0, true, []journal.Record{update(1, 11, "a", `{"update_id":11}`), update(2, 12, "b", "{\n}")}},
		{0, false, []journal.Record{assign(1, 1), assign(2, 1)}},
		{0, true, []journal.Record{outcome(1, "first\nreply")}},
		{0, false, []journal.Record{call("p1", 1)}},
		{},
		{0, false, []journal.Record{result("p1", `{"ok":true}`), call("p2", 1)}},
		{0, true, []journal.Record{update(3, 13, "a", `{}`), dead(3), update(4, 14, "b", `[]`)}},
		{0, false, []journal.Record{rec(journal.KindRelease, 2)}},
		{2, true, []journal.Record{call("b", 0)}}, // in a file without a snapshot
		{1, true, []journal.Record{call("a", 2)}}, // in a new one
		{0, true, []journal.Record{result("a", `{"ok":true}`)}},
		{0, true, []journal.Record{result("p2", "1"), rec(journal.KindDone, 1)}},
		{2, false, []journal.Record{confirmed(12, false)}},
		{fail: 1},
		{0, true, []journal.Record{assign(2, 1), outcome(2, "")}},
		{0, false, []journal.Record{confirmed(1, true), {Kind: journal.KindForget, Request: "b"}}},
		{},
	}
}

// references returns what the journal says after each step, as a run without
// faults has it.
func references(t *testing.T, steps []step) []string {
	t.Helper()
	dir := t.TempDir()
	var (
		j    *journal.Journal
		term uint64
		refs []string
	)
	for _, s := range steps {
		if s.records == nil {
			term++
			j = takeOver(t, dir, term, journal.Options{})
		} else {
			write(t, j, s.records...)
		}
		refs = append(refs, dump(t, j))
	}
	return refs
}

// G2: at each operation on the file system, the process is killed or the power
// cut. Whatever was answered is there after the next takeover, nothing that was
// not written is, and the same holds if that takeover is cut short as well. The
// rows of the crash table are all among the states.
func TestG2CrashAtEveryStep(t *testing.T) {
	var (
		steps    = crashSteps()
		refs     = references(t, steps)
		root     = t.TempDir()
		dir      = filepath.Join(root, "state", "journal")
		shadow   = newShadow(t, root)
		now      int // the step that is being made
		answered int // the last step that was answered
		durable  int // the last one that was answered after an fsync
		fail     int // writes that are still to fail in it
		states   = map[string]bool{}
		crashes  []crash
		o        = journal.Options{RotateAt: 300}
	)
	journal.SetFault(&o, func(op, path string) error {
		shadow.observe(op, path)
		for _, loss := range losses {
			from := durable
			if !loss.data && !loss.names {
				from = answered
			}
			at := fmt.Sprintf("step %d, before %s %s, losing %s", now, op, path, loss.name)
			copied := shadow.copy(memDir(t), loss)
			if state := fmt.Sprint(from, now, content(copied)); !states[state] {
				states[state] = true
				crashes = append(crashes, crash{at, copied, refs[from : now+1]})
			}
		}
		if op == "write" && fail > 0 {
			fail--
			return syscall.ENOSPC
		}
		return nil
	})
	var (
		j    *journal.Journal
		term uint64
	)
	for i, s := range steps {
		now, fail = i, s.fail
		if s.records == nil {
			term++
			if j != nil {
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
			}
			j = takeOver(t, dir, term, o)
			durable = i
		} else {
			answer := make(chan error, 1)
			j.Write(s.records, s.sync, func(err error) { answer <- err })
			if err := <-answer; err != nil {
				t.Fatal(err)
			}
			if s.sync {
				durable = i
			}
		}
		answered = i
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d states", len(crashes))
	for i, c := range crashes {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			c.recovers(t)
		})
	}
}

// A crash is a state that was left, and what may be read from it.
type crash struct {
	at, root string
	want     []string // one of these
}

// recovers takes over what was left, cuts that short at each step and takes over
// again.
func (c crash) recovers(t *testing.T) {
	t.Helper()
	var o journal.Options
	journal.SetFault(&o, func(op, path string) error {
		again := filepath.Join(copyTree(t, c.root), "state", "journal")
		mustSay(t, c.at+", then before "+op, again, 101, journal.Options{}, c.want)
		return nil
	})
	mustSay(t, c.at, filepath.Join(c.root, "state", "journal"), 100, o, c.want)
}

func mustSay(t *testing.T, at, dir string, term uint64, o journal.Options, want []string) {
	t.Helper()
	j, err := journal.TakeOver(dir, term, o)
	if err != nil {
		t.Errorf("%s: %v", at, err)
		return
	}
	defer func() { _ = j.Close() }()
	if got := dump(t, j); !slices.Contains(want, got) {
		t.Errorf("%s: got\n%s\nwant one of\n%q", at, got, want)
	}
}
