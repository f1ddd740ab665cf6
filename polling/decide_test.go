package polling_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tgbridge/polling"
)

// source is what a Source makes of an HTTP answer: the contract of
// Source.GetUpdates in a few lines.
func source(status int, body []byte) ([]json.RawMessage, error) {
	var answer struct {
		OK          *bool             `json:"ok"`
		Result      []json.RawMessage `json:"result"`
		Code        int               `json:"error_code"`
		Description string            `json:"description"`
		Parameters  struct {
			RetryAfter int `json:"retry_after"`
		} `json:"parameters"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.OK == nil {
		return nil, fmt.Errorf("no answer of the Bot API (status %d)", status)
	}
	if !*answer.OK {
		return nil, &polling.APIError{
			Code: answer.Code, Description: answer.Description,
			RetryAfter: time.Duration(answer.Parameters.RetryAfter) * time.Second,
		}
	}
	return answer.Result, nil
}

// TestRecordedAnswers maps every recorded answer of getUpdates to what is done
// next, by a poller whose token is proven and that asked with offset 42.
func TestRecordedAnswers(t *testing.T) {
	wait := func(d time.Duration) polling.Decision {
		return polling.Decision{Verb: "poll", Wait: d, Offset: 42, HasOffset: true, Failures: 1}
	}
	goOn := func(offset int64) polling.Decision {
		return polling.Decision{Verb: "poll", Offset: offset, HasOffset: true}
	}
	failure := wait(100 * time.Millisecond)
	want := []polling.Decision{
		failure,               // 401 Unauthorized
		failure,               // 400 Logged out
		failure,               // 409 other getUpdates
		{Verb: "end"},         // 409 webhook is active
		{Verb: "end"},         // 409 terminated by setWebhook
		wait(5 * time.Second), // 429 retry after 5
		failure,               // 502
		failure,               // 502
		failure,               // 504
		failure,               // 500 restart
		failure,               // 200, cut
		failure,               // 200, empty body
		goOn(42),              // 200, nothing new
		failure,               // 302
		goOn(900000902),       // bytes that are not UTF-8
	}
	f, err := os.Open("testdata/responses.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	i := 0
	for ; lines.Scan(); i++ {
		var line struct {
			Status int    `json:"status"`
			Body   string `json:"body"`
			Exact  string `json:"body_base64"`
			When   string `json:"when"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if i >= len(want) {
			t.Fatalf("no expectation for %q", line.When)
		}
		t.Run(fmt.Sprintf("%d %s", line.Status, line.When), func(t *testing.T) {
			body := []byte(line.Body)
			if line.Exact != "" {
				if body, err = base64.StdEncoding.DecodeString(line.Exact); err != nil {
					t.Fatal(err)
				}
			}
			elements, err := source(line.Status, body)
			before := polling.Before{Offset: 42, HasOffset: true, Proven: true}
			got := before.AfterPoll(elements, err, 50*time.Second)
			if want[i].Verb == "end" {
				if !errors.Is(got.Err, polling.ErrWebhookSet) {
					t.Errorf("cause = %v, want ErrWebhookSet", got.Err)
				}
				got = polling.Decision{Verb: got.Verb}
			}
			if diff := cmp.Diff(want[i], got); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
	if i != len(want) {
		t.Errorf("%d recorded answers, want %d", i, len(want))
	}
}

func TestDecisions(t *testing.T) {
	ids := func(ids ...int64) (out []json.RawMessage) {
		for _, id := range ids {
			out = append(out, element(id))
		}
		return out
	}
	bad := json.RawMessage(`{"update_id":null}`)
	long := 50 * time.Second
	tests := []struct {
		name     string
		before   polling.Before
		elements []json.RawMessage
		err      error
		took     time.Duration
		want     polling.Decision
		cause    error
	}{
		{"first answer", polling.Before{}, ids(3, 4), nil, 0,
			polling.Decision{Verb: "poll", Offset: 5, HasOffset: true}, nil},
		{"first answer empty", polling.Before{}, nil, nil, long,
			polling.Decision{Verb: "poll"}, nil},
		{"success forgets failures", polling.Before{Failures: 5}, ids(3), nil, 0,
			polling.Decision{Verb: "poll", Offset: 4, HasOffset: true}, nil},
		{"offset falls", polling.Before{Offset: 900, HasOffset: true}, ids(3), nil, 0,
			polling.Decision{Verb: "poll", Offset: 4, HasOffset: true}, nil},
		{"last id, not the highest", polling.Before{}, ids(2147483647, 3), nil, 0,
			polling.Decision{Verb: "poll", Offset: 4, HasOffset: true}, nil},
		{"id 0", polling.Before{}, ids(0), nil, 0,
			polling.Decision{Verb: "poll", Offset: 1, HasOffset: true}, nil},
		{"unreadable at the end", polling.Before{}, append(ids(3), bad), nil, 0,
			polling.Decision{Verb: "poll", Offset: 4, HasOffset: true}, nil},
		{"only unreadable", polling.Before{Offset: 4, HasOffset: true}, []json.RawMessage{bad}, nil, 0,
			polling.Decision{Verb: "poll", Wait: 100 * time.Millisecond, Offset: 4, HasOffset: true, Failures: 1}, nil},
		{"what was confirmed comes again", polling.Before{Offset: 4, HasOffset: true}, ids(3), nil, 0,
			polling.Decision{Verb: "poll", Wait: 100 * time.Millisecond, Offset: 4, HasOffset: true, Failures: 1}, nil},
		{"empty too soon", polling.Before{}, nil, nil, 10 * time.Millisecond,
			polling.Decision{Verb: "poll", Wait: 100 * time.Millisecond}, nil},
		{"token refused at start", polling.Before{}, nil, api(401, "Unauthorized"), 0,
			polling.Decision{Verb: "end"}, polling.ErrTokenRefused},
		{"404 at start", polling.Before{}, nil, api(404, "Not Found"), 0,
			polling.Decision{Verb: "end"}, polling.ErrTokenRefused},
		{"404 later", polling.Before{Proven: true, Failures: 3}, nil, api(404, "Not Found"), 0,
			polling.Decision{Verb: "poll", Wait: 800 * time.Millisecond, Failures: 4}, nil},
		{"wrapped error", polling.Before{}, nil, fmt.Errorf("poll: %w", api(401, "Unauthorized")), 0,
			polling.Decision{Verb: "end"}, polling.ErrTokenRefused},
		{"conflict, many", polling.Before{Failures: 50}, nil, errConflict, 0,
			polling.Decision{Verb: "poll", Wait: 10 * time.Second, Failures: 51}, nil},
		{"outage, many", polling.Before{Failures: 50}, nil, io.EOF, 0,
			polling.Decision{Verb: "poll", Wait: 15 * time.Second, Failures: 51}, nil},
		{"outage, jitter", polling.Before{Failures: 50, Jitter: 0.8}, nil, io.EOF, 0,
			polling.Decision{Verb: "poll", Wait: 12 * time.Second, Failures: 51}, nil},
		{"409 in other words is another poller", polling.Before{}, nil, api(409, "Conflict"), 0,
			polling.Decision{Verb: "poll", Wait: 100 * time.Millisecond, Failures: 1}, nil},
		{"webhook deleted at once", polling.Before{DeleteWebhook: true}, nil, errWebhook, 0,
			polling.Decision{Verb: "delete webhook", Failures: 1}, nil},
		{"webhook again", polling.Before{DeleteWebhook: true, Failures: 1}, nil, errWebhook, 0,
			polling.Decision{Verb: "delete webhook", Wait: 200 * time.Millisecond, Failures: 2}, nil},
		{"webhook kept", polling.Before{Failures: 9}, nil, errWebhook, 0,
			polling.Decision{Verb: "end"}, polling.ErrWebhookSet},
		{"429, number in the text alone", polling.Before{Jitter: 0.9}, nil, api(429, "Too Many Requests: retry after 3"), 0,
			polling.Decision{Verb: "poll", Wait: 3 * time.Second, Failures: 1}, nil},
		{"429, no number", polling.Before{}, nil, api(429, "Too Many Requests"), 0,
			polling.Decision{Verb: "poll", Wait: 100 * time.Millisecond, Failures: 1}, nil},
		{"429, absurd number", polling.Before{}, nil, api(429, "retry after 99999999999999999999"), 0,
			polling.Decision{Verb: "poll", Wait: time.Hour, Failures: 1}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.before.AfterPoll(tt.elements, tt.err, tt.took)
			if !errors.Is(got.Err, tt.cause) {
				t.Errorf("cause = %v, want %v", got.Err, tt.cause)
			}
			ignore := cmpopts.IgnoreFields(polling.Decision{}, "Err")
			if tt.want.Verb == "end" {
				ignore = cmpopts.IgnoreFields(polling.Decision{}, "Err", "Failures")
			}
			if diff := cmp.Diff(tt.want, got, ignore); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOtherDecisions(t *testing.T) {
	before := polling.Before{Failures: 1, Proven: true, DeleteWebhook: true}
	boom := errors.New("boom")
	tests := []struct {
		name string
		got  polling.Decision
		want polling.Decision
		err  error
	}{
		{"webhook deleted", before.AfterDeletion(nil), polling.Decision{Verb: "poll", Failures: 1}, nil},
		{"deletion failed", before.AfterDeletion(io.EOF),
			polling.Decision{Verb: "poll", Wait: 200 * time.Millisecond, Failures: 2}, nil},
		{"deletion conflicts", before.AfterDeletion(errWebhook),
			polling.Decision{Verb: "poll", Wait: 200 * time.Millisecond, Failures: 2}, nil},
		{"deletion limited", before.AfterDeletion(api(429, "retry after 7")),
			polling.Decision{Verb: "poll", Wait: 7 * time.Second, Failures: 2}, nil},
		{"disk full", before.AfterCommit(fmt.Errorf("write: %w", syscall.ENOSPC)),
			polling.Decision{Verb: "commit", Wait: 200 * time.Millisecond, Failures: 2}, nil},
		{"quota", before.AfterCommit(syscall.EDQUOT),
			polling.Decision{Verb: "commit", Wait: 200 * time.Millisecond, Failures: 2}, nil},
		{"sink failed", before.AfterCommit(boom), polling.Decision{Verb: "end", Failures: 1}, boom},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !errors.Is(tt.got.Err, tt.err) || (tt.err != nil && !errors.Is(tt.got.Err, polling.ErrSinkFailed)) {
				t.Errorf("cause = %v, want %v", tt.got.Err, tt.err)
			}
			if diff := cmp.Diff(tt.want, tt.got, cmpopts.IgnoreFields(polling.Decision{}, "Err")); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBackOff(t *testing.T) {
	tests := []struct {
		failures int
		limit    time.Duration
		jitter   float64
		want     time.Duration
	}{
		{0, polling.FailureCap, 0, 100 * time.Millisecond},
		{1, polling.FailureCap, 0, 100 * time.Millisecond},
		{2, polling.FailureCap, 0, 200 * time.Millisecond},
		{3, polling.FailureCap, 0, 400 * time.Millisecond},
		{7, polling.FailureCap, 0, 6400 * time.Millisecond},
		{8, polling.FailureCap, 0, 12800 * time.Millisecond},
		{9, polling.FailureCap, 0, 15 * time.Second},
		{1 << 62, polling.FailureCap, 0, 15 * time.Second},
		{9, polling.ConflictCap, 0, 10 * time.Second},
		{9, polling.ConflictCap, 0.5, 8750 * time.Millisecond},
		{1, polling.FailureCap, 0.5, 87500 * time.Microsecond},
	}
	for _, tt := range tests {
		if got := polling.BackOff(tt.failures, tt.limit, tt.jitter); got != tt.want {
			t.Errorf("backOff(%d, %v, %v) = %v, want %v", tt.failures, tt.limit, tt.jitter, got, tt.want)
		}
	}
}

func TestPrintable(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"plain", "Bad Request: chat not found", "Bad Request: chat not found"},
		{"blanks", "  a\r\n\tb  ", "a b"},
		{"control", "a\x1b[2J\x00b\x7f", "a[2Jb"},
		{"direction and zero width", "a\u202eb\u200bc", "abc"},
		{"not UTF-8", "a\xffb", "a\ufffdb"},
		{"other scripts", "Ошибка 错误", "Ошибка 错误"},
		{"long", strings.Repeat("é", 300), strings.Repeat("é", 200) + "..."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := polling.Printable(tt.text); got != tt.want {
				t.Errorf("printable(%q) = %q, want %q", tt.text, got, tt.want)
			}
		})
	}
}

func TestProgressing(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	well := func(adjust func(p *polling.Progress)) polling.Progress {
		p := polling.Progress{
			Leading: true, Phase: polling.PhasePolling, Since: ago(40 * time.Second), Limit: 65 * time.Second,
			Pass: ago(250 * time.Millisecond), Checked: ago(time.Second), Deadline: 4 * time.Second,
		}
		adjust(&p)
		return p
	}
	tests := []struct {
		name    string
		p       polling.Progress
		beats   bool
		overdue bool
	}{
		{"does not lead", polling.Progress{}, true, false},
		{"well", well(func(*polling.Progress) {}), true, false},
		{"pass 0.9 s old", well(func(p *polling.Progress) { p.Pass = ago(900 * time.Millisecond) }), true, false},
		{"pass 1 s old", well(func(p *polling.Progress) { p.Pass = ago(time.Second) }), false, false},
		{"pass 4.1 s old", well(func(p *polling.Progress) { p.Pass = ago(4100 * time.Millisecond) }), false, true},
		{"check 3.9 s old", well(func(p *polling.Progress) { p.Checked = ago(3900 * time.Millisecond) }), true, false},
		{"check 4.1 s old", well(func(p *polling.Progress) { p.Checked = ago(4100 * time.Millisecond) }), false, true},
		{"poll past its limit", well(func(p *polling.Progress) { p.Since = ago(66 * time.Second) }), false, true},
		{"waiting for a day", well(func(p *polling.Progress) {
			p.Phase, p.Limit, p.Since = polling.PhaseWaiting, 0, ago(24*time.Hour)
		}), true, false},
		{"full for a day", well(func(p *polling.Progress) {
			p.Phase, p.Limit, p.Since = polling.PhaseFull, 0, ago(24*time.Hour)
		}), true, false},
		{"committing for 3.9 s", well(func(p *polling.Progress) {
			p.Phase, p.Limit, p.Since = polling.PhaseCommitting, 4*time.Second, ago(3900*time.Millisecond)
		}), true, false},
		{"committing for 4.1 s", well(func(p *polling.Progress) {
			p.Phase, p.Limit, p.Since = polling.PhaseCommitting, 4*time.Second, ago(4100*time.Millisecond)
		}), false, true},
		{"leaving, the loop has ended", well(func(p *polling.Progress) {
			p.Phase, p.Limit, p.Pass = polling.PhaseLeaving, 0, ago(time.Minute)
		}), true, false},
		{"leaving, ownership not verified", well(func(p *polling.Progress) {
			p.Phase, p.Limit, p.Checked = polling.PhaseLeaving, 0, ago(time.Minute)
		}), false, true},
		{"lease not exercised", polling.Progress{Unexercised: true}, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.p.Progressing(now); got != tt.beats {
				t.Errorf("Progressing() = %v, want %v", got, tt.beats)
			}
			if err := polling.Overdue(tt.p, now); (err != nil) != tt.overdue || (err != nil && !errors.Is(err, polling.ErrDeadline)) {
				t.Errorf("overdue = %v, want %v", err, tt.overdue)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	tests := []struct {
		raw string
		id  int64 // -1: unreadable
	}{
		{`{"update_id":5}`, 5},
		{` { "message":{}, "update_id" : 5 } `, 5},
		{`{"update_id":0}`, 0},
		{`{"update_id":9223372036854775806}`, 9223372036854775806},
		{`{"update_id":9223372036854775807}`, -1},
		{`{"update_id":9223372036854775808}`, -1},
		{`{"update_id":-1}`, -1},
		{`{"update_id":"5"}`, -1},
		{`{"update_id":5.0}`, -1},
		{`{"update_id":5e0}`, -1},
		{`{"update_id":null}`, -1},
		{`{"Update_Id":5}`, -1},
		{`{"update_id":4,"UPDATE_ID":5}`, 4},
		{`{}`, -1},
		{`null`, -1},
		{`5`, -1},
		{`[{"update_id":5}]`, -1},
		{`{"update_id":5`, -1},
		{``, -1},
		{"{\"update_id\":5,\"x\":\"\xff\xfe\"}", 5},
		{`{"update_id":5,"update_id":6}`, 6},
		{`{"update_id":+5}`, -1},
		// No JSON, or none that encoding/json takes, but an id: it can be confirmed.
		{`{"x":"\x","update_id":5,"y":NaN}`, 5},
		{`{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `,"update_id":5}`, 5},
	}
	for _, tt := range tests {
		t.Run(tt.raw[:min(len(tt.raw), 60)], func(t *testing.T) {
			updates, unreadable := polling.Split([]json.RawMessage{json.RawMessage(tt.raw)})
			switch {
			case tt.id < 0 && (len(updates) != 0 || len(unreadable) != 1 || string(unreadable[0]) != tt.raw):
				t.Errorf("got %v, %q, want unreadable", updates, unreadable)
			case tt.id >= 0 && (len(updates) != 1 || updates[0].ID != tt.id || string(updates[0].Raw) != tt.raw):
				t.Errorf("got %v, %q, want id %d", updates, unreadable, tt.id)
			}
		})
	}
}

// FuzzSplit checks that whatever an element is, it comes out once, unchanged,
// and that no decision on it confirms by a negative offset or polls anew
// without a wait unless the offset moved.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{`{"update_id":5}`, `null`, `{"update_id":-1}`, `{"update_id":1e3}`, `{`, "{\"update_id\":1,\"a\":\"\xff\"}"} {
		f.Add([]byte(seed), int64(5))
	}
	f.Fuzz(func(t *testing.T, raw []byte, offset int64) {
		elements := []json.RawMessage{raw}
		updates, unreadable := polling.Split(elements)
		if len(updates)+len(unreadable) != 1 {
			t.Fatalf("%d updates, %d unreadable", len(updates), len(unreadable))
		}
		if len(updates) == 1 && (updates[0].ID < 0 || !json.Valid(raw)) {
			t.Errorf("id %d of %q", updates[0].ID, raw)
		}
		for _, r := range append(unreadable, rawOf(updates)...) {
			if !bytes.Equal(r, raw) {
				t.Errorf("%q came out as %q", raw, r)
			}
		}
		before := polling.Before{Offset: max(offset, 0), HasOffset: true}
		got := before.AfterPoll(elements, nil, 0)
		if got.Offset < 0 || (got.Wait == 0 && got.Offset == before.Offset) {
			t.Errorf("decision %+v after %q at %d", got, raw, before.Offset)
		}
	})
}

func rawOf(updates []polling.Update) (out []json.RawMessage) {
	for _, u := range updates {
		out = append(out, u.Raw)
	}
	return out
}
