package polling_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tgbridge/polling"
)

func TestOrder(t *testing.T) {
	inBubble(t, "G2 commit, check, then the poll that confirms", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.push(7, 8)
		b.lead()
		settle()
		b.tg.push(9)
		settle()
		b.wantSteps(b.tr.of("owns", "poll", "commit", "confirmed"),
			"owns", "poll without offset",
			"owns", "commit [7 8]",
			"owns", "poll 9",
			"owns", "confirmed 9 empty=false", "commit [9]",
			"owns", "poll 10")
		b.stop()
	})
	inBubble(t, "G2 nothing is confirmed while a commit is under way", func(t *testing.T) {
		b := newBench(t, nil)
		b.sink.commit = func(context.Context) error { time.Sleep(3 * time.Second); return nil }
		b.tg.push(7)
		b.lead()
		time.Sleep(2900 * time.Millisecond)
		if n := len(b.tg.seen()); n != 1 {
			t.Errorf("%d polls before the batch was durable, want 1", n)
		}
		time.Sleep(200 * time.Millisecond)
		if n := len(b.tg.seen()); n != 2 {
			t.Errorf("%d polls after the batch was durable, want 2", n)
		}
		b.stop()
	})
	inBubble(t, "an empty answer confirms, and keeps the offset", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.push(7)
		b.lead()
		time.Sleep(51 * time.Second)
		b.wantSteps(b.tr.of("poll", "commit", "confirmed"),
			"poll without offset", "commit [7]", "poll 8", "confirmed 8 empty=true", "poll 8")
		b.stop()
	})
	inBubble(t, "S20 first start with waiting updates", func(t *testing.T) {
		b := newBench(t, nil)
		var all []int64
		for id := int64(1); id <= 250; id++ {
			all = append(all, id)
		}
		b.tg.push(all...)
		b.lead()
		settle()
		if got := b.sink.committed(); !slices.Equal(got, all) {
			t.Errorf("committed %d updates, want 1 to 250", len(got))
		}
		for _, p := range b.tg.seen() {
			if p.request.HasOffset && p.request.Offset <= 0 {
				t.Errorf("polled with offset %d", p.request.Offset)
			}
		}
		b.stop()
	})
	inBubble(t, "a request asks for what it should", func(t *testing.T) {
		b := newBench(t, func(_ *bench, o *polling.Options) {
			o.PollTimeout, o.AllowedUpdates = 7*time.Second, []string{"message"}
		})
		b.lead()
		settle()
		r := b.tg.seen()[0].request
		if r.HasOffset || r.Limit != 100 || r.Timeout != 7*time.Second || !slices.Equal(r.AllowedUpdates, []string{"message"}) {
			t.Errorf("first request = %+v", r)
		}
		b.stop()
	})
	inBubble(t, "ids chosen anew: the offset falls", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.push(900000)
		b.lead()
		settle()
		b.tg.answer(func(n int, r polling.Request) (reply, bool) {
			if r.Offset == 900001 {
				return reply{elements: []json.RawMessage{element(12)}}, true
			}
			return reply{}, false
		})
		time.Sleep(51 * time.Second)
		b.wantSteps(b.tr.of("poll"), "poll without offset", "poll 900001", "poll 900001", "poll 13")
		b.stop()
	})
}

// F10: what has an id goes on, and the offset passes all of it.
func TestUnreadable(t *testing.T) {
	inBubble(t, "F10 one in the middle", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.answer(func(n int, _ polling.Request) (reply, bool) {
			return reply{elements: []json.RawMessage{
				element(5), json.RawMessage(`{"update_id":"6"}`), element(7),
			}}, n == 0
		})
		b.lead()
		settle()
		b.wantSteps(b.tr.of("poll", "commit"), "poll without offset", "commit [5 7]", "poll 8")
		if got := b.sink.unreadable; !slices.Equal(got, []string{`{"update_id":"6"}`}) {
			t.Errorf("unreadable = %q", got)
		}
		b.stop()
	})
	inBubble(t, "F10 bad content with an id is an update", func(t *testing.T) {
		b := newBench(t, nil)
		bad := json.RawMessage(`{"update_id":6,"message":{"message_id":"x"}}`)
		b.tg.answer(func(n int, _ polling.Request) (reply, bool) {
			return reply{elements: []json.RawMessage{element(5), bad, element(7)}}, n == 0
		})
		b.lead()
		settle()
		b.wantSteps(b.tr.of("commit"), "commit [5 6 7]")
		if b.sink.raws[1] != string(bad) {
			t.Errorf("raw = %s", b.sink.raws[1])
		}
		b.stop()
	})
	inBubble(t, "F10 no id at all: told, backed off, nothing confirmed or committed", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.answer(func(int, polling.Request) (reply, bool) {
			return reply{elements: []json.RawMessage{json.RawMessage(`null`), json.RawMessage(`{"update_id":-3}`)}}, true
		})
		b.lead()
		time.Sleep(time.Minute)
		if n := len(b.tg.seen()); n < 5 || n > 20 {
			t.Errorf("%d polls in a minute, want 5 to 20", n)
		}
		b.wantSteps(b.tr.of("commit", "confirmed"))
		if s := b.p.State(); s.State != polling.StateWaiting || s.LastError == "" {
			t.Errorf("State() = %+v, want waiting and an error", s)
		}
		b.stop()
	})
}

// Answers that are well formed and yet would make a hot loop.
func TestNoHotLoop(t *testing.T) {
	tests := []struct {
		name     string
		elements []json.RawMessage
		most     int
	}{
		{"empty at once", nil, 85},
		{"the same batch for ever", []json.RawMessage{element(5)}, 20},
	}
	for _, tt := range tests {
		inBubble(t, tt.name, func(t *testing.T) {
			b := newBench(t, nil)
			b.tg.answer(func(int, polling.Request) (reply, bool) { return reply{elements: tt.elements}, true })
			b.lead()
			time.Sleep(time.Minute)
			if n := len(b.tg.seen()); n < 5 || n > tt.most {
				t.Errorf("%d polls in a minute, want 5 to %d", n, tt.most)
			}
			b.stop()
		})
	}
}

func TestFull(t *testing.T) {
	inBubble(t, "G10 full: no poll, no limit, at once when there is room", func(t *testing.T) {
		b := newBench(t, nil)
		room := make(chan struct{})
		b.sink.room = room
		b.lead()
		for range 100 {
			time.Sleep(time.Minute)
			if !b.p.Progress().Progressing(time.Now()) {
				t.Fatal("a full sink is no lack of progress")
			}
		}
		if n, s := len(b.tg.seen()), b.p.State().State; n != 0 || s != polling.StateFull {
			t.Errorf("%d polls, state %s, want 0 and full", n, s)
		}
		b.sink.set(func(s *sink) { s.room = nil })
		close(room)
		synctest.Wait()
		if n, s := len(b.tg.seen()), b.p.State().State; n != 1 || s != polling.StatePolling {
			t.Errorf("%d polls, state %s, want 1 and polling", n, s)
		}
		b.stop()
	})
}

// A sink that still takes over what its predecessor left is waited for without a
// limit: the lease would only go to one that has the same before it.
func TestSinkNotReady(t *testing.T) {
	inBubble(t, "G2 nothing is committed or confirmed before, the lease stays", func(t *testing.T) {
		b := newBench(t, nil)
		b.sink.ready = make(chan struct{})
		b.tg.push(7)
		b.lead()
		for range 300 {
			time.Sleep(time.Second)
			if !b.p.Progress().Progressing(time.Now()) || b.p.Cause() != nil {
				t.Fatalf("the lease would move at %v (%v)", b.elapsed(), b.p.Cause())
			}
		}
		b.wantSteps(b.tr.of("poll", "commit", "confirmed"), "poll without offset")
		close(b.sink.ready)
		settle()
		b.wantSteps(b.tr.of("poll", "commit", "confirmed"), "poll without offset", "commit [7]", "poll 8")
		b.stop()
	})
	inBubble(t, "S10 a stop does not wait for it", func(t *testing.T) {
		b := newBench(t, nil)
		b.sink.ready = make(chan struct{})
		b.tg.push(7)
		b.lead()
		time.Sleep(time.Minute)
		begun := time.Now()
		b.stop()
		if took := time.Since(begun); took > time.Second || b.lease.held() {
			t.Errorf("Stop took %v, lease held %v", took, b.lease.held())
		}
		b.wantSteps(b.tr.of("commit"))
	})
}

func TestCommitFails(t *testing.T) {
	inBubble(t, "disk full is waited out, the same batch committed once", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.push(6)
		b.lead()
		settle()
		b.sink.set(func(s *sink) { s.commit = func(context.Context) error { return syscall.ENOSPC } })
		b.tg.push(7)
		time.Sleep(10 * time.Minute)
		if !b.p.Progress().Progressing(time.Now()) || b.p.State().State != polling.StateWaiting {
			t.Errorf("progress or state wrong: %+v", b.p.State())
		}
		b.sink.set(func(s *sink) { s.commit = nil })
		time.Sleep(16 * time.Second)
		b.wantSteps(b.tr.of("poll", "commit [", "confirmed"),
			"poll without offset", "commit [6]", "poll 7", "confirmed 7 empty=false", "commit [7]", "poll 8")
		if s := b.p.State(); s.State != polling.StatePolling || s.LastError != "" {
			t.Errorf("State() = %+v, want polling", s)
		}
		b.stop()
	})
	inBubble(t, "another error ends the leadership, nothing confirmed", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.push(7)
		boom := errors.New("fsync: EIO")
		b.sink.commit = func(context.Context) error { return boom }
		b.lead()
		b.ended(time.Second, polling.ErrSinkFailed)
		if !errors.Is(b.p.Cause(), boom) {
			t.Errorf("Cause() = %v, want the sink's error in it", b.p.Cause())
		}
		b.wantSteps(b.tr.of("poll", "before", "release"), "poll without offset", "before release", "release")
		b.stop()
	})
	inBubble(t, "a commit that hangs runs into its limit", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.push(7)
		b.sink.commit = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		b.lead()
		b.ended(6*time.Second, polling.ErrDeadline)
		if got := b.elapsed(); got < 4*time.Second || got > 5*time.Second {
			t.Errorf("stepped down after %v, want 0.8 x stale-after", got)
		}
		b.stop()
	})
}

// A check that could not be made is no answer: nothing begins until one
// succeeds.
func TestCheckFails(t *testing.T) {
	inBubble(t, "G5 for a while", func(t *testing.T) {
		b := newBench(t, nil)
		b.lead()
		time.Sleep(time.Second)
		eio := errors.New("EIO")
		b.lease.set(func(l *lease) { l.ownsErr = eio; l.refresh = func() (bool, error) { return false, eio } })
		b.tg.push(7)
		time.Sleep(2 * time.Second)
		b.wantSteps(b.tr.of("poll", "commit"), "poll without offset")
		b.lease.set(func(l *lease) { l.ownsErr = nil; l.refresh = nil })
		time.Sleep(110 * time.Millisecond)
		b.wantSteps(b.tr.of("poll", "commit"), "poll without offset", "commit [7]", "poll 8")
		b.stop()
	})
	inBubble(t, "G5 for too long", func(t *testing.T) {
		b := newBench(t, nil)
		b.lead()
		time.Sleep(time.Second)
		b.lease.set(func(l *lease) { l.ownsErr = errors.New("EIO") })
		b.tg.push(7)
		b.ended(5*time.Second, polling.ErrDeadline)
		b.wantSteps(b.tr.of("poll", "commit"), "poll without offset")
		b.stop()
	})
}
