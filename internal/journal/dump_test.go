package journal_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tgbridge/internal/journal"
)

// dump returns all that lookups say, so that two journals can be compared.
func dump(t testing.TB, j *journal.Journal) string {
	t.Helper()
	var b strings.Builder
	get := func(what string, body []byte, err error) {
		if errors.Is(err, journal.ErrDamaged) {
			fmt.Fprintf(&b, " %s lost", what)
		} else if err != nil {
			t.Errorf("%s: %v", what, err)
		} else {
			fmt.Fprintf(&b, " %s=%q", what, body)
		}
	}
	for _, e := range j.Entries() {
		fmt.Fprintf(&b, "%+v", e)
		body, err := j.Body(e.Seq)
		get("body", body, err)
		if e.Size != len(body) {
			t.Errorf("entry %d: size %d of %q", e.Seq, e.Size, body)
		}
		if reply, err := j.Reply(e.Seq); e.State == journal.Outcome || err == nil {
			get("reply", reply, err)
		} else if !errors.Is(err, journal.ErrNotFound) && !errors.Is(err, journal.ErrDamaged) {
			t.Errorf("reply %d: %v", e.Seq, err)
		}
		if s, ok := j.Seen(e.ID); ok && s.Seq == e.Seq {
			b.WriteString(" seen")
		}
		b.WriteByte('\n')
	}
	calls := j.Calls()
	slices.SortFunc(calls, func(a, b journal.CallEntry) int { return strings.Compare(a.Request, b.Request) })
	for _, c := range calls {
		fmt.Fprintf(&b, "%+v", c)
		if c.Done {
			result, err := j.Result(c.Request)
			get("result", result, err)
		}
		b.WriteByte('\n')
	}
	pending, bytes := j.Live()
	fmt.Fprintf(&b, "live %d, dead %d", pending, len(j.DeadLetters()))
	if (pending == 0) != (bytes == 0) && !strings.Contains(b.String(), " body lost") {
		t.Errorf("%d pending hold %d bytes", pending, bytes)
	}
	return b.String()
}
