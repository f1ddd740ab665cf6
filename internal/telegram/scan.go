package telegram

import (
	"bytes"
	"encoding/json"
	"math"
	"unicode/utf8"
)

// The functions of this file read members out of JSON without decoding the
// rest of it. They take it as valid; other bytes give arbitrary values or
// false, and never a panic.

// members calls visit for each member of a JSON object, in order; a value is
// the slice of its bytes. It reports false when obj is no object or damaged.
func members(obj []byte, visit func(name, value []byte)) bool {
	i := skipSpace(obj, 0)
	if i >= len(obj) || obj[i] != '{' {
		return false
	}
	i = skipSpace(obj, i+1)
	if i < len(obj) && obj[i] == '}' {
		return skipSpace(obj, i+1) == len(obj)
	}
	for {
		if i >= len(obj) || obj[i] != '"' {
			return false
		}
		end := skipString(obj, i)
		if end < 0 {
			return false
		}
		name := obj[i:end]
		if i = skipSpace(obj, end); i >= len(obj) || obj[i] != ':' {
			return false
		}
		i = skipSpace(obj, i+1)
		if end = skipValue(obj, i); end < 0 {
			return false
		}
		visit(memberName(name), obj[i:end])
		if i = skipSpace(obj, end); i >= len(obj) {
			return false
		}
		if obj[i] == '}' {
			return skipSpace(obj, i+1) == len(obj)
		}
		if obj[i] != ',' {
			return false
		}
		i = skipSpace(obj, i+1)
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipString returns the index after the string that begins at i, or -1.
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		// The quote ends the string unless an odd number of backslashes
		// stands right before it.
		escapes := 0
		for escapes < n && b[i+n-1-escapes] == '\\' {
			escapes++
		}
		i += n
		if escapes%2 == 0 {
			return i + 1
		}
	}
	return -1
}

// skipValue returns the index after the value that begins at i, or -1.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			if i = skipString(b, i); i < 0 {
				return -1
			}
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth--; depth < 0 {
				return -1
			}
			i++
		case ',', ':', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return -1
			}
			i++
			continue
		default:
			i = skipScalar(b, i)
		}
		if depth == 0 {
			return i
		}
	}
	return -1
}

// skipScalar returns the index after a number, true, false or null.
func skipScalar(b []byte, i int) int {
	for ; i < len(b); i++ {
		switch b[i] {
		case '{', '}', '[', ']', ',', ':', '"', ' ', '\n', '\r', '\t':
			return i
		}
	}
	return i
}

// memberName returns the name without quotes. Names of Telegram's hold no
// escapes, but any may be written with them.
func memberName(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		name, _ := stringOf(quoted)
		return []byte(name)
	}
	return quoted[1 : len(quoted)-1]
}

// stringOf decodes a JSON string; what is not UTF-8 becomes U+FFFD.
func stringOf(value []byte) (string, bool) {
	if len(value) < 2 || value[0] != '"' {
		return "", false
	}
	inner := value[1 : len(value)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner), true
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		return "", false
	}
	return s, true
}

// intOf reads an integer of 64 bits exactly. Fractions, exponents and larger
// numbers are none.
func intOf(value []byte) (int64, bool) {
	digits, negative := value, false
	if len(digits) > 0 && digits[0] == '-' {
		digits, negative = digits[1:], true
	}
	if len(digits) == 0 || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	var n uint64
	for _, c := range digits {
		if c < '0' || c > '9' || n > (math.MaxUint64-9)/10 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	switch {
	case negative && n <= -math.MinInt64:
		return int64(-n), true
	case !negative && n <= math.MaxInt64:
		return int64(n), true
	}
	return 0, false
}

// typeOf names a value's JSON type for an error.
func typeOf(value []byte) string {
	if len(value) == 0 {
		return "nothing"
	}
	switch value[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

func isNull(value []byte) bool { return string(value) == "null" }
