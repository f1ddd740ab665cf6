package lock_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tgbridge/internal/secret"
	"tgbridge/lock"
)

var compareEntries = cmp.Comparer(func(a, b secret.Secret) bool { return a.Reveal() == b.Reveal() })

func TestDecodeEntry(t *testing.T) {
	full := lock.Entry{
		PID: 12, Cwd: "/w", InstanceID: "i", HeartbeatMs: 5, Epoch: 7, Generation: 9, BusSocketPath: "s", BusSecret: secret.New("hush"),
		Name: "n", Host: "h", BootID: "b", PIDNamespace: "p", BornAt: "1", AcquiredMs: 2, Version: "v",
	}
	tests := []struct {
		name, raw string
		want      lock.Entry
		ok        bool
	}{
		{"full", `{"pid":12,"cwd":"/w","instanceId":"i","heartbeatMs":5,"leaderEpoch":7,"runtimeGeneration":9,"busSocketPath":"s","busSecret":"hush","name":"n","host":"h","bootId":"b","pidNamespace":"p","bornAt":"1","acquiredMs":2,"version":"v"}`, full, true},
		{"released", `{"leaderEpoch":7,"releasedMs":4}`, lock.Entry{Epoch: 7, ReleasedMs: 4}, true},
		{"older version", `{"pid":12,"cwd":"/w"}`, lock.Entry{PID: 12, Cwd: "/w"}, true},
		{"newer version: unknown fields, other types", `{"pid":12,"leaderEpoch":7,"shape":{"a":[1]},"version":2,"name":null,"heartbeatMs":1.5}`,
			lock.Entry{PID: 12, Epoch: 7, HeartbeatMs: 1}, true},
		{"epoch is a text", `{"pid":12,"leaderEpoch":"abc"}`, lock.Entry{PID: 12, ForeignEpoch: `"abc"`}, true},
		{"epoch is a fraction", `{"pid":12,"leaderEpoch":1.5}`, lock.Entry{PID: 12, ForeignEpoch: `1.5`}, true},
		{"epoch is negative", `{"pid":12,"leaderEpoch":-1}`, lock.Entry{PID: 12, ForeignEpoch: `-1`}, true},
		{"epoch is 2^52", `{"pid":12,"leaderEpoch":4503599627370496}`, lock.Entry{PID: 12, Epoch: 1 << 52}, true},
		{"epoch is past 2^52", `{"pid":12,"leaderEpoch":4503599627370497}`, lock.Entry{ForeignEpoch: `4503599627370497`}, false},
		{"epoch is past 2^64", `{"pid":12,"leaderEpoch":18446744073709551616}`, lock.Entry{ForeignEpoch: `18446744073709551616`}, false},
		{"pid is a text, term is kept", `{"pid":"12","leaderEpoch":7}`, lock.Entry{Epoch: 7}, false},
		{"pid is negative", `{"pid":-1}`, lock.Entry{}, false},
		{"pid is zero", `{"pid":0}`, lock.Entry{}, false},
		{"pid is no pid", `{"pid":99999999999}`, lock.Entry{}, false},
		{"null", `null`, lock.Entry{}, false},
		{"array", `[]`, lock.Entry{}, false},
		{"text", `"x"`, lock.Entry{}, false},
		{"empty object", `{}`, lock.Entry{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := lock.DecodeEntry([]byte(tt.raw))
			if diff := cmp.Diff(tt.want, got, compareEntries); diff != "" || ok != tt.ok {
				t.Errorf("ok = %v, want %v; entry (-want +got):\n%s", ok, tt.ok, diff)
			}
		})
	}
	raw, err := full.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if raw, want := string(raw), tests[0].raw; raw != want {
		t.Errorf("encoded\n%s, want\n%s", raw, want)
	}
}

// TestSecretIsHidden: an entry that is printed or encoded by others does not
// show the secret (G8).
func TestSecretIsHidden(t *testing.T) {
	e := lock.Entry{PID: 1, BusSecret: secret.New("hush")}
	encoded, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if out := fmt.Sprintf("%s %v %+v %#v", encoded, e, &e, e); strings.Contains(out, "hush") {
		t.Error(out)
	}
}

func TestEditRegistry(t *testing.T) {
	tests := []struct{ name, doc, want string }{
		{"empty object", `{}`, `{"k":1}`},
		{"blanks", " { } \n", " {\"k\":1 } \n"},
		{"replaced", `{"a":{"x":1.0},"k":{"pid":1},"b":"\u00e9"}`, `{"a":{"x":1.0},"k":1,"b":"\u00e9"}`},
		{"added", `{"a": [1, 2] }`, `{"a": [1, 2],"k":1 }`},
		{"pretty", "{\n  \"a\": 1e3,\n  \"k\": {\n \"pid\": 1 }\n}\n", "{\n  \"a\": 1e3,\n  \"k\": 1\n}\n"},
		{"tricky texts", `{"a":"}\",{","k":{"b":"\\"},"c":"\\\""}`, `{"a":"}\",{","k":1,"c":"\\\""}`},
		{"escaped name is ours", `{"\u006b":2}`, `{"\u006b":1}`},
		{"name in depth is not ours", `{"a":{"k":2}}`, `{"a":{"k":2},"k":1}`},
		{"twice: the last counts", `{"k":2,"k":3}`, `{"k":2,"k":1}`},
		{"not UTF-8", "{\"\xff\":\"\xfe\"}", "{\"\xff\":\"\xfe\",\"k\":1}"},
		{"words", `{"a":true,"b":null,"k":false}`, `{"a":true,"b":null,"k":1}`},
		{"number last", `{"a":1}`, `{"a":1,"k":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := lock.EditRegistry([]byte(tt.doc), "k", []byte("1"))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("got\n%s, want\n%s", got, tt.want)
			}
		})
	}
	for _, doc := range []string{"", "{", "null", "[]", "1", "{}x", "\x00\x00", `{"a":}`, `{} {}`} {
		if !lock.Damaged([]byte(doc)) {
			t.Errorf("%q is not damaged", doc)
		}
	}
}

// FuzzRegistry checks that editing any document changes our value alone, and
// that nothing makes the decoders fail.
func FuzzRegistry(f *testing.F) {
	for _, seed := range []string{`{}`, `{"k":{"pid":1,"leaderEpoch":2}}`, `{"a":"}\",{","k":1}`, `{"a":[{"k":1}],"b":1e5}`, "{\"\xff\":1}", `[`, ` {"k" : null , "k" : "x"} `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		if value, ok := lock.LookUp(doc, "k"); ok {
			lock.DecodeEntry(value)
		}
		edited, err := lock.EditRegistry(doc, "k", []byte(`{"leaderEpoch":5}`))
		if err != nil {
			var object map[string]json.RawMessage
			if trimmed := bytes.TrimLeft(doc, " \t\r\n"); json.Unmarshal(doc, &object) == nil && trimmed[0] == '{' {
				t.Fatalf("%q is an object", doc)
			}
			return
		}
		value, ok := lock.LookUp(edited, "k")
		if !ok || string(value) != `{"leaderEpoch":5}` {
			t.Fatalf("%q: read back %q", edited, value)
		}
		var before, after map[string]json.RawMessage
		if err := json.Unmarshal(doc, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(edited, &after); err != nil {
			t.Fatal(err)
		}
		delete(before, "k")
		delete(after, "k")
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatalf("others changed:\n%s", diff)
		}
	})
}

// FuzzEntry checks that whatever was decoded is encoded and decoded to the same.
func FuzzEntry(f *testing.F) {
	f.Add([]byte(`{"pid":12,"cwd":"/w","leaderEpoch":7,"busSecret":"x"}`))
	f.Add([]byte(`{"pid":1,"leaderEpoch":"7"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		e, ok := lock.DecodeEntry(raw)
		if !ok || !e.Held() || e.ForeignEpoch != "" {
			return
		}
		again, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, ok := lock.DecodeEntry(again)
		e.ReleasedMs = 0
		if diff := cmp.Diff(e, back, compareEntries); diff != "" || !ok {
			t.Fatalf("%s: %s", again, diff)
		}
	})
}

// FuzzGuardNames checks that only names of our own form are taken for ours.
func FuzzGuardNames(f *testing.F) {
	const g = "0f8fad5b-d9cb-469f-a165-70867728950e"
	for _, seed := range []string{"owner." + g + ".json", "next." + g + ".json", "locks.json.transaction.staged.me." + g, ".me.new", ".x.flock", "locks.json", "../x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if generation, ok := lock.ParseGuardFile(name); ok && name != "owner."+generation+".json" && name != "next."+generation+".json" {
			t.Errorf("guard file %q", name)
		}
		if instance, generation, ok := lock.ParseStaged(name); ok && (name != "locks.json.transaction.staged."+instance+"."+generation || !lock.ValidInstance(instance)) {
			t.Errorf("staged %q", name)
		}
		if instance, ok := lock.ParseHidden(name); ok && (!lock.ValidInstance(instance) || !strings.HasPrefix(name, "."+instance+".")) {
			t.Errorf("hidden %q", name)
		}
		if lock.ValidInstance(name) && (strings.ContainsAny(name, "/\\\x00.") || name == "") {
			t.Errorf("instance %q", name)
		}
	})
}

// FuzzMember checks that no content of a member's file is read as a term that
// cannot be one, and that what was written is read back.
func FuzzMember(f *testing.F) {
	good, err := lock.EncodeMember(7, lock.MemberInfo{Instance: "i", Name: "n", Role: lock.RoleLeader, Joined: 3, Term: 4})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:100])
	f.Add(make([]byte, 1045))
	f.Fuzz(func(t *testing.T, content []byte) {
		_, info, torn := lock.DecodeMember(content)
		if torn && info != (lock.MemberInfo{}) {
			t.Error("torn line with content")
		}
		if info.Term > lock.MaxTerm || info.Joined > lock.MaxTerm {
			t.Error("term too high", info.Term, info.Joined)
		}
		if torn {
			return
		}
		again, err := lock.EncodeMember(7, info)
		if err != nil {
			return // texts too long for the line
		}
		mark, back, torn := lock.DecodeMember(again)
		if torn || back != info || mark != "00000000000000000007" {
			t.Errorf("read back %q %+v %v, want %+v", mark, back, torn, info)
		}
	})
}
