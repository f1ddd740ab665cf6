package telegram

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// MaxText is the length that Telegram takes as the text of one message,
	// in UTF-16 units (https://core.telegram.org/bots/api#sendmessage).
	MaxText = 4096

	// maxCluster is how many characters of one visible sign are kept together
	// before a cut inside of it is accepted.
	maxCluster = 32
)

// Split cuts plain text into parts that Telegram takes as messages of their
// own: each of at most limit UTF-16 units (MaxText for 0; at least 2), none
// empty or blank. It cuts at a line end if one is in reach, else at a blank,
// else between two visible signs, and never inside of a character.
//
// Nothing is lost but the line feed at which it was cut, and what would have
// been a part of blanks alone. Text that is all blank has no parts. Bytes that
// are not UTF-8 become U+FFFD. The parts are slices of one string.
func Split(text string, limit int) []string {
	if limit <= 0 {
		limit = MaxText
	}
	limit = max(limit, 2)
	rest := strings.ToValidUTF8(text, "\uFFFD")
	var parts []string
	for rest != "" {
		fits := fitting(rest, limit)
		ink := strings.IndexFunc(rest[:fits], func(r rune) bool { return !isBlank(r) })
		switch {
		case ink < 0:
			rest = rest[fits:]
		case fits == len(rest):
			return append(parts, rest)
		default:
			// What the part has to hold to be no blank one.
			_, size := utf8.DecodeRuneInString(rest[ink:])
			end, next := cut(rest, ink+size, fits)
			parts = append(parts, rest[:end])
			rest = rest[next:]
		}
	}
	return parts
}

// fitting returns how many bytes of s are at most limit UTF-16 units, without
// cutting a character.
func fitting(s string, limit int) int {
	units := 0
	for i, r := range s {
		units += utf16.RuneLen(r)
		if units > limit {
			return i
		}
	}
	return len(s)
}

// cut returns where the part ends, in [least, most], and where the rest
// begins.
func cut(s string, least, most int) (end, next int) {
	// The line feed itself needs no room.
	if i := strings.LastIndexByte(s[:most+1], '\n'); i >= least {
		return i, i + 1
	}
	for i := most; i >= least; i = before(s, i) {
		if isBreak(s, i) && !isInsideSign(s, i) {
			return i, i
		}
	}
	i := most
	for range maxCluster {
		if i < least {
			break
		}
		if !isInsideSign(s, i) {
			return i, i
		}
		i = before(s, i)
	}
	return most, most
}

// before returns the index of the character that ends at i.
func before(s string, i int) int {
	_, size := utf8.DecodeLastRuneInString(s[:i])
	return i - max(size, 1)
}

// isBreak reports whether a blank that may be broken at stands on either side
// of i.
func isBreak(s string, i int) bool {
	l, _ := utf8.DecodeLastRuneInString(s[:i])
	r, _ := utf8.DecodeRuneInString(s[i:])
	return isBreakable(l) || isBreakable(r)
}

func isBreakable(r rune) bool {
	switch r {
	case '\u00a0', '\u2007', '\u202f': // no-break spaces
		return false
	}
	return unicode.IsSpace(r)
}

// isInsideSign reports whether a cut at i would tear apart what is seen as one
// sign: a letter and its marks, a joined or coloured emoji, a flag. It is a
// subset of the rules of Unicode's annex 29.
func isInsideSign(s string, i int) bool {
	l, _ := utf8.DecodeLastRuneInString(s[:i])
	r, _ := utf8.DecodeRuneInString(s[i:])
	switch {
	case l == '\r' && r == '\n':
		return true
	case l == '\n' || l == '\r' || r == '\n' || r == '\r':
		return false
	case unicode.Is(unicode.M, r), r == zeroWidthJoiner, l == zeroWidthJoiner, r == '\u200c':
		return true
	case r >= 0x1f3fb && r <= 0x1f3ff: // skin colours
		return true
	case r >= 0xe0020 && r <= 0xe007f: // tags of regional flags
		return true
	case isFlagLetter(l) && isFlagLetter(r):
		return flagLettersBefore(s, i)%2 == 1
	}
	return false
}

const zeroWidthJoiner = '\u200d'

// isFlagLetter reports whether r is a regional indicator; two make a flag.
func isFlagLetter(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

func flagLettersBefore(s string, i int) int {
	n := 0
	for i > 0 {
		r, size := utf8.DecodeLastRuneInString(s[:i])
		if !isFlagLetter(r) {
			break
		}
		n++
		i -= size
	}
	return n
}

// blanks are the characters beyond control characters and spaces that
// Telegram's servers drop or count as blank when they judge whether a message
// has text.
var blanks = []rune{
	'\u030a', '\u0333', '\u033f', '\u180e', '\u2800', '\ufeff', '\ufffc',
}

func isBlank(r rune) bool {
	switch {
	case r <= ' ', unicode.IsSpace(r):
		return true
	case r >= '\u200b' && r <= '\u200f', r >= '\u2028' && r <= '\u202e':
		return true
	case r >= 0xe0000 && r <= 0xe007f:
		return true
	}
	return slices.Contains(blanks, r)
}
