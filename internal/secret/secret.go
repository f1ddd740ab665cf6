// Package secret holds values that must never be printed.
//
// A Secret keeps its text behind a pointer and answers every formatting,
// logging and encoding interface with a fixed mask, so that neither
// fmt.Printf("%+v", options), nor a JSON encoder, nor a panic that prints a
// structure can show it. The only way to the text is Reveal, which makes every
// use easy to find.
//
// What is not promised: the text is ordinary memory; a core dump or a debugger
// shows it.
package secret

import (
	"crypto/subtle"
	"fmt"
	"io"
)

// mask is what every printed secret looks like.
const mask = "[secret]"

// Secret is a text that cannot be printed. The zero value is the empty secret.
// Secrets are immutable and may be copied and used concurrently. They are not
// comparable in a useful way with ==; use Equal.
type Secret struct {
	text *string
}

// New returns a Secret that holds text.
func New(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// Reveal returns the text. Never pass the result to a logger or an error.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsEmpty reports whether there is no text.
func (s Secret) IsEmpty() bool { return s.text == nil }

// Equal compares with another text in time that depends on the lengths alone.
// An empty secret equals nothing, not even the empty text.
func (s Secret) Equal(text string) bool {
	if s.text == nil {
		return false
	}
	return subtle.ConstantTimeCompare([]byte(*s.text), []byte(text)) == 1
}

// String returns the mask.
func (s Secret) String() string { return mask }

// GoString returns the mask.
func (s Secret) GoString() string { return mask }

// Format writes the mask whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, mask) }

// MarshalText returns the mask, and so does every encoder that uses it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(mask), nil }

// UnmarshalText takes the text as the secret.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = New(string(text))
	return nil
}
