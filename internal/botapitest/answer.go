package botapitest

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// An Answer is one HTTP response as it is sent.
type Answer struct {
	// Status is the HTTP status; 0 means 200.
	Status int
	// Headers are set in addition to Content-Type: application/json, which
	// they may replace.
	Headers map[string]string
	// Body is sent as it is; an empty one must not be nil.
	Body []byte
}

// UnmarshalJSON reads the members status, headers and body, a string; where
// body_base64 is present it is the body instead.
func (a *Answer) UnmarshalJSON(text []byte) error {
	var members struct {
		Status     int
		Headers    map[string]string
		Body       string
		BodyBase64 []byte `json:"body_base64"`
	}
	if err := json.Unmarshal(text, &members); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	*a = Answer{Status: members.Status, Headers: members.Headers, Body: members.BodyBase64}
	if a.Body == nil {
		a.Body = []byte(members.Body)
	}
	return nil
}

// refusal is an error answer of the Bot API.
type refusal struct {
	code        int
	description string
	retryAfter  int   // seconds, 0 for none
	migrateTo   int64 // chat id, 0 for none
}

func badRequest(description string) *refusal {
	return &refusal{code: 400, description: "Bad Request: " + description}
}

// tooMany is the refusal of a rate limit that passes after wait, which is
// rounded up to whole seconds.
func tooMany(wait time.Duration) *refusal {
	seconds := max(1, int(math.Ceil(wait.Seconds())))
	return &refusal{code: 429, description: "Too Many Requests: retry after " + strconv.Itoa(seconds), retryAfter: seconds}
}

func (r *refusal) answer() Answer {
	var o object
	o.bool("ok", false)
	o.number("error_code", int64(r.code))
	o.text("description", r.description)
	a := Answer{Status: r.code}
	switch {
	case r.retryAfter != 0:
		var p object
		p.number("retry_after", int64(r.retryAfter))
		o.raw("parameters", p.close())
		a.Headers = map[string]string{"Retry-After": strconv.Itoa(r.retryAfter)}
	case r.migrateTo != 0:
		var p object
		p.number("migrate_to_chat_id", r.migrateTo)
		o.raw("parameters", p.close())
	}
	a.Body = o.close()
	return a
}

// success is the answer with result, printed JSON, and description beside it
// unless that is empty.
func success(result []byte, description string) Answer {
	b := make([]byte, 0, len(result)+64)
	b = append(b, `{"ok":true,"result":`...)
	b = append(b, result...)
	if description != "" {
		b = append(b, `,"description":`...)
		b = appendString(b, description)
	}
	return Answer{Status: 200, Body: append(b, '}')}
}

var jsonTrue = []byte("true")
