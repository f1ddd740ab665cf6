package journal_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"tgbridge/internal/journal"
)

func TestLines(t *testing.T) {
	tests := []struct {
		name   string
		record journal.Record
		want   string
	}{
		{
			"update",
			journal.Record{
				Kind: journal.KindUpdate, Seq: 7, Delivery: "d7", ID: 9007199254740993, Hash: 18446744073709551615,
				Lane: "-1001557912345/77", Body: []byte(`{"update_id": 1, "a":"<\u00e4>"}`),
			},
			`a391303a {"kind":"update","seq":7,"delivery":"d7","id":9007199254740993,"hash":"18446744073709551615",` +
				`"lane":"-1001557912345/77","body":{"update_id": 1, "a":"<\u00e4>"}}`,
		},
		{
			"outcome that is not JSON",
			journal.Record{Kind: journal.KindOutcome, Seq: 7, Attempt: 2, Body: []byte("a\nb")},
			`96415a49 {"kind":"outcome","seq":7,"attempt":2,"body_base64":"YQpi"}`,
		},
		{
			"what looks like a body, before it and in it",
			journal.Record{
				Kind: journal.KindOutcome, Seq: 7, Lane: `","body":{}`, Name: ",", Reason: `{"body":1},"body":`,
				Body: []byte(`{"a":1,"body":{"body":2}}`),
			},
			`5deae304 {"kind":"outcome","seq":7,"lane":"\",\"body\":{}","name":",","reason":"{\"body\":1},\"body\":",` +
				`"body":{"a":1,"body":{"body":2}}}`,
		},
		{
			"assign",
			journal.Record{Kind: journal.KindAssign, Seq: 7, Attempt: 1, Member: "m", Name: "n", Term: 5},
			`cb1f6ef8 {"kind":"assign","seq":7,"attempt":1,"member":"m","name":"n","term":5}`,
		},
		{
			"confirmed",
			journal.Record{Kind: journal.KindConfirmed, Offset: 12, Empty: true},
			`59b50ced {"kind":"confirmed","offset":12,"empty":true}`,
		},
		{
			"base",
			journal.SnapshotRecord("base", 0, 0, false, 1, 8),
			`afb46de9 {"kind":"base","version":1,"next":8}`,
		},
		{
			"state",
			journal.SnapshotRecord("state", 7, journal.Dead, true, 0, 0),
			`a05c3b3f {"kind":"state","seq":7,"state":"dead","confirmed":true}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			line, err := journal.Line(tt.record)
			if err != nil {
				t.Fatal(err)
			}
			if string(line) != tt.want+"\n" {
				t.Errorf("got  %swant %s", line, tt.want)
			}
			back, err := journal.ParseLine(line)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(back, tt.record) {
				t.Errorf("came back as %+v, want %+v", back, tt.record)
			}
			for i := range line {
				changed := bytes.Clone(line)
				changed[i] ^= 1
				if r, err := journal.ParseLine(changed); err == nil {
					t.Errorf("accepted with byte %d changed: %+v", i, r)
				}
			}
		})
	}
}

func TestInvalidRecordsAreRefused(t *testing.T) {
	tests := []struct {
		name   string
		record journal.Record
	}{
		{"no kind", journal.Record{Seq: 1}},
		{"unknown kind", journal.Record{Kind: "later", Seq: 1}},
		{"kind of snapshots", journal.Record{Kind: "complete"}},
		{"no seq", journal.Record{Kind: journal.KindDone}},
		{"no request", journal.Record{Kind: journal.KindCall}},
		{"lane not UTF-8", journal.Record{Kind: journal.KindUpdate, Seq: 1, Lane: "\xff"}},
		{"too long", journal.Record{Kind: journal.KindOutcome, Seq: 1, Body: make([]byte, journal.MaxLine+1)}},
	}
	j := takeOver(t, t.TempDir(), 1, journal.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			good := update(j.Reserve(1), 1, "lane", "{}")
			if err := tryWrite(j, good, tt.record); !errors.Is(err, journal.ErrInvalid) {
				t.Fatalf("got %v, want ErrInvalid", err)
			}
			if entries := j.Entries(); len(entries) != 0 {
				t.Errorf("the rest of the call is in effect: %+v", entries)
			}
		})
	}
	t.Run("text not UTF-8 is replaced", func(t *testing.T) {
		write(t, j, update(100, 1, "lane", "{}"), journal.Record{Kind: journal.KindDead, Seq: 100, Reason: "a\xffb"})
		if reason := j.DeadLetters()[0].Reason; reason != "a\uFFFDb" {
			t.Errorf("reason %q", reason)
		}
	})
}

// FuzzLine feeds the decoder with objects behind a right checksum, and with
// lines as they are: it never panics, and what it accepts it can write again.
func FuzzLine(f *testing.F) {
	for _, line := range updateLines(f) {
		f.Add([]byte(`{"kind":"update","seq":1,"body":` + line + `}`))
	}
	f.Add([]byte(`{"kind":"state","state":"dead"}`))
	f.Add([]byte(`{"kind":"outcome","body_base64":"YQpi"}`))
	f.Add([]byte(`0,"body":`))
	f.Add([]byte(strings.Repeat("[", 100)))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, line := range [][]byte{data, journal.AppendLine(nil, data)} {
			record, err := journal.ParseLine(line)
			if err != nil {
				continue
			}
			again, err := journal.Line(record)
			if err != nil {
				t.Fatalf("accepted %q, cannot write %+v: %v", data, record, err)
			}
			back, err := journal.ParseLine(again)
			if err != nil {
				t.Fatalf("wrote %q, cannot read it: %v", again, err)
			}
			if len(record.Body) == 0 {
				record.Body, back.Body = nil, nil
			}
			if !reflect.DeepEqual(back, record) {
				t.Fatalf("%+v came back as %+v", record, back)
			}
		}
	})
}
