package bot_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tgbridge/bot"
	"tgbridge/bus"
	"tgbridge/internal/journal"
)

// TestS16ResultLost: a call whose result is lost was made, and is not made again:
// its outcome is unknown, before and after the journal begins a new file.
func TestS16ResultLost(t *testing.T) {
	dir := t.TempDir()
	j, err := journal.TakeOver(dir, 1, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	written := make(chan error, 1)
	j.Write([]journal.Record{
		{Kind: journal.KindCall, Request: "r"},
		{Kind: journal.KindResult, Request: "r", Body: []byte(`{"status":200,"body":{"ok":true}}`)},
	}, true, func(err error) { written <- err })
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if r, err := bot.StoredResult(j, "r"); err != nil || r.Status != 200 {
		t.Fatalf("result %+v, %v", r, err)
	}
	if err := os.Truncate(filepath.Join(dir, "1", "1.log"), 0); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"before", "after"} {
		r, err := bot.StoredResult(j, "r")
		var answer bus.ErrorAnswer
		if err != nil || json.Unmarshal(r.Body, &answer) != nil || r.Status != 502 || answer.Code != bus.CodeUnknown {
			t.Errorf("%s the new file: %+v, %v, want an unknown outcome", when, r, err)
		}
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReplyUnreadable: a stored reply that nobody can read, as another version may
// have written it, is a dead letter that says so; its lane goes on.
func TestReplyUnreadable(t *testing.T) {
	f, server := newFleet(t)
	j, err := journal.TakeOver(filepath.Join(f.dir(), "journal"), 1, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const lane = "chat:42"
	written := make(chan error, 1)
	j.Write([]journal.Record{
		{Kind: journal.KindUpdate, Seq: 1, Delivery: "d1", ID: 1, Lane: lane, Attempt: 1, Body: []byte(`{"update_id":1}`)},
		{Kind: journal.KindOutcome, Seq: 1, Body: []byte(`{"text":{"parts":[]}}`)},
	}, true, func(err error) { written <- err })
	if err := errors.Join(<-written, j.Close()); err != nil {
		t.Fatal(err)
	}
	f.run(f.options("m1"), echo("m1"))
	say(t, server, 42, "hello")
	waitSent(t, server, 10*time.Second, "m1 hello")
	f.waitPending(0)
	if n := f.status().DeadLetters; n != 1 {
		t.Errorf("%d dead letters, want 1", n)
	}
	if n := strings.Count(f.output.String(), "its reply cannot be read"); n != 1 {
		t.Errorf("told %d times, want once", n)
	}
}
