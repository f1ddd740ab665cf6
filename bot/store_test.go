package bot_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

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
