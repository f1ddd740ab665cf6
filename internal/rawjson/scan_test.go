package rawjson_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"tgbridge/internal/rawjson"
)

// deep is a list nested so many levels.
func deep(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

func TestElements(t *testing.T) {
	far := deep(1_000_000)
	tests := []struct {
		name, list string
		want       []string // nil: not told apart
	}{
		{"none", `[]`, []string{}},
		{"none, blanks", " [ \n] ", []string{}},
		{"of every type", `[1,"a",true,null,{"b":[1]},[]]`, []string{`1`, `"a"`, `true`, `null`, `{"b":[1]}`, `[]`}},
		{"blanks", " [ 1 ,\n\t{ } ] ", []string{`1`, `{ }`}},
		{"brackets and quotes in strings", `["]","[\"","\\",{"}":"{"}]`, []string{`"]"`, `"[\""`, `"\\"`, `{"}":"{"}`}},
		{"deeper than encoding/json takes", `[1,` + far + `,2]`, []string{`1`, far, `2`}},
		{"an element that is no JSON", `[1,{"a":01,"b":"` + "\x00" + `\x"},2]`, []string{`1`, `{"a":01,"b":"` + "\x00" + `\x"}`, `2`}},
		{"no list", `{}`, nil},
		{"nothing", ``, nil},
		{"null", `null`, nil},
		{"no end", `[1,2`, nil},
		{"no end of an element", `[1,{"a":1]`, nil},
		{"no end of a string", `[1,"a]`, nil},
		{"no comma", `[1 2]`, nil},
		{"no element after a comma", `[1,]`, nil},
		{"no element before a comma", `[,1]`, nil},
		{"more after it", `[1] 2`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			elements, ok := rawjson.Elements([]byte(tt.list))
			var got []string
			if ok {
				got = []string{}
			}
			for _, e := range elements {
				got = append(got, string(e))
			}
			if ok != (tt.want != nil) || !slices.Equal(got, tt.want) {
				t.Errorf("got %.200q, %v, want %.200q", got, ok, tt.want)
			}
		})
	}
}

func TestMembers(t *testing.T) {
	tests := []struct {
		name, object string
		want         string
		whole        bool
	}{
		{"none", ` { } `, ``, true},
		{"in order, repeated", `{"a":1, "b" : {"a":2} ,"a":"x"}`, `a=1 b={"a":2} a="x" `, true},
		{"name with escapes", `{"\u0061":1}`, `a=1 `, true},
		{"no object", `[1]`, ``, false},
		{"no end", `{"a":1`, `a=1 `, false},
		{"no name", `{1:1}`, ``, false},
		{"no value", `{"a":}`, ``, false},
		{"no colon", `{"a" 1}`, ``, false},
		{"more after it", `{"a":1}}`, `a=1 `, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			whole := rawjson.Members([]byte(tt.object), func(name, value []byte) { got += fmt.Sprintf("%s=%s ", name, value) })
			if got != tt.want || whole != tt.whole {
				t.Errorf("got %q, %v, want %q, %v", got, whole, tt.want, tt.whole)
			}
		})
	}
}

// TestAppendDeep: what the line could not be decoded with stands as base64.
func TestAppendDeep(t *testing.T) {
	for levels, plain := range map[int]bool{8_999: true, 9_000: true, 9_001: false, 10_000: false, 10_001: false} {
		raw := []byte(deep(levels))
		object, err := rawjson.Append([]byte(`{}`), "update", raw)
		if err != nil {
			t.Fatal(err)
		}
		var l line
		if err := json.Unmarshal(object, &l); err != nil {
			t.Fatalf("%d levels: %v", levels, err)
		}
		back, err := rawjson.Bytes(l.Update, l.UpdateEncoded)
		if err != nil || string(back) != string(raw) || (l.UpdateEncoded == nil) != plain {
			t.Errorf("%d levels: plain %v, want %v (%v)", levels, l.UpdateEncoded == nil, plain, err)
		}
	}
	// Brackets in strings are no levels.
	raw := []byte(`"` + strings.Repeat("[", 20_000) + `"`)
	if object, err := rawjson.Append([]byte(`{}`), "update", raw); err != nil || !strings.Contains(string(object), `"update":"[`) {
		t.Errorf("%.40s, %v", object, err)
	}
}

// FuzzScan checks that parts of valid JSON are those that encoding/json finds, and
// that other bytes do no harm.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{`[]`, `{}`, `[1,[2],{"a":"]"}]`, `{"a":{"b":"\""},"a":[1]}`, `{"\u0061":1}`, `[1,]`, `{"a"`, `["\\"]`, "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		elements, isList := rawjson.Elements(raw)
		last := map[string]string{}
		isObject := rawjson.Members(raw, func(name, value []byte) { last[string(name)] = string(value) })
		if !json.Valid(raw) || !utf8.Valid(raw) { // encoding/json replaces what is not UTF-8
			return
		}
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); (err == nil && list != nil) != isList || len(list) != len(elements) {
			t.Fatalf("list %v, %d elements, want %v, %d", isList, len(elements), err == nil, len(list))
		}
		for i := range list {
			if string(list[i]) != string(elements[i]) {
				t.Fatalf("element %d is %q, want %q", i, elements[i], list[i])
			}
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(raw, &object); (err == nil && object != nil) != isObject || len(object) != len(last) {
			t.Fatalf("object %v, members %q, want %v, %q", isObject, last, err == nil, object)
		}
		for name, value := range object {
			if last[name] != string(value) {
				t.Fatalf("member %q is %q, want %q", name, last[name], value)
			}
		}
	})
}
