package botapitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// maxBody is the most that a request may carry: Telegram takes 50 MB files.
const maxBody = 55 << 20

var errBodyTooLarge = errors.New("request body too large")

// args are the arguments of a call, all as text, whatever they were sent as:
// numbers and objects in JSON keep their spelling. An argument in the query
// comes before one of the same name in the body.
type args struct {
	values map[string]string
	files  map[string]upload
}

// upload is a file that came with a call.
type upload struct {
	name string
	size int64
}

func (a args) text(name string) string { return a.values[name] }

func (a args) has(name string) bool { return a.values[name] != "" }

// number reads an integer the way the Bot API server does: the leading digits
// count, anything else is 0.
func (a args) number(name string) int64 { return leadingNumber(a.values[name]) }

// clamped is number for an argument of 32 bits, with a default for an absent
// one and moved into the range.
func (a args) clamped(name string, absent, low, high int32) int32 {
	if !a.has(name) {
		return absent
	}
	return max(low, min(high, int32(a.number(name))))
}

// truth reads a boolean: "true", "yes" and "1" are true.
func (a args) truth(name string) bool {
	switch strings.ToLower(a.values[name]) {
	case "true", "yes", "1":
		return true
	}
	return false
}

func leadingNumber(s string) int64 {
	digits := strings.TrimPrefix(s, "-")
	var n uint64
	for i := 0; i < len(digits) && '0' <= digits[i] && digits[i] <= '9'; i++ {
		n = n*10 + uint64(digits[i]-'0')
	}
	if len(digits) != len(s) {
		return -int64(n)
	}
	return int64(n)
}

// readArgs takes the arguments out of the query and the body, which is read
// to its end whatever it holds: net/http only notices that a client has gone
// once the body was read. Errors say what is wrong with the request, except
// errBodyTooLarge and those of the connection.
func readArgs(r *http.Request) (args, error) {
	a := args{values: make(map[string]string)}
	for name, values := range r.URL.Query() {
		a.add(name, values[0])
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return a, fmt.Errorf("read body: %w", err)
	}
	if len(body) > maxBody {
		return a, errBodyTooLarge
	}
	if len(body) == 0 {
		return a, nil
	}
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		return a, a.addJSON(body)
	case "multipart/form-data":
		return a, a.addMultipart(body, params["boundary"])
	default:
		return a, a.addForm(string(body))
	}
}

func (a *args) add(name, value string) {
	if _, ok := a.values[name]; !ok {
		a.values[name] = value
	}
}

func (a *args) addForm(body string) error {
	values, err := url.ParseQuery(body)
	if err != nil {
		return errors.New("can't parse parameters")
	}
	for name, v := range values {
		a.add(name, v[0])
	}
	return nil
}

// addJSON takes the members of a JSON object. null, as the whole body or as a
// member, is as if it were not there.
func (a *args) addJSON(body []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return errors.New("can't parse JSON object")
	}
	for name, raw := range members {
		switch {
		case bytes.Equal(raw, []byte("null")):
		case raw[0] == '"':
			var s string
			if err := json.Unmarshal(raw, &s); err != nil {
				return errors.New("can't parse JSON string")
			}
			a.add(name, s)
		default:
			a.add(name, string(raw))
		}
	}
	return nil
}

func (a *args) addMultipart(body []byte, boundary string) error {
	if boundary == "" {
		return errors.New("boundary in multipart/form-data not found")
	}
	reader := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := reader.NextRawPart()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return errors.New("can't parse multipart/form-data")
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return errors.New("can't parse multipart/form-data")
		}
		if part.FileName() == "" {
			a.add(part.FormName(), string(content))
			continue
		}
		if a.files == nil {
			a.files = make(map[string]upload)
		}
		a.files[part.FormName()] = upload{name: part.FileName(), size: int64(len(content))}
	}
}

// chatNumber is the chat_id argument as a number, 0 for a name.
func (a args) chatNumber() int64 {
	n, err := strconv.ParseInt(a.values["chat_id"], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
