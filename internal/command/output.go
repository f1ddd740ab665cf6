package command

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// head keeps the first limit bytes that are written to it.
type head struct {
	limit    int
	bytes    []byte
	overflow bool
}

// Write takes everything, so that the writer never blocks or fails.
func (h *head) Write(p []byte) (int, error) {
	kept := p
	if room := h.limit - len(h.bytes); len(p) > room {
		kept, h.overflow = p[:room], true
	}
	h.bytes = append(h.bytes, kept...)
	return len(p), nil
}

// tail keeps the last limit bytes that are written to it.
type tail struct {
	limit int
	bytes []byte
	cut   bool // something before is missing
}

// Write takes everything, so that the writer never blocks or fails.
func (t *tail) Write(p []byte) (int, error) {
	t.bytes = append(t.bytes, p...)
	if over := len(t.bytes) - t.limit; over > 0 {
		t.bytes = append(t.bytes[:0], t.bytes[over:]...)
		t.cut = true
	}
	return len(p), nil
}

// text returns what was kept, fit for a log.
func (t *tail) text() string {
	kept := t.bytes
	for i := 0; t.cut && i < utf8.UTFMax-1 && len(kept) > 0 && !utf8.RuneStart(kept[0]); i++ {
		kept = kept[1:] // of a character that was cut in two
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(kept), "\uFFFD"))
}
