package polling_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"tgbridge/polling"
)

// A logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// count is the number of lines at a level that contain the text.
func (l *logBuffer) count(level, text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for line := range strings.SplitSeq(l.b.String(), "\n") {
		if strings.Contains(line, `"level":"`+level+`"`) && strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func withLog(l *logBuffer) func(*bench, *polling.Options) {
	return func(_ *bench, o *polling.Options) { o.Logger = zerolog.New(l) }
}

func TestConflictAfterCrash(t *testing.T) {
	for _, jitter := range []float64{0, 0.5, 0.999} {
		for _, late := range []time.Duration{0, 3 * time.Second} {
			inBubble(t, fmt.Sprintf("F1 jitter %v, refusals %v late", jitter, late), func(t *testing.T) {
				b := newBench(t, func(_ *bench, o *polling.Options) { o.Rand = func() float64 { return jitter } })
				b.tg.push(7)
				const refusing = 55 * time.Second
				b.tg.answer(func(int, polling.Request) (reply, bool) {
					return reply{err: errConflict, after: late}, b.elapsed() < refusing
				})
				b.lead()
				time.Sleep(40 * time.Second)
				s := b.p.State()
				if s.State != polling.StateConflict || s.Conflicts == 0 || !strings.Contains(s.LastError, "409") {
					t.Errorf("State() = %+v, want conflict", s)
				}
				time.Sleep(refusing - 40*time.Second)
				polls := b.tg.seen()
				if len(polls) >= 20 {
					t.Errorf("%d polls while refused, want less than 20", len(polls))
				}
				if early := polls[1].at - polls[0].end; early > time.Second {
					t.Errorf("second poll after %v, want soon", early)
				}
				time.Sleep(15 * time.Second)
				if got := b.sink.committed(); len(got) != 1 {
					t.Errorf("committed %v within 15 s of the slot's return, want the one that waited", got)
				}
				if s := b.p.State(); s.State != polling.StatePolling || s.LastError != "" {
					t.Errorf("State() = %+v, want polling", s)
				}
				b.stop()
			})
		}
	}
}

func TestRivalPoller(t *testing.T) {
	inBubble(t, "F7 named once a minute, recovers once it stops", func(t *testing.T) {
		log := &logBuffer{}
		b := newBench(t, withLog(log))
		// A rival polls anew 1 s after each of our polls, and ends it so.
		rival := true
		b.tg.answer(func(int, polling.Request) (reply, bool) {
			return reply{err: errConflict, after: time.Second}, rival
		})
		b.lead()
		time.Sleep(10*time.Minute - 5*time.Second)
		told := log.count("warn", "another program polls")
		if told < 8 || told > 10 {
			t.Errorf("told %d times in ten minutes, want once a minute", told)
		}
		if s := b.p.State(); s.Conflicts < 30 {
			t.Errorf("%d conflicts counted", s.Conflicts)
		}
		b.lease.set(func(*lease) {})
		b.tg.mu.Lock()
		rival = false
		b.tg.mu.Unlock()
		b.tg.push(7)
		time.Sleep(30 * time.Second)
		if got := b.sink.committed(); len(got) != 1 {
			t.Errorf("committed %v 30 s after the rival stopped", got)
		}
		if log.count("info", "polling works again") != 1 {
			t.Error("recovery was not told once")
		}
		b.stop()
	})
	inBubble(t, "F7 a poll that is left in peace shows that the conflict is over", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.answer(func(n int, _ polling.Request) (reply, bool) { return reply{err: errConflict}, n == 0 })
		b.lead()
		settle()
		time.Sleep(6 * time.Second)
		if s := b.p.State(); s.State != polling.StatePolling || s.Conflicts != 1 {
			t.Errorf("State() = %+v, want polling", s)
		}
		b.stop()
	})
}

// A single 409 is what a member gets whose lease was taken by force: the
// successor's poll ends its own. That is no rival to be looked for.
func TestSingleConflict(t *testing.T) {
	inBubble(t, "F7 the first one is not warned of, the second is", func(t *testing.T) {
		log := &logBuffer{}
		b := newBench(t, withLog(log))
		b.tg.answer(func(n int, _ polling.Request) (reply, bool) {
			return reply{err: errConflict}, n == 0 || n == 10 || n == 11
		})
		b.lead()
		time.Sleep(5 * time.Minute)
		if s := b.p.State(); s.Conflicts != 1 || log.count("warn", "") != 0 {
			t.Errorf("%d conflicts, log %s", s.Conflicts, log.b.String())
		}
		time.Sleep(5 * time.Minute)
		if s := b.p.State(); s.Conflicts != 3 || log.count("warn", "another program polls") != 1 {
			t.Errorf("%d conflicts, log %s", s.Conflicts, log.b.String())
		}
		b.stop()
	})
	inBubble(t, "F7 a rival is named although updates come between its polls", func(t *testing.T) {
		log := &logBuffer{}
		b := newBench(t, withLog(log))
		b.tg.answer(func(n int, _ polling.Request) (reply, bool) {
			if n%2 == 0 {
				return reply{err: errConflict, after: time.Second}, true
			}
			return reply{elements: []json.RawMessage{element(int64(n))}, after: time.Second}, true
		})
		b.lead()
		time.Sleep(10 * time.Second)
		if log.count("warn", "another program polls") != 1 {
			t.Errorf("log %s", log.b.String())
		}
		b.stop()
	})
	inBubble(t, "the lease was taken by force: no conflict at all", func(t *testing.T) {
		log := &logBuffer{}
		b := newBench(t, withLog(log))
		b.tg.answer(func(int, polling.Request) (reply, bool) {
			b.lease.lose()
			return reply{err: errConflict}, true
		})
		b.lead()
		b.ended(10*time.Millisecond, polling.ErrLost)
		if s := b.p.State(); s.Conflicts != 0 || s.LastError != "" || log.count("warn", "") != 0 {
			t.Errorf("State() = %+v, log %s", s, log.b.String())
		}
		b.stop()
	})
}

func TestWebhook(t *testing.T) {
	texts := map[string]error{
		"webhook is active":        errWebhook,
		"terminated by setWebhook": api(409, "Conflict: terminated by setWebhook request"),
	}
	for name, refusal := range texts {
		inBubble(t, "F6 kept: "+name, func(t *testing.T) {
			b := newBench(t, nil)
			b.tg.answer(func(int, polling.Request) (reply, bool) { return reply{err: refusal}, true })
			b.lead()
			b.ended(time.Second, polling.ErrWebhookSet)
			b.wantSteps(b.tr.of("poll", "delete", "before", "release"), "poll without offset", "before release", "release")
			if s := b.p.State(); s.Conflicts != 0 {
				t.Error("a webhook was counted as a rival poller")
			}
			b.stop()
		})
		inBubble(t, "F6 deleted once: "+name, func(t *testing.T) {
			b := newBench(t, func(_ *bench, o *polling.Options) { o.WebhookDelete = true })
			b.tg.push(7)
			b.tg.answer(func(int, polling.Request) (reply, bool) {
				b.tg.mu.Lock()
				defer b.tg.mu.Unlock()
				return reply{err: refusal}, b.tg.deletes == 0
			})
			b.lead()
			settle()
			b.wantSteps(b.tr.of("poll", "delete", "commit"),
				"poll without offset", "delete webhook", "poll without offset", "commit [7]", "poll 8")
			b.stop()
		})
	}
	inBubble(t, "F6 deletion fails for a while", func(t *testing.T) {
		b := newBench(t, func(_ *bench, o *polling.Options) { o.WebhookDelete = true })
		deleted := false
		b.tg.deleted = func(n int) error {
			if n < 3 {
				return api(502, "Bad Gateway")
			}
			deleted = true
			return nil
		}
		b.tg.answer(func(int, polling.Request) (reply, bool) {
			b.tg.mu.Lock()
			defer b.tg.mu.Unlock()
			return reply{err: errWebhook}, !deleted
		})
		b.lead()
		time.Sleep(30 * time.Second)
		if n := b.tg.deletions(); n != 4 || b.p.State().State != polling.StatePolling {
			t.Errorf("%d deletions, state %s, want 4 and polling", n, b.p.State().State)
		}
		b.stop()
	})
	inBubble(t, "F6 somebody sets it again and again: met ever later", func(t *testing.T) {
		b := newBench(t, func(_ *bench, o *polling.Options) { o.WebhookDelete = true })
		b.tg.answer(func(int, polling.Request) (reply, bool) { return reply{err: errWebhook}, true })
		b.lead()
		time.Sleep(time.Minute)
		if n := b.tg.deletions(); n < 3 || n > 15 || b.p.State().State != polling.StateWebhook {
			t.Errorf("%d deletions in a minute, state %s", n, b.p.State().State)
		}
		b.stop()
	})
}

func TestPenalty(t *testing.T) {
	penalties := map[string]error{
		"parameter": &polling.APIError{Code: 429, Description: "Too Many Requests: retry after 20", RetryAfter: 20 * time.Second},
		"text only": api(429, "Too Many Requests: retry after 20"),
	}
	for name, penalty := range penalties {
		inBubble(t, "F18 no poll for 20 s: "+name, func(t *testing.T) {
			b := newBench(t, nil)
			b.tg.answer(func(n int, _ polling.Request) (reply, bool) { return reply{err: penalty}, n == 0 })
			b.lead()
			for range 20 {
				settle()
				if !b.p.Progress().Progressing(time.Now()) {
					t.Error("a penalty is no lack of progress")
				}
				time.Sleep(time.Second)
			}
			time.Sleep(time.Second)
			polls := b.tg.seen()
			if len(polls) != 2 || polls[1].at-polls[0].end != 20*time.Second {
				t.Errorf("polls = %+v, want the second exactly 20 s after the penalty", polls)
			}
			b.stop()
		})
		inBubble(t, "F18 stop at 3 s ends at once: "+name, func(t *testing.T) {
			b := newBench(t, nil)
			b.tg.answer(func(n int, _ polling.Request) (reply, bool) { return reply{err: penalty}, n == 0 })
			b.lead()
			time.Sleep(3 * time.Second)
			b.stop()
			if got := b.elapsed(); got > 3*time.Second+50*time.Millisecond {
				t.Errorf("stopped at %v, want at once", got)
			}
		})
	}
}

// A pause of years, by mistake or malice, is obeyed for an hour at a time.
func TestPenaltyThatIsAbsurd(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	penalties := map[string]error{
		"parameter": &polling.APIError{Code: 429, Description: "Too Many Requests", RetryAfter: century},
		"text only": api(429, "Too Many Requests: retry after 1000000000000"),
	}
	for name, penalty := range penalties {
		inBubble(t, name, func(t *testing.T) {
			log := &logBuffer{}
			b := newBench(t, withLog(log))
			b.tg.push(7)
			b.tg.answer(func(n int, _ polling.Request) (reply, bool) { return reply{err: penalty}, n < 2 })
			b.lead()
			time.Sleep(3 * time.Hour)
			polls := b.tg.seen()
			if len(polls) < 3 || polls[1].at-polls[0].end != time.Hour || polls[2].at-polls[1].end != time.Hour {
				t.Errorf("polls = %+v, want one an hour while Telegram asks for more", polls[:min(3, len(polls))])
			}
			if got := b.sink.committed(); len(got) != 1 {
				t.Errorf("committed %v", got)
			}
			if log.count("warn", `"retry_in":3600000`) != 2 || log.count("warn", "of more than an hour, an hour is waited") != 2 {
				t.Errorf("log does not tell: %s", log.b.String())
			}
			b.stop()
		})
	}
	inBubble(t, "negative: as if nothing was said", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.answer(func(n int, _ polling.Request) (reply, bool) {
			return reply{err: &polling.APIError{Code: 429, Description: "x", RetryAfter: -time.Hour}}, n == 0
		})
		b.lead()
		time.Sleep(time.Second)
		if n := len(b.tg.seen()); n != 2 {
			t.Errorf("%d polls, want a second one soon", n)
		}
		b.stop()
	})
}

func TestSilentServer(t *testing.T) {
	for name, silence := range map[string]reply{
		"request given up":         {never: true},
		"request does not give up": {deaf: true, elements: []json.RawMessage{element(99)}},
	} {
		inBubble(t, "F19 "+name, func(t *testing.T) {
			b := newBench(t, nil)
			b.tg.push(7)
			b.tg.answer(func(n int, _ polling.Request) (reply, bool) { return silence, n == 0 })
			b.lead()
			for range 650 {
				time.Sleep(100 * time.Millisecond)
				if !b.p.Progress().Progressing(time.Now()) {
					t.Fatalf("the lease would move at %v", b.elapsed())
				}
			}
			if polls := b.tg.seen(); len(polls) < 2 || polls[1].at > 65*time.Second || b.tg.resetCount() != 1 {
				t.Errorf("polls = %+v, resets = %d, want a new connection within 65 s", polls, b.tg.resetCount())
			}
			if got := b.sink.committed(); len(got) != 1 {
				t.Errorf("committed %v", got)
			}
			close(b.tg.deaf) // S12: the late result does nothing
			settle()
			b.wantSteps(b.tr.of("commit"), "commit [7]")
			if last := b.tg.seen(); last[len(last)-1].request.Offset != 8 {
				t.Errorf("polls = %+v, want the last with offset 8", last)
			}
			b.stop()
		})
	}
}

func TestTokenRefused(t *testing.T) {
	for _, refusal := range []error{api(401, "Unauthorized"), api(404, "Not Found")} {
		inBubble(t, "F9 at start: "+refusal.Error(), func(t *testing.T) {
			b := newBench(t, nil)
			b.tg.answer(func(int, polling.Request) (reply, bool) { return reply{err: refusal}, true })
			b.lead()
			b.ended(time.Second, polling.ErrTokenRefused)
			if n := len(b.tg.seen()); n != 1 || b.lease.held() {
				t.Errorf("%d polls, lease held %v", n, b.lease.held())
			}
			b.stop()
		})
		inBubble(t, "after a success: waited out: "+refusal.Error(), func(t *testing.T) {
			log := &logBuffer{}
			b := newBench(t, withLog(log))
			b.tg.answer(func(n int, _ polling.Request) (reply, bool) { return reply{err: refusal}, n > 0 && n < 20 })
			b.tg.push(7)
			b.lead()
			time.Sleep(2 * time.Minute)
			if s := b.p.State(); s.State != polling.StateUnauthorized {
				t.Errorf("State() = %+v, want unauthorized", s)
			}
			if told := log.count("warn", "refuses the token"); told != 2 {
				t.Errorf("told %d times in two minutes", told)
			}
			time.Sleep(4 * time.Minute)
			if s := b.p.State(); s.State != polling.StatePolling {
				t.Errorf("State() = %+v, want polling", s)
			}
			b.stop()
		})
	}
	inBubble(t, "a success elsewhere in the process counts", func(t *testing.T) {
		b := newBench(t, func(_ *bench, o *polling.Options) { o.TokenProven = func() bool { return true } })
		b.tg.answer(func(int, polling.Request) (reply, bool) { return reply{err: api(401, "Unauthorized")}, true })
		b.lead()
		time.Sleep(time.Minute)
		if err := b.p.Cause(); err != nil {
			t.Errorf("Cause() = %v, want none", err)
		}
		b.stop()
	})
	inBubble(t, "a success is told once", func(t *testing.T) {
		told := 0
		b := newBench(t, func(_ *bench, o *polling.Options) { o.SetTokenProven = func() { told++ } })
		b.tg.push(1)
		b.lead()
		time.Sleep(2 * time.Minute)
		b.stop()
		if told != 1 {
			t.Errorf("told %d times, want 1", told)
		}
	})
}

// Outages of every kind are waited out with growing waits, and never move the
// lease.
func TestOutages(t *testing.T) {
	outages := map[string]error{
		"F9 connection refused": errors.New("dial tcp: connection refused"),
		"502 HTML":              errors.New("no JSON in the answer (status 502)"),
		"302":                   errors.New("redirect (status 302)"),
		"captive portal":        errors.New("no JSON in the answer (status 200)"),
		"500":                   api(500, "Internal Server Error: restart"),
		"421":                   api(421, "Misdirected Request: unallowed token specified"),
		"400 Logged out":        api(400, "Logged out"),
		"429 without a number":  api(429, "Too Many Requests"),
		"403":                   api(403, "Forbidden"),
	}
	for name, outage := range outages {
		inBubble(t, name, func(t *testing.T) {
			b := newBench(t, nil)
			b.tg.answer(func(int, polling.Request) (reply, bool) { return reply{err: outage}, b.elapsed() < time.Hour })
			b.lead()
			for range 60 {
				time.Sleep(time.Minute - time.Millisecond)
				if !b.p.Progress().Progressing(time.Now()) {
					t.Fatal("an outage moved the lease")
				}
				if s := b.p.State(); s.State != polling.StateWaiting || s.LastError == "" {
					t.Fatalf("State() = %+v, want waiting", s)
				}
			}
			if n := len(b.tg.seen()); n > 300 {
				t.Errorf("%d polls in an hour", n)
			}
			b.tg.push(7)
			time.Sleep(15100 * time.Millisecond)
			if got := b.sink.committed(); len(got) != 1 {
				t.Errorf("committed %v after the outage", got)
			}
			b.stop()
		})
	}
	inBubble(t, "remedies are told", func(t *testing.T) {
		log := &logBuffer{}
		b := newBench(t, withLog(log))
		b.tg.answer(func(n int, _ polling.Request) (reply, bool) {
			return reply{err: []error{api(400, "Logged out"), api(421, "Misdirected Request")}[n%2]}, true
		})
		b.lead()
		time.Sleep(time.Second)
		for _, remedy := range []string{"use the server that it was moved to", "check the API address"} {
			if log.count("warn", remedy) != 1 {
				t.Errorf("%q was not told", remedy)
			}
		}
		b.stop()
	})
	inBubble(t, "descriptions are cleaned", func(t *testing.T) {
		log := &logBuffer{}
		b := newBench(t, withLog(log))
		nasty := "\x1b[31mred\u202e\r\nline " + strings.Repeat("x", 5000)
		b.tg.answer(func(int, polling.Request) (reply, bool) { return reply{err: api(400, nasty)}, true })
		b.lead()
		synctest.Wait()
		s := b.p.State()
		if strings.ContainsAny(s.LastError, "\x1b\u202e\r\n") || len(s.LastError) > 220 {
			t.Errorf("LastError = %q", s.LastError)
		}
		if log.count("warn", "xxxxx") != 1 || log.count("warn", strings.Repeat("x", 300)) != 0 {
			t.Error("the log line is not cleaned")
		}
		b.stop()
	})
}
