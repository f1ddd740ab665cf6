package telegram

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"tgbridge/internal/rawjson"
)

// maxDescription bounds what is kept of a server's text, in characters.
const maxDescription = 300

// answer is what came back for one request.
type answer struct {
	method string
	status int
	header http.Header
	body   []byte
	cut    error // why the body is not whole, nil if it is
}

// envelope is the outer object of an answer. What is judged stays raw, so that
// a member of another type costs us nothing of the rest.
type envelope struct {
	OK          json.RawMessage `json:"ok"`
	Result      json.RawMessage `json:"result"`
	ErrorCode   json.RawMessage `json:"error_code"`
	Description string          `json:"description"`
	Parameters  struct {
		RetryAfter      json.RawMessage `json:"retry_after"`
		MigrateToChatID json.RawMessage `json:"migrate_to_chat_id"`
	} `json:"parameters"`
}

// decode tells success from failure: by the member ok where the answer is the
// Bot API's, else by the HTTP status. A body that is no Bot API answer beside
// a status of success is a *TransportError, as it is not Telegram that spoke.
func (r redactor) decode(a answer) (json.RawMessage, error) {
	env, ok := parseEnvelope(a)
	if ok && string(env.OK) == "true" {
		if env.Result == nil {
			return json.RawMessage("null"), nil
		}
		return env.Result, nil
	}
	if !ok && a.status < 300 {
		return nil, &TransportError{Method: a.method, Sent: true, Err: r.err(a.unusable())}
	}
	e := &Error{Method: a.method, Status: a.status, Code: a.status, Foreign: !ok}
	if code := laxInt(env.ErrorCode); code > 0 && code < 1000 {
		e.Code = int(code)
	}
	description := env.Description
	if description == "" {
		description = a.statusText()
	}
	e.Description = clean(r.text(description))
	e.MigrateTo = laxInt(env.Parameters.MigrateToChatID)
	e.RetryAfter = retryAfter(env, a.header, e.Code)
	return nil, e
}

// updates returns the elements of a success whose result is a list, each as it
// came, without a look at what is in them.
func (a answer) updates() ([]json.RawMessage, bool) {
	if a.cut != nil {
		return nil, false
	}
	var ok, result []byte
	whole := rawjson.Members(a.body, func(name, value []byte) {
		switch string(name) {
		case "ok":
			ok = value
		case "result":
			result = value
		}
	})
	if !whole || string(ok) != "true" {
		return nil, false
	}
	return rawjson.Elements(result)
}

// parseEnvelope reports whether the body is a whole answer of the Bot API.
func parseEnvelope(a answer) (envelope, bool) {
	var env envelope
	if a.cut != nil {
		return env, false
	}
	err := json.Unmarshal(a.body, &env)
	var mismatch *json.UnmarshalTypeError
	if err != nil && !errors.As(err, &mismatch) {
		return envelope{}, false
	}
	return env, string(env.OK) == "true" || string(env.OK) == "false"
}

// unusable says why an answer with a status of success cannot be used.
func (a answer) unusable() error {
	switch {
	case a.cut != nil:
		return fmt.Errorf("read answer: %w", a.cut)
	case len(a.body) == 0:
		return fmt.Errorf("empty answer with status %d", a.status)
	case bytes.HasPrefix(bytes.TrimSpace(a.body), []byte("{")):
		return fmt.Errorf("damaged answer with status %d", a.status)
	default:
		return fmt.Errorf("status %d with something else than an answer of the Bot API; a proxy or portal may stand in between", a.status)
	}
}

// statusText describes an answer that has no text of Telegram's.
func (a answer) statusText() string {
	text := http.StatusText(a.status)
	if text == "" || a.status < 300 {
		text = "no description"
	}
	if a.status < 300 || a.status > 399 {
		return text
	}
	// The path of the location may hold the token, and says nothing.
	if u, err := url.Parse(a.header.Get("Location")); err == nil && u.Host != "" {
		return fmt.Sprintf("%s: redirected to %s://%s, which is not followed", text, u.Scheme, u.Host)
	}
	return text
}

// retryAfter finds how long to wait: the parameter, else the header, else,
// for 429, the number in the text.
func retryAfter(env envelope, header http.Header, code int) time.Duration {
	if d := seconds(strings.Trim(string(env.Parameters.RetryAfter), `"`)); d > 0 {
		return d
	}
	if value := header.Get("Retry-After"); value != "" {
		if d := seconds(value); d > 0 {
			return d
		}
		if at, err := http.ParseTime(value); err == nil {
			return max(0, time.Until(at))
		}
	}
	if code != http.StatusTooManyRequests {
		return 0
	}
	_, text, _ := strings.Cut(strings.ToLower(env.Description), "retry after ")
	digits := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if digits < 0 {
		digits = len(text)
	}
	return seconds(text[:digits])
}

// seconds reads a number of seconds, also with a fraction or an exponent, and
// rounds up. What is not above 0, or no number, is 0; years are as good as any
// more.
func seconds(text string) time.Duration {
	const years = 100 * 365 * 24 * 60 * 60
	s, err := strconv.ParseFloat(text, 64)
	if errors.Is(err, strconv.ErrRange) && s > 0 {
		err = nil // infinite
	}
	if err != nil || !(s > 0) { // also NaN
		return 0
	}
	return time.Duration(math.Ceil(min(s, years))) * time.Second
}

// laxInt reads an integer, also one in a string; 0 for anything else.
func laxInt(raw json.RawMessage) int64 {
	n, err := strconv.ParseInt(strings.Trim(string(raw), `"`), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// clean makes a server's text fit for one line of a log.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if runes := []rune(s); len(runes) > maxDescription {
		s = string(runes[:maxDescription]) + "..."
	}
	return s
}
