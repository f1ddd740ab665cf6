package rawjson_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"tgbridge/internal/rawjson"
)

type line struct {
	Seq           int             `json:"seq,omitempty"`
	Update        json.RawMessage `json:"update"`
	UpdateEncoded *string         `json:"update_base64"`
}

func TestAppend(t *testing.T) {
	tests := []struct{ name, object, raw, want string }{
		{"plain", `{"seq":7}`, `{"update_id":1}`, `{"seq":7,"update":{"update_id":1}}`},
		{"first member", `{}`, `[1]`, `{"update":[1]}`},
		{"blanks inside stay", `{}`, `{ "a": "<\/>" }`, `{"update":{ "a": "<\/>" }}`},
		{"line feed", `{}`, "{\n}", `{"update_base64":"ewp9"}`},
		{"not UTF-8", `{}`, "\"\xff\"", `{"update_base64":"Iv8i"}`},
		{"not JSON", `{}`, `{`, `{"update_base64":"ew=="}`},
		{"blanks around", `{}`, ` 1`, `{"update_base64":"IDE="}`},
		{"nothing", `{}`, ``, `{"update_base64":""}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := rawjson.Append([]byte(tt.object), "update", []byte(tt.raw))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	for _, object := range []string{``, `{`, `[]`, `null`} {
		if got, err := rawjson.Append([]byte(object), "update", []byte(`1`)); err == nil {
			t.Errorf("Append to %q = %q, want an error", object, got)
		}
	}
}

// FuzzRoundTrip checks that any bytes come back as they went in, on one line
// of valid JSON.
func FuzzRoundTrip(f *testing.F) {
	for _, seed := range []string{`{"update_id":1}`, "{\n}", "\xff", ` 1 `, ``, `"\ud800"`, "\"\u2028\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		object, err := rawjson.Append([]byte(`{"seq":7}`), "update", raw)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(object, "\r\n") {
			t.Fatalf("more than one line: %q", object)
		}
		var l line
		if err := json.Unmarshal(object, &l); err != nil {
			t.Fatalf("decode %q: %v", object, err)
		}
		back, err := rawjson.Bytes(l.Update, l.UpdateEncoded)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(back, raw) {
			t.Fatalf("came back as %q, want %q", back, raw)
		}
	})
}
