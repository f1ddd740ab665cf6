package journal_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tgbridge/internal/journal"
)

// A model is the journal's meaning written down once more, plainly: maps, and
// every rule in the words of the kinds' docstrings.
type model struct {
	entries map[uint64]*modelEntry
	calls   map[string]*modelCall
	died    []uint64 // dead letters in the order in which they became so
	maxDead int
}

type modelEntry struct {
	journal.Entry
	body, reply string
	confirmed   bool
}

type modelCall struct {
	journal.CallEntry
	result string
}

func (m *model) apply(r journal.Record) {
	e := m.entries[r.Seq]
	c := m.calls[r.Request]
	live := e != nil && e.State != journal.Done && e.State != journal.Dead
	open := live && e.State != journal.Outcome
	switch r.Kind {
	case journal.KindUpdate:
		m.entries[r.Seq] = &modelEntry{
			Entry: journal.Entry{Seq: r.Seq, Delivery: r.Delivery, ID: r.ID, Hash: r.Hash, Lane: r.Lane, Size: len(r.Body)},
			body:  string(r.Body),
		}
	case journal.KindAssign:
		if open {
			e.State, e.Attempt, e.Member, e.Name, e.Term = journal.Assigned, r.Attempt, r.Member, r.Name, r.Term
		}
	case journal.KindRelease:
		if open && e.State == journal.Assigned {
			e.State, e.Attempt, e.Member, e.Name, e.Term = journal.Pending, max(e.Attempt-1, 0), "", "", 0
			if r.Attempt > 0 {
				e.Attempt = r.Attempt
			}
		}
	case journal.KindOutcome:
		if open && len(r.Body) == 0 {
			e.Attempt = r.Attempt
			m.done(e)
		} else if open {
			e.State, e.Attempt, e.reply = journal.Outcome, r.Attempt, string(r.Body)
		}
	case journal.KindDone:
		if e != nil {
			m.done(e)
		}
	case journal.KindDead:
		if live {
			e.State, e.Reason = journal.Dead, r.Reason
			m.died = append(m.died, e.Seq)
			if len(m.died) > m.maxDead {
				m.done(m.entries[m.died[0]])
			}
		}
	case journal.KindCall:
		if c == nil {
			m.calls[r.Request] = &modelCall{CallEntry: journal.CallEntry{Request: r.Request, Seq: r.Seq, Lane: r.Lane, By: r.By, Hash: r.Hash}}
		} else if !c.Done {
			c.By = r.By
		}
	case journal.KindResult:
		if c != nil {
			c.Done, c.result = true, string(r.Body)
		}
	case journal.KindForget:
		delete(m.calls, r.Request)
	case journal.KindConfirmed:
		m.confirm(r)
	}
}

func (m *model) done(e *modelEntry) {
	m.died = slices.DeleteFunc(m.died, func(seq uint64) bool { return seq == e.Seq })
	e.State, e.Member, e.Name, e.Term, e.Reason, e.reply = journal.Done, "", "", 0, "", ""
	if e.confirmed {
		m.forget(e)
	}
}

func (m *model) confirm(r journal.Record) {
	for _, e := range m.entries {
		if e.State != journal.Done && e.State != journal.Dead || e.ID >= r.Offset && !r.Empty || e.confirmed {
			continue
		}
		e.confirmed = true
		if e.State == journal.Done {
			m.forget(e)
		} else {
			m.forgetCalls(e.Seq)
		}
	}
}

func (m *model) forget(e *modelEntry) {
	delete(m.entries, e.Seq)
	m.forgetCalls(e.Seq)
}

func (m *model) forgetCalls(seq uint64) {
	maps.DeleteFunc(m.calls, func(_ string, c *modelCall) bool { return c.Seq == seq && c.Done })
}

// String is what dump says of a journal like this.
func (m *model) String() string {
	var b strings.Builder
	live, dead := 0, 0
	for _, seq := range slices.Sorted(maps.Keys(m.entries)) {
		e := m.entries[seq]
		fmt.Fprintf(&b, "%+v body=%q", e.Entry, e.body)
		if e.reply != "" {
			fmt.Fprintf(&b, " reply=%q", e.reply)
		}
		switch e.State {
		case journal.Dead:
			dead++
		case journal.Done:
		default:
			live++
		}
		if e.State != journal.Dead || !e.confirmed {
			b.WriteString(" seen")
		}
		b.WriteByte('\n')
	}
	for _, request := range slices.Sorted(maps.Keys(m.calls)) {
		c := m.calls[request]
		fmt.Fprintf(&b, "%+v", c.CallEntry)
		if c.Done {
			fmt.Fprintf(&b, " result=%q", c.result)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "live %d, dead %d", live, dead)
	return b.String()
}

// TestModel makes random records, rotations, deletions and takeovers and
// compares with the model after each.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := memDir(t)
		o := journal.Options{RotateAt: rapid.SampledFrom([]int64{200, 1000, 1 << 20}).Draw(rt, "rotate at"), MaxDead: 2}
		m := &model{entries: map[uint64]*modelEntry{}, calls: map[string]*modelCall{}, maxDead: o.MaxDead}
		term := uint64(1)
		j := takeOver(t, dir, term, o)
		defer func() { _ = j.Close() }()
		ids := map[int64]bool{0: true}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0:
				term++
				mustDo(t, j.Close())
				j = takeOver(t, dir, term, o)
			case 1:
				names := strings.Fields(files(t, filepath.Join(dir, fmt.Sprint(term))))
				mustDo(t, os.Remove(filepath.Join(dir, fmt.Sprint(term), names[0])))
				mustDo(t, j.Check())
			default:
				recs := rapid.SliceOfN(recordGen(j, ids), 1, 5).Draw(rt, "records")
				write(t, j, recs...)
				for _, r := range recs {
					m.apply(r)
				}
			}
			if got, want := dump(t, j), m.String(); got != want {
				rt.Fatalf("got\n%s\nwant\n%s", got, want)
			}
		}
	})
}

// recordGen makes records about few entries and calls, so that they meet.
func recordGen(j *journal.Journal, ids map[int64]bool) *rapid.Generator[journal.Record] {
	kinds := []journal.Kind{
		journal.KindUpdate, journal.KindUpdate, journal.KindUpdate, journal.KindAssign, journal.KindAssign, journal.KindRelease,
		journal.KindOutcome, journal.KindDone, journal.KindDead,
		journal.KindCall, journal.KindResult, journal.KindForget, journal.KindConfirmed,
	}
	return rapid.Custom(func(rt *rapid.T) journal.Record {
		r := journal.Record{Kind: rapid.SampledFrom(kinds).Draw(rt, "kind")}
		r.Seq = rapid.Uint64Range(1, 12).Draw(rt, "seq")
		text := rapid.SampledFrom([]string{"", "x", "{}", "a\nb", "\xff"})
		switch r.Kind {
		case journal.KindUpdate:
			r.ID = rapid.Int64Range(1, 100).Draw(rt, "id") // ids may fall
			for ids[r.ID] {
				r.ID += 100
			}
			ids[r.ID] = true
			r.Seq, r.Hash, r.Delivery, r.Lane = j.Reserve(1), 1<<60, "d", "l"
			r.Body = []byte(text.Filter(func(s string) bool { return s != "" }).Draw(rt, "body"))
		case journal.KindAssign:
			r.Attempt, r.Member, r.Name, r.Term = rapid.IntRange(0, 3).Draw(rt, "attempt"), "m", "n", 9
		case journal.KindRelease:
			r.Attempt = rapid.IntRange(0, 3).Draw(rt, "attempt")
		case journal.KindOutcome:
			r.Attempt, r.Body = 1, []byte(text.Draw(rt, "reply"))
		case journal.KindDead:
			r.Reason = "why"
		case journal.KindCall:
			r.Request, r.Seq, r.By = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "request"), rapid.Uint64Range(0, 12).Draw(rt, "of"), "y"
		case journal.KindResult, journal.KindForget:
			r.Request, r.Seq, r.Body = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "request"), 0, []byte(text.Draw(rt, "result"))
		case journal.KindConfirmed:
			r.Seq, r.Offset = 0, rapid.Int64Range(0, 150).Draw(rt, "offset")
			r.Empty = rapid.IntRange(0, 4).Draw(rt, "empty") == 0
		}
		return r
	})
}
