package telegram_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"tgbridge/internal/telegram"
)

func TestSplit(t *testing.T) {
	const family = "👨‍👩‍👧" // 8 units, one sign
	tests := []struct {
		name  string
		text  string
		limit int
		want  []string
	}{
		{"empty", "", 10, nil},
		{"blank", " \n\t\u00a0\u200b\u2800 ", 10, nil},
		{"fits", "hello", 5, []string{"hello"}},
		{"fits with blanks around", " hello \n", 8, []string{" hello \n"}},
		{"at a line end", "one\ntwo\nthree", 8, []string{"one\ntwo", "three"}},
		{"line feed right behind the limit", "12345678\nx", 8, []string{"12345678", "x"}},
		{"line end before a later blank", "a\nb c d e", 8, []string{"a", "b c d e"}},
		{"only one line feed is dropped", "one\n\n\ntwo", 6, []string{"one\n\n", "two"}},
		{"line feeds at the end", "12345678\n\n\n", 8, []string{"12345678"}},
		{"blank lines first", "\n\n\n12345678", 8, []string{"\n\n\n12345", "678"}},
		{"carriage return stays", "one\r\ntwo", 5, []string{"one\r", "two"}},
		{"at a blank", "one two three", 9, []string{"one two ", "three"}},
		{"blank right behind the limit", "12345678 x", 8, []string{"12345678", " x"}},
		{"not at a no-break space", "12 34\u00a056", 6, []string{"12 ", "34\u00a056"}},
		{"no blank", "1234567890", 4, []string{"1234", "5678", "90"}},
		{"more blanks than fit", "a" + strings.Repeat(" ", 20) + "b", 8, []string{"a       ", "     b"}},
		{"emoji are two units", "🚢🚢🚢", 4, []string{"🚢🚢", "🚢"}},
		{"emoji at an odd limit", "🚢🚢🚢", 5, []string{"🚢🚢", "🚢"}},
		{"smallest limit", "a🚢b", 1, []string{"a", "🚢", "b"}},
		{"combining mark", "abe\u0301c", 3, []string{"ab", "e\u0301c"}},
		{"joined emoji", "ab" + family + "c", 9, []string{"ab", family + "c"}},
		{"joined emoji longer than the limit", family, 4, []string{"👨‍", "👩‍", "👧"}},
		{"skin colour", "abc👍🏽", 5, []string{"abc", "👍🏽"}},
		{"flags", "a🇵🇹🇪🇸", 7, []string{"a🇵🇹", "🇪🇸"}},
		{"mark on a blank", "ab \u0301cd", 4, []string{"ab", " \u0301cd"}},
		{"not UTF-8", "ab\xff\xfecd\xff", 3, []string{"ab\uFFFD", "cd\uFFFD"}},
		{"default limit", strings.Repeat("a", 4097), 0, []string{strings.Repeat("a", 4096), "a"}},
		{"F54 2,049 emoji", strings.Repeat("🚢", 2049), telegram.MaxText, []string{strings.Repeat("🚢", 2048), "🚢"}},
		{"F54 4,096 of !", strings.Repeat("!", 4096), telegram.MaxText, []string{strings.Repeat("!", 4096)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := telegram.Split(tt.text, tt.limit)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
			checkParts(t, tt.text, tt.limit, got)
		})
	}
}

// TestSplitLines is F54's 1,250 lines: cut at line ends alone, all there.
func TestSplitLines(t *testing.T) {
	var text strings.Builder
	for i := range 1250 {
		fmt.Fprintf(&text, "> line %d of a quotation\n", i)
	}
	parts := telegram.Split(text.String(), telegram.MaxText)
	if got := strings.Join(parts, "\n"); got != text.String() {
		t.Error("the parts joined by line feeds are not the text")
	}
	checkParts(t, text.String(), telegram.MaxText, parts)
}

// checkParts checks what Split promises for any text.
func checkParts(t *testing.T, text string, limit int, parts []string) {
	t.Helper()
	if limit <= 0 {
		limit = telegram.MaxText
	}
	limit = max(limit, 2)
	rest := strings.ToValidUTF8(text, "\uFFFD")
	for i, part := range parts {
		if !utf8.ValidString(part) {
			t.Fatalf("part %d is not UTF-8: %q", i, part)
		}
		if n := len(utf16.Encode([]rune(part))); n > limit {
			t.Fatalf("part %d has %d units, limit %d", i, n, limit)
		}
		if isBlank(part) {
			t.Fatalf("part %d is blank: %q", i, part)
		}
		at := strings.Index(rest, part)
		if at < 0 {
			t.Fatalf("part %d, %q, is not in the rest %q", i, part, rest)
		}
		// Between two parts: nothing, the line feed of the cut, or what would
		// have been parts of blanks alone. Blanks before the first ink of a
		// part belong to it, so the text is found at its first occurrence
		// only if that is where it is.
		if gap := rest[:at]; gap != "" && !(i > 0 && gap == "\n") && !isBlank(gap) {
			t.Fatalf("lost before part %d: %q", i, gap)
		}
		rest = rest[at+len(part):]
	}
	if rest != "" && !isBlank(rest) {
		t.Fatalf("lost at the end: %q", rest)
	}
}

// isBlank is Telegram's view, written as a list.
func isBlank(s string) bool {
	const more = "\u0085\u00a0\u030a\u0333\u033f\u1680\u180e\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e" +
		"\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u2800\u3000\ufeff\ufffc"
	for _, r := range s {
		if r > ' ' && !strings.ContainsRune(more, r) && (r < 0xe0000 || r > 0xe007f) {
			return false
		}
	}
	return true
}

// FuzzSplit checks the promises for any text, and that no blank is lost where
// there is no long run of blanks.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"", "one\ntwo three", "e\u0301\u0301\u0301", "🇵🇹🇪🇸👨‍👩‍👧", "\xff\xfe", " \n \u2028\u00a0x", "a\r\n\r\nb"} {
		f.Add(seed, 5)
		f.Add(strings.Repeat(seed, 50), 16)
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit > 10000 {
			limit %= 10000
		}
		parts := telegram.Split(text, limit)
		checkParts(t, text, limit, parts)
		if longestBlank(text) >= max(limit, 2) || limit <= 0 {
			return
		}
		// No part of blanks alone can have been dropped, but at the end.
		rest := strings.ToValidUTF8(text, "\uFFFD")
		for i, part := range parts {
			if i > 0 && !strings.HasPrefix(rest, part) {
				rest = strings.TrimPrefix(rest, "\n")
			}
			var found bool
			if rest, found = strings.CutPrefix(rest, part); !found {
				t.Fatalf("part %d, %q, does not follow at %q", i, part, rest)
			}
		}
	})
}

// longestBlank returns the length of the longest run of blanks, in units.
func longestBlank(s string) int {
	longest, run := 0, 0
	for _, r := range s {
		if !isBlank(string(r)) {
			run = 0
			continue
		}
		run += utf16.RuneLen(r)
		longest = max(longest, run)
	}
	return longest
}

func BenchmarkSplit(b *testing.B) {
	for name, text := range map[string]string{
		"lines": strings.Repeat("the quick tide runs past the old quay\n", 30000),
		"solid": strings.Repeat("🚢", 300000),
		"marks": strings.Repeat("\u0301", 500000),
		"flags": strings.Repeat("🇵", 200000),
		"blank": strings.Repeat(" ", 1000000),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				telegram.Split(text, 0)
			}
		})
	}
}
