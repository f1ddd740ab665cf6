package telegram_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"tgbridge/internal/telegram"
)

// unusable is the code of a row whose answer is neither success nor failure.
const unusable = -1

// TestResponses checks every line of responses.jsonl: what the client makes of
// it, and what the retry layer does. Actions: done (the result), true (success
// by another name), fail (the error, at once), again (a second request), moved
// (a second request, to the new chat), own (the bridge's own method, not for
// the retry layer).
func TestResponses(t *testing.T) {
	tests := []struct {
		name     string
		from, to int // lines, from 1
		code     int // 0 for success
		retry    time.Duration
		migrate  int64
		action   string
	}{
		{"token revoked", 1, 1, 401, 0, 0, "again"},
		{"token malformed", 2, 2, 401, 0, 0, "own"},
		{"token not found", 3, 3, 404, 0, 0, "again"},
		{"method not found", 4, 4, 404, 0, 0, "fail"},
		{"token filter", 5, 5, 421, 0, 0, "again"},
		{"logged out", 6, 6, 400, 0, 0, "own"},
		{"forbidden", 7, 16, 403, 0, 0, "fail"},
		{"conflict", 17, 19, 409, 0, 0, "own"},
		{"F16 not modified", 20, 20, 400, 0, 0, "true"},
		{"entities, edits", 21, 25, 400, 0, 0, "fail"},
		{"F16 already deleted", 26, 26, 400, 0, 0, "true"},
		{"F60 reply target, thread, topic", 27, 31, 400, 0, 0, "fail"},
		{"F16 topic not modified", 32, 32, 400, 0, 0, "true"},
		{"chat, length, text", 33, 38, 400, 0, 0, "fail"},
		{"F16 query too old", 39, 39, 400, 0, 0, "true"},
		{"files, rights, buttons, peers", 40, 50, 400, 0, 0, "fail"},
		{"F21 supergroup", 51, 52, 400, 0, -1001557912345, "moved"},
		{"too large", 53, 54, 413, 0, 0, "fail"},
		{"penalty", 55, 55, 429, 8 * time.Second, 0, "again"},
		{"F58 long penalty of an edit", 56, 56, 429, 137 * time.Second, 0, "again"},
		{"file queue full", 57, 57, 429, time.Minute, 0, "again"},
		{"F18 penalty of a poll", 58, 58, 429, 5 * time.Second, 0, "own"},
		{"penalty in the text", 59, 59, 429, 3 * time.Second, 0, "again"},
		{"bad gateway of a poll", 60, 61, 502, 0, 0, "own"},
		{"bad gateway", 62, 62, 502, 0, 0, "again"},
		{"gateway timeout of a poll", 63, 63, 504, 0, 0, "own"},
		{"outage", 64, 64, 500, 0, 0, "again"},
		{"restart", 65, 65, 500, 0, 0, "own"},
		{"deleted at once", 66, 66, 500, 0, 0, "fail"},
		{"empty body", 67, 67, 504, 0, 0, "again"},
		{"cut, empty", 68, 69, unusable, 0, 0, "own"},
		{"nothing new", 70, 70, 0, 0, 0, "own"},
		{"F16 typing", 71, 71, 0, 0, 0, "done"},
		{"F6 webhook deleted", 72, 73, 0, 0, 0, "own"},
		{"results of every type", 74, 81, 0, 0, 0, "done"},
		{"redirect of a poll", 82, 82, 302, 0, 0, "own"},
		{"redirect", 83, 83, 301, 0, 0, "again"},
		{"portal", 84, 84, unusable, 0, 0, "again"},
		{"not UTF-8", 85, 85, 0, 0, 0, "own"},
	}
	all := responses(t)
	next := 1
	for _, tt := range tests {
		if tt.from != next {
			t.Fatalf("%s begins at line %d, want %d", tt.name, tt.from, next)
		}
		next = tt.to + 1
		for line := tt.from; line <= tt.to; line++ {
			r := all[line-1]
			t.Run(tt.name+": "+r.When, func(t *testing.T) {
				client := serve(t, func(w http.ResponseWriter, _ *http.Request) { r.write(w) })
				result, err := client.Call(t.Context(), r.Method, nil)
				checkClass(t, err, tt.code, tt.retry, tt.migrate)
				synctest.Test(t, func(t *testing.T) { checkAction(t, r.Method, result, err, tt.action, tt.retry) })
			})
		}
	}
	if next != len(all)+1 {
		t.Errorf("the table ends before line %d of %d", next, len(all))
	}
}

// checkClass checks what the client made of an answer.
func checkClass(t *testing.T, err error, code int, retry time.Duration, migrate int64) {
	t.Helper()
	var e *telegram.Error
	var transport *telegram.TransportError
	switch {
	case code == 0:
		if err != nil {
			t.Errorf("error: %v, want none", err)
		}
		return
	case code == unusable:
		if !errors.As(err, &transport) || !transport.Sent {
			t.Errorf("error: %v, want a *TransportError of a request that was sent", err)
		}
	case !errors.As(err, &e):
		t.Fatalf("error: %v, want *Error", err)
	case e.Code != code || e.RetryAfter != retry || e.MigrateTo != migrate:
		t.Errorf("code %d, retry after %v, migrate to %d, want %d, %v, %d", e.Code, e.RetryAfter, e.MigrateTo, code, retry, migrate)
	case e.Description == "" || strings.Contains(e.Description, "<"):
		if !strings.Contains(e.Description, "start tag") {
			t.Errorf("description %q", e.Description)
		}
	}
	if telegram.SurelyNoEffect(err) {
		t.Errorf("SurelyNoEffect(%v) = true", err)
	}
	noSecret(t, err.Error())
}

// checkAction gives the API the client's first outcome, then a success.
func checkAction(t *testing.T, method string, result json.RawMessage, err error, action string, retry time.Duration) {
	t.Helper()
	noSecret(t, string(result))
	caller := &script{outcomes: []outcome{{result: string(result), err: err}, {result: `"again"`}}}
	api, newErr := telegram.NewAPI(caller, telegram.APIOptions{})
	if newErr != nil {
		t.Fatal(newErr)
	}
	begin := time.Now()
	got, gotErr := api.Call(t.Context(), method, map[string]string{"chat_id": "-4019283746", "text": "x"})
	took := time.Since(begin)
	want := map[string]string{"done": string(result), "true": "true", "again": `"again"`, "moved": `"again"`}[action]
	requests := map[string]int{"done": 1, "true": 1, "fail": 1, "again": 2, "moved": 2, "own": 0}[action]
	if string(got) != want {
		t.Errorf("result %s, want %s", got, want)
	}
	if len(caller.calls) != requests {
		t.Errorf("%d requests, want %d", len(caller.calls), requests)
	}
	switch action {
	case "fail":
		if !errors.Is(gotErr, err) || errors.Is(gotErr, telegram.ErrOutcomeUnknown) {
			t.Errorf("error: %v, want %v", gotErr, err)
		}
	case "own":
		if !errors.Is(gotErr, telegram.ErrMethodRefused) {
			t.Errorf("error: %v, want ErrMethodRefused", gotErr)
		}
	default:
		if gotErr != nil {
			t.Errorf("error: %v", gotErr)
		}
	}
	if retry > 0 && action == "again" && took != retry {
		t.Errorf("waited %v, want %v", took, retry)
	}
	if retry == 0 && took > 2*time.Second {
		t.Errorf("waited %v", took)
	}
	if action == "moved" && caller.calls[1].params["chat_id"] != "-1001557912345" {
		t.Errorf("second request went to %s", caller.calls[1].params["chat_id"])
	}
}

// TestOddAnswers checks answers that no line of responses.jsonl has.
func TestOddAnswers(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	in40 := time.Now().Add(40 * time.Second).UTC().Format(http.TimeFormat)
	tests := []struct {
		name    string
		status  int
		retry   string // header
		body    string
		cut     error
		result  string // of a success
		code    int
		after   time.Duration
		migrate int64
		text    string
	}{
		{name: "no result", status: 200, body: `{"ok":true}`, result: "null"},
		{name: "success beside a failure's status", status: 502, body: `{"ok":true,"result":1}`, result: "1"},
		{name: "failure beside a success's status", status: 200, body: `{"ok":false,"error_code":403,"description":"Forbidden"}`, code: 403, text: "Forbidden"},
		{name: "failure without a code", status: 200, body: `{"ok":false}`, code: 200, text: "no description"},
		{name: "code in a string", status: 429, body: `{"ok":false,"error_code":"420","description":"FLOOD","parameters":{"retry_after":"7"}}`, code: 420, after: 7 * time.Second, text: "FLOOD"},
		{name: "parameters of another type", status: 429, retry: "9", body: `{"ok":false,"error_code":429,"description":"x","parameters":[1]}`, code: 429, after: 9 * time.Second, text: "x"},
		{name: "description of another type", status: 400, body: `{"ok":false,"error_code":400,"description":{"a":1},"parameters":{"migrate_to_chat_id":-1001557912345}}`, code: 400, migrate: -1001557912345, text: "Bad Request"},
		{name: "parameter before header", status: 429, retry: "9", body: `{"ok":false,"error_code":429,"parameters":{"retry_after":4}}`, code: 429, after: 4 * time.Second, text: "Too Many Requests"},
		{name: "header alone, HTML", status: 429, retry: "30", body: "<html>", code: 429, after: 30 * time.Second, text: "Too Many Requests"},
		{name: "date in the header", status: 503, retry: in40, body: "", code: 503, after: 39 * time.Second, text: "Service Unavailable"},
		{name: "no number anywhere", status: 429, retry: "soon", body: `{"ok":false,"error_code":429,"description":"retry after lunch"}`, code: 429, text: "retry after lunch"},
		{name: "huge number", status: 429, body: `{"ok":false,"error_code":429,"description":"x","parameters":{"retry_after":9223372036854775807}}`, code: 429, after: century, text: "x"},
		{name: "number beyond all numbers", status: 429, body: `{"ok":false,"error_code":429,"description":"x","parameters":{"retry_after":1e999}}`, code: 429, after: century, text: "x"},
		{name: "huge number in the header", status: 429, retry: "99999999999999999999", code: 429, after: century, text: "Too Many Requests"},
		{name: "huge number in the text", status: 429, body: `{"ok":false,"error_code":429,"description":"retry after 1000000000000000000000"}`, code: 429, after: century, text: "retry after"},
		{name: "number with an exponent", status: 429, body: `{"ok":false,"error_code":429,"description":"x","parameters":{"retry_after":1e12}}`, code: 429, after: century, text: "x"},
		{name: "number with a fraction", status: 429, body: `{"ok":false,"error_code":429,"description":"x","parameters":{"retry_after":2.25}}`, code: 429, after: 3 * time.Second, text: "x"},
		{name: "number in a string", status: 429, body: `{"ok":false,"error_code":429,"description":"x","parameters":{"retry_after":"12"}}`, code: 429, after: 12 * time.Second, text: "x"},
		{name: "text for a number", status: 429, retry: "6", body: `{"ok":false,"error_code":429,"description":"x","parameters":{"retry_after":"soon"}}`, code: 429, after: 6 * time.Second, text: "x"},
		{name: "no number, NaN", status: 429, body: `{"ok":false,"error_code":429,"description":"x","parameters":{"retry_after":"NaN"}}`, code: 429, text: "x"},
		{name: "negative parameter", status: 429, body: `{"ok":false,"error_code":429,"description":"x","parameters":{"retry_after":-5}}`, code: 429, text: "x"},
		{name: "negative number", status: 429, retry: "-5", body: "", code: 429, text: "Too Many Requests"},
		{name: "null", status: 429, body: `{"ok":false,"error_code":429,"description":"x","parameters":{"retry_after":null}}`, code: 429, text: "x"},
		{name: "failure cut in the body", status: 429, retry: "5", body: `{"ok":false,"error_c`, cut: io.ErrUnexpectedEOF, code: 429, after: 5 * time.Second, text: "Too Many Requests"},
		{name: "success cut in the body", status: 200, body: `{"ok":true,"resu`, cut: io.ErrUnexpectedEOF, code: unusable, text: "read answer: unexpected EOF"},
		{name: "damaged", status: 200, body: `{"ok":true,"result":`, code: unusable, text: "damaged answer with status 200"},
		{name: "two answers", status: 200, body: `{"ok":true,"result":1}{"ok":true,"result":1}`, code: unusable, text: "damaged answer"},
		{name: "ok of another type", status: 200, body: `{"ok":"true","result":1}`, code: unusable, text: "damaged answer"},
		{name: "other JSON", status: 200, body: `[]`, code: unusable, text: "something else than an answer of the Bot API"},
		{name: "unknown status", status: 599, body: "", code: 599, text: "no description"},
		{name: "G8 token in the text", status: 400, body: `{"ok":false,"error_code":400,"description":"no ` + secretPart + `\nhere\u001b[31m"}`, code: 400, text: "no [secret] here [31m"},
		{name: "long text", status: 400, body: `{"ok":false,"error_code":400,"description":"` + strings.Repeat("é", 400) + `"}`, code: 400, text: strings.Repeat("é", 300) + "..."},
		{name: "redirect to nowhere", status: 301, body: "", code: 301, text: "Moved Permanently"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			header := http.Header{}
			if tt.retry != "" {
				header.Set("Retry-After", tt.retry)
			}
			result, err := telegram.DecodeAnswer(secretPart, "sendMessage", tt.status, header, []byte(tt.body), tt.cut)
			if string(result) != tt.result {
				t.Errorf("result %s, want %s", result, tt.result)
			}
			var e *telegram.Error
			if errors.As(err, &e) && tt.name == "date in the header" {
				e.RetryAfter = e.RetryAfter.Truncate(39 * time.Second)
			}
			checkClass(t, err, tt.code, tt.after, tt.migrate)
			if tt.text != "" && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %q, want %q in it", err, tt.text)
			}
		})
	}
}

// FuzzDecodeAnswer checks that any answer is a success or one of the two
// errors, and that neither shows the token.
func FuzzDecodeAnswer(f *testing.F) {
	for _, r := range responses(f) {
		f.Add(r.Status, r.Headers["Retry-After"], []byte(r.Body))
	}
	f.Fuzz(func(t *testing.T, status int, retry string, body []byte) {
		header := http.Header{"Retry-After": {retry}, "Location": {string(body)}}
		result, err := telegram.DecodeAnswer(secretPart, "sendMessage", status, header, body, nil)
		if err == nil {
			if !json.Valid(result) {
				t.Fatalf("result %q", result)
			}
			return
		}
		var e *telegram.Error
		var transport *telegram.TransportError
		switch {
		case errors.As(err, &e):
			if e.RetryAfter < 0 || e.RetryAfter > 100*365*24*time.Hour && len(retry) < 20 {
				t.Fatalf("retry after %v", e.RetryAfter)
			}
		case !errors.As(err, &transport):
			t.Fatalf("error of type %T", err)
		}
		noSecret(t, err.Error())
		if strings.ContainsFunc(err.Error(), unicode.IsControl) {
			t.Fatalf("error with control characters: %q", err)
		}
	})
}
