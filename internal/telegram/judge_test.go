package telegram_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"tgbridge/internal/telegram"
)

// What an answer that stands for good means to a call.
const (
	done      = "done"      // one request, success
	permanent = "permanent" // one request: the answer is about this call
	unknown   = "unknown"   // one request, and nobody knows what it did
	passing   = "passing"   // repeated for as long as is allowed; surely no effect
	outage    = "outage"    // repeated likewise; every request may have had its effect
	penalty   = "penalty"   // repeated when the penalty is over, without end
)

// TestAnswers is the table of what every class of answer means to sendMessage
// (G7), by HTTP status, in the words of the Bot API and in those of somebody
// else.
func TestAnswers(t *testing.T) {
	api := func(code int, description string) string {
		return fmt.Sprintf(`{"ok":false,"error_code":%d,"description":%q}`, code, description)
	}
	const html = "<html><head><title>answer</title></head></html>"
	tests := []struct {
		name   string
		status int
		body   string
		class  string
	}{
		{"200", 200, `{"ok":true,"result":{}}`, done},
		{"200 with another's page", 200, html, unknown},
		{"200 empty", 200, "", unknown},
		{"200 cut", 200, `{"ok":true,"res`, unknown},
		{"204 empty", 204, "", unknown},
		{"200 without ok", 200, `{"ok":false}`, permanent},
		{"200 with a code", 200, api(403, "Forbidden: bot was blocked by the user"), permanent},
		{"300", 300, html, passing},
		{"301", 301, html, passing},
		{"302", 302, html, passing},
		{"303", 303, "", passing},
		{"307", 307, html, passing},
		{"308", 308, html, passing},
		{"400", 400, api(400, "Bad Request: chat not found"), permanent},
		{"400 logged out", 400, api(400, "Logged out"), passing},
		{"400 another's", 400, html, permanent},
		{"401", 401, api(401, "Unauthorized"), passing},
		{"401 another's", 401, html, passing},
		{"402 another's", 402, html, passing},
		{"403", 403, api(403, "Forbidden: bot was blocked by the user"), permanent},
		{"403 another's", 403, html, passing},
		{"404 token", 404, api(404, "Not Found"), passing},
		{"404 method", 404, api(404, "Not Found: method not found"), permanent},
		{"404 another's", 404, html, passing},
		{"405 another's", 405, html, passing},
		{"406", 406, api(406, "Not Acceptable"), permanent},
		{"407 another's", 407, html, passing},
		{"408 another's", 408, html, passing},
		{"409", 409, api(409, "Conflict"), permanent},
		{"413", 413, api(413, "Request Entity Too Large"), permanent},
		{"413 another's", 413, html, permanent},
		{"414 another's", 414, html, permanent},
		{"421", 421, api(421, "Misdirected Request: unallowed token specified"), passing},
		{"425 another's", 425, html, passing},
		{"429", 429, api(429, "Too Many Requests"), penalty},
		{"429 retry after", 429, api(429, "Too Many Requests: retry after 9"), penalty},
		{"429 another's", 429, html, penalty},
		{"431 another's", 431, html, permanent},
		{"451 another's", 451, html, passing},
		{"500", 500, api(500, "Internal Server Error"), outage},
		{"500 deleted at once", 500, api(500, "Internal Server Error: sent message was immediately deleted and can't be returned"), permanent},
		{"500 another's", 500, html, outage},
		{"502", 502, api(502, "Bad Gateway"), outage},
		{"502 another's", 502, html, outage},
		{"503 empty", 503, "", outage},
		{"504 another's", 504, html, outage},
		{"511 portal", 511, html, outage},
		{"599", 599, "", outage},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			result, err := telegram.DecodeAnswer(secretPart, "sendMessage", tt.status, http.Header{}, []byte(tt.body), nil)
			synctest.Test(t, func(t *testing.T) {
				if got := classOf(t, string(result), err); got != tt.class {
					t.Errorf("class %s, want %s (%v)", got, tt.class, err)
				}
			})
		})
	}
}

// classOf lets an API have the same outcome for 20 minutes.
func classOf(t *testing.T, result string, outcomeErr error) string {
	t.Helper()
	caller := &script{outcomes: []outcome{{result: result, err: outcomeErr}}}
	api := newAPI(t, caller, telegram.APIOptions{})
	begin := time.Now()
	time.AfterFunc(20*time.Minute, func() {
		caller.mu.Lock()
		defer caller.mu.Unlock()
		caller.outcomes = []outcome{{result: `"late"`}}
	})
	got, err := api.Call(t.Context(), "sendMessage", to("1"))
	isUnknown, once, took := errors.Is(err, telegram.ErrOutcomeUnknown), len(caller.calls) == 1, time.Since(begin)
	if may := telegram.MayPass("sendMessage", err); may != (err != nil && !once) {
		t.Errorf("MayPass says %v after %d requests", may, len(caller.calls))
	}
	switch {
	case err == nil && once:
		return done
	case err == nil && string(got) == `"late"`:
		return penalty
	case once && isUnknown:
		return unknown
	case once:
		return permanent
	case took < 4*time.Minute || took > 5*time.Minute:
		return fmt.Sprint("ended after ", took)
	case isUnknown:
		return outage
	default:
		return passing
	}
}

// TestAnswersToOtherMethods: what nobody but this server may know is refused for
// good with a 404.
func TestAnswersToOtherMethods(t *testing.T) {
	notFound := &telegram.Error{Status: 404, Code: 404, Description: "Not Found"}
	for method, may := range map[string]bool{"sendMessage": true, "GETME": true, "sendMessageDraft": false, "sendRichMessage": false} {
		if got := telegram.MayPass(method, notFound); got != may {
			t.Errorf("MayPass(%s, 404) = %v", method, got)
		}
	}
}

// TestPenaltyThatIsAbsurd: a penalty of years is obeyed for an hour, then asked
// again; the log says what was asked for.
func TestPenaltyThatIsAbsurd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		caller := &script{outcomes: []outcome{{err: tooMany(1e12)}, {err: tooMany(100 * 365 * 24 * time.Hour)}, {result: "7"}}}
		api := newAPI(t, caller, telegram.APIOptions{Logger: zerolog.New(&log)})
		begin := time.Now()
		if result, err := api.Call(t.Context(), "sendMessage", to("1")); string(result) != "7" || err != nil {
			t.Errorf("%s, %v", result, err)
		}
		if got := fmt.Sprint(caller.times(begin)); got != "[0 1000 4600]" {
			t.Errorf("requests at %s, want 0, 1000 and 4600 s", got)
		}
		var lines []struct {
			Message string
			Delay   float64
			Asked   float64
		}
		for text := range strings.Lines(log.String()) {
			lines = append(lines, struct {
				Message string
				Delay   float64
				Asked   float64
			}{})
			if err := json.Unmarshal([]byte(text), &lines[len(lines)-1]); err != nil {
				t.Fatal(err)
			}
		}
		if len(lines) != 2 || lines[0].Message != "telegram call is repeated" || lines[0].Asked != 0 ||
			lines[1].Message != "telegram call is repeated, sooner than was asked for" || lines[1].Delay != 3_600_000 || lines[1].Asked != 3_153_600_000_000 {
			t.Errorf("log %s", log.String())
		}
	})
}

// TestOutageThatIsToLastLong: a 5xx that names a time beyond what a call may wait
// is asked once more when that has passed.
func TestOutageThatIsToLastLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		later := &telegram.Error{Method: "sendMessage", Status: 503, Code: 503, Description: "x", RetryAfter: 24 * time.Hour}
		caller := &script{outcomes: []outcome{{err: later}}}
		begin := time.Now()
		_, err := newAPI(t, caller, telegram.APIOptions{}).Call(t.Context(), "sendMessage", to("1"))
		if !errors.Is(err, later) || !errors.Is(err, telegram.ErrOutcomeUnknown) {
			t.Errorf("error %v", err)
		}
		if got := fmt.Sprint(caller.times(begin)); got != "[0 300]" {
			t.Errorf("requests at %s, want 0 and 300 s", got)
		}
	})
}
