package bot_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tgbridge/bot"
	"tgbridge/bus"
	"tgbridge/internal/journal"
)

func TestDecodeParams(t *testing.T) {
	const (
		asJSON = "application/json"
		asForm = "application/x-www-form-urlencoded"
	)
	tests := []struct {
		name, contentType, body string
		want                    map[string]string
		err                     string
	}{
		{"nothing", "", "", map[string]string{}, ""},
		{"nothing, of a type", "image/png", "", map[string]string{}, ""},
		{"object", asJSON, `{"chat_id":-1001557912345,"text":"a \u00e9\n","ok":true}`,
			map[string]string{"chat_id": "-1001557912345", "text": "a é\n", "ok": "true"}, ""},
		{"object, with a charset", asJSON + "; charset=utf-8", ` {"a":"b"} `, map[string]string{"a": "b"}, ""},
		{"numbers stay as they are written", asJSON, `{"a":9007199254740993,"b":1.50,"c":1e3}`,
			map[string]string{"a": "9007199254740993", "b": "1.50", "c": "1e3"}, ""},
		{"lists and objects stay JSON", asJSON, `{"reply_markup":{"inline_keyboard":[[]]},"ids":[1, 2]}`,
			map[string]string{"reply_markup": `{"inline_keyboard":[[]]}`, "ids": "[1, 2]"}, ""},
		{"null is left out", asJSON, `{"a":null,"b":"null"}`, map[string]string{"b": "null"}, ""},
		{"empty text stays", asJSON, `{"a":""}`, map[string]string{"a": ""}, ""},
		{"null alone", asJSON, `null`, map[string]string{}, ""},
		{"list", asJSON, `[1]`, nil, "parameters are not a JSON object"},
		{"cut", asJSON, `{"a":`, nil, "parameters are not a JSON object"},
		{"form", asForm, "chat_id=5&text=a+%26+b%0A", map[string]string{"chat_id": "5", "text": "a & b\n"}, ""},
		{"form, the first of two counts", asForm, "a=1&a=2", map[string]string{"a": "1"}, ""},
		{"form, damaged", asForm, "a=%zz", nil, "parameters are not an urlencoded form"},
		{"files", "multipart/form-data; boundary=x", "--x--", nil, "content type multipart/form-data is not supported"},
		{"no type", "", "a=b", nil, `content type "" cannot be parsed`},
		{"type cut short", "application/json; ", `{"a":"b"}`, map[string]string{"a": "b"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := bot.DecodeParams(tt.contentType, []byte(tt.body))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("parameters (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzDecodeParams(f *testing.F) {
	for _, body := range []string{``, `{}`, `{"a":null}`, `{"a":"\ud800"}`, `{"a":[{"b":1}]}`, `a=b&c`, `null`, `{"a":1}{`} {
		f.Add("application/json", []byte(body))
		f.Add("application/x-www-form-urlencoded", []byte(body))
	}
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		params, err := bot.DecodeParams(contentType, body)
		if (err == nil) != (params != nil) {
			t.Fatalf("parameters %v with error %v", params, err)
		}
		if err != nil || !strings.HasPrefix(contentType, "application/json") {
			return
		}
		// What was decoded means the same when it is encoded and decoded again.
		again, _ := json.Marshal(params)
		back, err := bot.DecodeParams("application/json", again)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range params {
			if back[name] != string([]rune(value)) { // what is not UTF-8 was replaced
				t.Errorf("%q: %q became %q", name, value, back[name])
			}
		}
	})
}

func TestDecodeAnswer(t *testing.T) {
	tests := []struct {
		name, body, want string
		err              *bot.CallError
	}{
		{"object", `{"ok":true,"result":{"a":1}}`, `{"a":1}`, nil},
		{"F16 true", `{"ok":true,"result":true}`, `true`, nil},
		{"number", `{"ok":true,"result":17}`, `17`, nil},
		{"refused", `{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}`, "",
			&bot.CallError{Method: "m", Code: 400, Description: "Bad Request: chat not found"}},
		{"penalty", `{"ok":false,"error_code":429,"description":"d","parameters":{"retry_after":8}}`, "",
			&bot.CallError{Method: "m", Code: 429, Description: "d", RetryAfter: 8}},
		{"F21 moved", `{"ok":false,"error_code":400,"description":"d","parameters":{"migrate_to_chat_id":-1001557912345}}`, "",
			&bot.CallError{Method: "m", Code: 400, Description: "d", MigrateTo: -1001557912345}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := bot.DecodeAnswer("m", []byte(tt.body))
			var refused *bot.CallError
			if errors.As(err, &refused) != (tt.err != nil) || (tt.err != nil && *refused != *tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if string(got) != tt.want {
				t.Errorf("result %s, want %s", got, tt.want)
			}
		})
	}
	for _, body := range []string{"", "<html>", `{"ok":tr`, `[]`} {
		if _, err := bot.DecodeAnswer("m", []byte(body)); err == nil {
			t.Errorf("%q is an answer", body)
		}
	}
}

func FuzzDecodeAnswer(f *testing.F) {
	f.Add([]byte(`{"ok":true,"result":[]}`))
	f.Add([]byte(`{"ok":false,"error_code":429,"parameters":{"retry_after":1}}`))
	f.Add([]byte(`{"ok":true}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		result, err := bot.DecodeAnswer("m", body)
		if err == nil && len(result) > 0 && !json.Valid(result) {
			t.Errorf("result %q", result)
		}
		if err != nil && result != nil {
			t.Errorf("result %q with error %v", result, err)
		}
	})
}

// TestRestored is what a hub is told of each state that a journal may hold.
func TestRestored(t *testing.T) {
	entry := journal.Entry{Seq: 7, Delivery: "d", Lane: "l", Attempt: 2, Member: "m"}
	item := bus.Item{Seq: 7, ID: "d", Lane: "l", Attempt: 2}
	next := item
	next.Attempt = 3
	tests := []struct {
		name  string
		state journal.State
		want  []bus.Restored
	}{
		{"pending: the next attempt", journal.Pending, []bus.Restored{{Item: next}}},
		{"assigned: with its member", journal.Assigned, []bus.Restored{{Item: item, Member: "m"}}},
		{"outcome: only the reply is left", journal.Outcome, []bus.Restored{{Item: item, Replying: true}}},
		{"done", journal.Done, nil},
		{"dead", journal.Dead, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := entry
			e.State = tt.state
			if diff := cmp.Diff(tt.want, bot.Restored([]journal.Entry{e})); diff != "" {
				t.Errorf("restored (-want +got):\n%s", diff)
			}
		})
	}
}
