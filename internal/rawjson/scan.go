package rawjson

import (
	"bytes"
	"encoding/json"
)

// The functions of this file find where the parts of JSON begin and end, without
// decoding them. They tell nothing of whether a part is valid; for bytes that are
// no JSON they give arbitrary parts or false, and never panic.

// Members calls visit for each member of a JSON object, in order, at any depth
// of nesting; a value is the slice of its bytes. It reports false when obj is
// no object, or quotes and brackets do not say where its members end. What is
// inside of a value is not looked at.
func Members(obj []byte, visit func(name, value []byte)) bool {
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

// Elements returns the elements of a JSON list, in order, as slices of their
// bytes; an empty list has none, and not nil. It returns nil and false as Members
// reports false.
func Elements(list []byte) ([]json.RawMessage, bool) {
	all := []json.RawMessage{}
	i := skipSpace(list, 0)
	if i >= len(list) || list[i] != '[' {
		return nil, false
	}
	i = skipSpace(list, i+1)
	for more := i < len(list) && list[i] != ']'; more; {
		end := skipValue(list, i)
		if end <= i {
			return nil, false
		}
		all = append(all, list[i:end:end])
		i = skipSpace(list, end)
		if more = i < len(list) && list[i] == ','; more {
			i = skipSpace(list, i+1)
		}
	}
	if i >= len(list) || list[i] != ']' || skipSpace(list, i+1) != len(list) {
		return nil, false
	}
	return all, true
}

// nesting returns how deep JSON is nested.
func nesting(b []byte) int {
	depth, deepest := 0, 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			end := skipString(b, i)
			if end < 0 {
				return deepest
			}
			i = end - 1
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

// memberName returns the name without quotes. It may be written with escapes.
func memberName(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		var name string
		_ = json.Unmarshal(quoted, &name) // what is no string has no name
		return []byte(name)
	}
	return quoted[1 : len(quoted)-1]
}
