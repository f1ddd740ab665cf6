package secret_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"tgbridge/internal/secret"
)

// TestNothingPrintsASecret checks every way in which Go code prints a value,
// also from an unexported field, where fmt cannot call methods (G8).
func TestNothingPrintsASecret(t *testing.T) {
	const text = "AAH-very-secret-text"
	s := secret.New(text)
	type holder struct {
		Public  secret.Secret
		private secret.Secret
	}
	h := holder{Public: s, private: s}
	encoded, err := json.Marshal(map[string]any{"s": s, "p": &s, "h": h})
	if err != nil {
		t.Fatal(err)
	}
	outputs := []string{string(encoded), s.String(), s.GoString()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
		outputs = append(outputs,
			fmt.Sprintf(verb, s), fmt.Sprintf(verb, &s), fmt.Sprintf(verb, h),
			fmt.Sprintf(verb, &h), fmt.Sprintf(verb, []secret.Secret{s}))
	}
	for _, out := range outputs {
		if strings.Contains(out, text) || strings.Contains(out, fmt.Sprintf("%x", text)) {
			t.Errorf("output shows the secret: %s", out)
		}
	}
	if s.Reveal() != text {
		t.Errorf("Reveal() = %q, want %q", s.Reveal(), text)
	}
}

func TestEqual(t *testing.T) {
	tests := []struct {
		name string
		s    secret.Secret
		text string
		want bool
	}{
		{"same", secret.New("abc"), "abc", true},
		{"other", secret.New("abc"), "abd", false},
		{"truncated", secret.New("abc"), "ab", false},
		{"empty secret, empty text", secret.Secret{}, "", false},
		{"empty secret, text", secret.Secret{}, "abc", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.s.Equal(tt.text); got != tt.want {
				t.Errorf("Equal(%q) = %v, want %v", tt.text, got, tt.want)
			}
		})
	}
}

func TestUnmarshalText(t *testing.T) {
	var s secret.Secret
	if err := s.UnmarshalText([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	if s.Reveal() != "abc" || s.IsEmpty() {
		t.Errorf("after UnmarshalText: Reveal() = %q, IsEmpty() = %v", s.Reveal(), s.IsEmpty())
	}
}
