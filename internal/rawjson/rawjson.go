// Package rawjson puts JSON that must stay as it came, byte for byte, into a
// JSON object on one line, and takes it out again.
//
// encoding/json compacts and escapes a json.RawMessage when it encodes it, and
// JSON may contain line feeds and bytes that are not UTF-8. So the bytes are
// written as they are where a line of UTF-8 can hold them, and as base64 in a
// member of another name where it cannot:
//
//	{"seq":7,"update":{"update_id":1}}
//	{"seq":7,"update_base64":"ewoidXBkYXRlX2lkIjoxfQ=="}
//
// Members and Elements take JSON apart without decoding it, so that what is wrong
// with one part of it costs nothing of the others.
package rawjson

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Append adds the member called name with the value raw to object, an encoded
// JSON object on one line, and returns the longer object. It may use the spare
// capacity of object. The name must need no escaping. Any bytes are accepted:
// what is not one line of valid JSON in UTF-8 without blanks around it, or is
// nested deeper than 9,000 levels, becomes the member name_base64.
func Append(object []byte, name string, raw []byte) ([]byte, error) {
	if len(object) < 2 || object[0] != '{' || object[len(object)-1] != '}' {
		return nil, errors.New("append raw json: not an object")
	}
	object = object[:len(object)-1]
	if len(object) > 1 {
		object = append(object, ',')
	}
	object = append(object, '"')
	object = append(object, name...)
	if isPlain(raw) {
		object = append(object, `":`...)
		object = append(object, raw...)
		return append(object, '}'), nil
	}
	object = append(object, `_base64":"`...)
	object = base64.StdEncoding.AppendEncode(object, raw)
	return append(object, `"}`...), nil
}

// Bytes returns the value from the two members as encoding/json decoded them:
// plain from name, a json.RawMessage, and encoded from name_base64. A nil
// result means that neither was there.
func Bytes(plain json.RawMessage, encoded *string) ([]byte, error) {
	if encoded == nil {
		return plain, nil
	}
	raw, err := base64.StdEncoding.DecodeString(*encoded)
	if err != nil {
		return nil, fmt.Errorf("decode raw json: %w", err)
	}
	return raw, nil
}

// maxNesting is how deep what stands in a line as it is may be nested. It is less
// than the 10,000 levels that encoding/json takes, by as many as a line may put
// around it and to spare.
const maxNesting = 9_000

// isPlain reports whether raw can stand in a line as it is and be decoded from
// it with the same bytes.
func isPlain(raw []byte) bool {
	return len(raw) > 0 &&
		(len(raw) <= maxNesting || nesting(raw) <= maxNesting) &&
		!bytes.ContainsAny(raw, "\r\n") &&
		len(bytes.TrimSpace(raw)) == len(raw) &&
		utf8.Valid(raw) &&
		json.Valid(raw)
}
