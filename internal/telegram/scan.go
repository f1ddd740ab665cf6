package telegram

import (
	"bytes"
	"encoding/json"
	"math"
	"unicode/utf8"
)

// The functions of this file read values that were found without being decoded.
// They take them as valid JSON; other bytes give arbitrary values or false, and
// never a panic.

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
