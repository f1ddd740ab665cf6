package journal_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tgbridge/internal/journal"
)

func rec(kind journal.Kind, seq uint64) journal.Record { return journal.Record{Kind: kind, Seq: seq} }

func assign(seq uint64, attempt int) journal.Record {
	return journal.Record{Kind: journal.KindAssign, Seq: seq, Attempt: attempt, Member: "m", Name: "n", Term: 5}
}

func released(seq uint64, attempt int) journal.Record {
	return journal.Record{Kind: journal.KindRelease, Seq: seq, Attempt: attempt}
}

func outcome(seq uint64, reply string) journal.Record {
	return journal.Record{Kind: journal.KindOutcome, Seq: seq, Attempt: 1, Body: []byte(reply)}
}

func call(request string, seq uint64) journal.Record {
	return journal.Record{Kind: journal.KindCall, Request: request, Seq: seq, Lane: "l", By: "x", Hash: 3}
}

func result(request, body string) journal.Record {
	return journal.Record{Kind: journal.KindResult, Request: request, Body: []byte(body)}
}

func dead(seq uint64) journal.Record {
	return journal.Record{Kind: journal.KindDead, Seq: seq, Reason: "why"}
}

func confirmed(offset int64, empty bool) journal.Record {
	return journal.Record{Kind: journal.KindConfirmed, Offset: offset, Empty: empty}
}

func TestStates(t *testing.T) {
	// Every row begins with updates 1 to 3 with ids 11 to 13 in lane l.
	entry := func(seq uint64, change func(*journal.Entry)) journal.Entry {
		e := journal.Entry{Seq: seq, Delivery: "dl", ID: 10 + int64(seq), Hash: 1<<63 + 10 + seq, Lane: "l", Size: 2}
		if change != nil {
			change(&e)
		}
		return e
	}
	assigned := func(e *journal.Entry) {
		e.State, e.Attempt, e.Member, e.Name, e.Term = journal.Assigned, 2, "m", "n", 5
	}
	replied := func(e *journal.Entry) { e.State, e.Attempt = journal.Outcome, 1 }
	state := func(s journal.State, reason string) func(*journal.Entry) {
		return func(e *journal.Entry) { e.State, e.Reason = s, reason }
	}
	tests := []struct {
		name    string
		records []journal.Record
		want    *journal.Entry // entry 2; nil: forgotten
		seen    bool           // id 12
	}{
		{"nothing", nil, ptr(entry(2, nil)), true},
		{"the same seq again", []journal.Record{update(2, 99, "x", "{ }")}, ptr(entry(2, nil)), true},
		{"assigned", []journal.Record{assign(2, 2)}, ptr(entry(2, assigned)), true},
		{"assigned again", []journal.Record{assign(2, 1), assign(2, 2)}, ptr(entry(2, assigned)), true},
		{"released", []journal.Record{assign(2, 2), rec(journal.KindRelease, 2)}, ptr(entry(2, func(e *journal.Entry) { e.Attempt = 1 })), true},
		{"released, the attempt counts", []journal.Record{assign(2, 2), released(2, 2)}, ptr(entry(2, func(e *journal.Entry) { e.Attempt = 2 })), true},
		{"released, the one before counts", []journal.Record{assign(2, 2), released(2, 1)}, ptr(entry(2, func(e *journal.Entry) { e.Attempt = 1 })), true},
		{"released, not assigned", []journal.Record{rec(journal.KindRelease, 2)}, ptr(entry(2, nil)), true},
		{"no reply", []journal.Record{outcome(2, "")}, ptr(entry(2, func(e *journal.Entry) { e.State, e.Attempt = journal.Done, 1 })), true},
		{"reply", []journal.Record{outcome(2, "r")}, ptr(entry(2, replied)), true},
		{"reply of an assigned one", []journal.Record{assign(2, 1), outcome(2, "r"), assign(2, 2)}, ptr(entry(2, func(e *journal.Entry) {
			replied(e)
			e.Member, e.Name, e.Term = "m", "n", 5
		})), true},
		{"outcome told twice", []journal.Record{outcome(2, "r"), outcome(2, "s")}, ptr(entry(2, replied)), true},
		{"done", []journal.Record{rec(journal.KindDone, 2)}, ptr(entry(2, state(journal.Done, ""))), true},
		{"done stays so", []journal.Record{rec(journal.KindDone, 2), assign(2, 2), outcome(2, "r"), dead(2)}, ptr(entry(2, state(journal.Done, ""))), true},
		{"done and confirmed", []journal.Record{rec(journal.KindDone, 2), confirmed(13, false)}, nil, false},
		{"done and not confirmed", []journal.Record{rec(journal.KindDone, 2), confirmed(12, false)}, ptr(entry(2, state(journal.Done, ""))), true},
		{"done, ids fell, not empty", []journal.Record{rec(journal.KindDone, 2), confirmed(5, false)}, ptr(entry(2, state(journal.Done, ""))), true},
		{"done, ids fell, empty", []journal.Record{rec(journal.KindDone, 2), confirmed(5, true)}, nil, false},
		{"confirmed, then done", []journal.Record{confirmed(13, false), rec(journal.KindDone, 2)}, ptr(entry(2, state(journal.Done, ""))), true},
		{"pending and confirmed", []journal.Record{confirmed(13, true)}, ptr(entry(2, nil)), true},
		{"dead", []journal.Record{dead(2)}, ptr(entry(2, state(journal.Dead, "why"))), true},
		{"dead stays so", []journal.Record{dead(2), assign(2, 2), outcome(2, "r")}, ptr(entry(2, state(journal.Dead, "why"))), true},
		{"dead with a reply", []journal.Record{outcome(2, "r"), dead(2)}, ptr(entry(2, func(e *journal.Entry) {
			replied(e)
			e.State, e.Reason = journal.Dead, "why"
		})), true},
		{"dead and confirmed", []journal.Record{dead(2), confirmed(13, false)}, ptr(entry(2, state(journal.Dead, "why"))), false},
		{"dead, dismissed", []journal.Record{dead(2), rec(journal.KindDone, 2)}, ptr(entry(2, state(journal.Done, ""))), true},
		{"dead, confirmed, dismissed", []journal.Record{dead(2), confirmed(13, false), rec(journal.KindDone, 2)}, nil, false},
		{"dead, dismissed, confirmed", []journal.Record{dead(2), rec(journal.KindDone, 2), confirmed(13, false)}, nil, false},
		{"third dead letter of two", []journal.Record{dead(2), dead(3), dead(1)}, ptr(entry(2, state(journal.Done, ""))), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			j := takeOver(t, dir, 1, journal.Options{MaxDead: 2})
			for seq := range uint64(3) {
				write(t, j, update(j.Reserve(1), 11+int64(seq), "l", "{}"))
			}
			write(t, j, tt.records...)
			var before string
			for term := uint64(2); term <= 4; term++ {
				var got *journal.Entry
				for _, e := range j.Entries() {
					if e.Seq == 2 {
						got = &e
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Fatalf("before takeover %d (-want +got):\n%s", term, diff)
				}
				if _, seen := j.Seen(12); seen != tt.seen {
					t.Errorf("before takeover %d: seen %v", term, seen)
				}
				if now := dump(t, j); before != "" && now != before {
					t.Errorf("takeover %d changed\n%s\nto\n%s", term, before, now)
				}
				before = dump(t, j)
				j = takeOver(t, dir, term, journal.Options{MaxDead: 2})
			}
			if next := j.Reserve(1); next != 4 {
				t.Errorf("next number %d, want 4", next)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

func TestCalls(t *testing.T) {
	dir := t.TempDir()
	j := takeOver(t, dir, 1, journal.Options{})
	write(t, j, update(j.Reserve(1), 11, "l", "{}"), update(j.Reserve(1), 12, "l", "{}"))
	steps := []struct {
		name    string
		records []journal.Record
		want    string
	}{
		{"begun", []journal.Record{call("a", 1), call("b", 0), call("c", 1), call("d", 2)},
			"a by x of 1, b by x of 0, c by x of 1, d by x of 2"},
		{"begun by another", []journal.Record{{Kind: journal.KindCall, Request: "a", By: "y"}},
			"a by y of 1, b by x of 0, c by x of 1, d by x of 2"},
		{"results", []journal.Record{result("a", `{"ok":true}`), result("b", ""), result("d", "\n"), result("none", "1")},
			`a "{\"ok\":true}", b "", c by x of 1, d "\n"`},
		{"begun after the result", []journal.Record{{Kind: journal.KindCall, Request: "b", By: "y"}},
			`a "{\"ok\":true}", b "", c by x of 1, d "\n"`},
		{"forgotten", []journal.Record{{Kind: journal.KindForget, Request: "b"}, {Kind: journal.KindForget, Request: "none"}},
			`a "{\"ok\":true}", c by x of 1, d "\n"`},
		{"entry done", []journal.Record{rec(journal.KindDone, 1)},
			`a "{\"ok\":true}", c by x of 1, d "\n"`},
		{"entry forgotten", []journal.Record{confirmed(12, false)}, `c by x of 1, d "\n"`},
		{"dead letter confirmed", []journal.Record{dead(2), confirmed(13, false)}, `c by x of 1`},
		{"late result", []journal.Record{result("c", "1")}, `c "1"`},
		{"late result forgotten", []journal.Record{{Kind: journal.KindForget, Request: "c"}}, ``},
	}
	term := uint64(1)
	for _, step := range steps {
		write(t, j, step.records...)
		for range 2 {
			if got := callList(t, j); got != step.want {
				t.Fatalf("%s, term %d: %s, want %s", step.name, term, got, step.want)
			}
			term++
			j = takeOver(t, dir, term, journal.Options{})
		}
	}
}

// callList returns the calls by request, with their results.
func callList(t *testing.T, j *journal.Journal) (list string) {
	t.Helper()
	calls := map[string]journal.CallEntry{}
	for _, c := range j.Calls() {
		calls[c.Request] = c
	}
	for _, request := range []string{"a", "b", "c", "d", "none"} {
		c, ok := calls[request]
		body, err := j.Result(request)
		if (err == nil) != c.Done || err != nil && !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("result of %q: %q, %v", request, body, err)
		}
		if !ok {
			continue
		}
		if list != "" {
			list += ", "
		}
		if c.Done {
			list += fmt.Sprintf("%s %q", request, body)
		} else {
			list += fmt.Sprintf("%s by %s of %d", request, c.By, c.Seq)
		}
	}
	return list
}

func TestFull(t *testing.T) {
	tests := []struct {
		name    string
		options journal.Options
		entries int // that fill it, of 100 bytes
	}{
		{"count", journal.Options{MaxPending: 3}, 3},
		{"bytes", journal.Options{MaxBytes: 150}, 2},
	}
	for _, tt := range tests {
		t.Run("G10 "+tt.name, func(t *testing.T) {
			j := takeOver(t, t.TempDir(), 1, tt.options)
			for i := range tt.entries {
				if j.Full() {
					t.Fatalf("full with %d", i)
				}
				write(t, j, update(j.Reserve(1), int64(i+1), "l", `"`+string(make([]byte, 98))+`"`))
			}
			if !j.Full() {
				t.Fatal("not full")
			}
			write(t, j, rec(journal.KindDone, 1))
			if j.Full() {
				t.Error("still full with one less")
			}
		})
	}
}

func TestSeen(t *testing.T) {
	j := takeOver(t, t.TempDir(), 1, journal.Options{})
	write(t, j, update(1, 7, "a", "1"), update(2, 7, "b", "2"), update(3, 0, "c", "3"), update(4, 0, "d", "4"), dead(4))
	if e, ok := j.Seen(7); !ok || e.Seq != 1 || e.Hash != 1<<63+7 {
		t.Errorf("S15: seen %+v, %v, want the first", e, ok)
	}
	if e, ok := j.Seen(0); ok {
		t.Errorf("id 0 means none, seen %+v", e)
	}
	if e, ok := j.Seen(8); ok {
		t.Errorf("seen %+v", e)
	}
	write(t, j, rec(journal.KindDone, 3))
	if _, err := j.Body(3); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("an entry without id needs no confirmation: %v", err)
	}
}
