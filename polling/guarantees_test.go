package polling_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tgbridge/lock"
	"tgbridge/polling"
)

// wedge makes the loop block in the sink's Full, and returns the way to let it
// go on.
func (b *bench) wedge() (release func()) {
	gate := make(chan struct{})
	b.sink.set(func(s *sink) { s.wedge = gate })
	return func() {
		b.sink.set(func(s *sink) { s.wedge = nil })
		close(gate)
	}
}

func TestWedgedLoop(t *testing.T) {
	inBubble(t, "F41 G4 steps down by itself, nothing begins when it wakes", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.push(1)
		b.lead()
		settle()
		unwedge := b.wedge()
		b.tg.push(2) // the loop takes it in, and wedges before the next poll
		wedged := time.Now()
		var silent time.Duration
		for b.p.Cause() == nil {
			time.Sleep(50 * time.Millisecond)
			if silent == 0 && !b.p.Progress().Progressing(time.Now()) {
				silent = time.Since(wedged)
			}
		}
		if silent < 900*time.Millisecond || silent > 1300*time.Millisecond {
			t.Errorf("beat stops %v after the wedge, want 1 s", silent)
		}
		b.ended(2*time.Second, polling.ErrDeadline)
		if took := time.Since(wedged); took > 6*time.Second {
			t.Errorf("stepped down %v after the wedge, want within 6 s", took)
		}
		if b.lease.held() {
			t.Error("the lease was not released for others")
		}
		polls := len(b.tg.seen())
		b.tr.clear()
		unwedge()
		time.Sleep(time.Minute)
		if n := len(b.tg.seen()); n != polls {
			t.Errorf("%d polls after the step-down", n-polls)
		}
		b.wantSteps(b.tr.of(""))
		if !b.p.Progress().Progressing(time.Now()) {
			t.Error("no progress after the lease was released")
		}
	})
	inBubble(t, "F41 a stop does not need the wedged loop", func(t *testing.T) {
		b := newBench(t, nil)
		unwedge := b.wedge()
		b.lead()
		time.Sleep(time.Second)
		begun := time.Now()
		b.stop()
		if took := time.Since(begun); took > time.Second {
			t.Errorf("Stop took %v", took)
		}
		unwedge()
		settle()
		b.wantSteps(b.tr.of("poll"))
	})
	inBubble(t, "F41 starts again after a wedge", func(t *testing.T) {
		b := newBench(t, nil)
		unwedge := b.wedge()
		b.lead()
		b.ended(6*time.Second, polling.ErrDeadline)
		unwedge()
		b.tg.push(1)
		b.lead()
		settle()
		if got := b.sink.committed(); !slices.Equal(got, []int64{1}) {
			t.Errorf("committed %v", got)
		}
		if b.tg.mostOpen() != 1 {
			t.Errorf("%d polls at once", b.tg.mostOpen())
		}
		b.stop()
	})
}

func TestLostLeader(t *testing.T) {
	inBubble(t, "F3 G5 frozen between receipt and commit: dropped", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.answer(func(n int, _ polling.Request) (reply, bool) {
			b.lease.lose() // while the answer is on its way
			return reply{elements: []json.RawMessage{element(5)}}, true
		})
		b.lead()
		b.ended(time.Second, polling.ErrLost)
		b.wantSteps(b.tr.of("poll", "commit", "confirmed", "release", "before"), "poll without offset")
		b.stop()
	})
	inBubble(t, "G5 lost during the commit: no poll confirms it", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.push(5)
		b.sink.commit = func(context.Context) error { b.lease.lose(); return nil }
		b.lead()
		b.ended(time.Second, polling.ErrLost)
		b.wantSteps(b.tr.of("poll", "commit", "release"), "poll without offset", "commit [5]")
		b.stop()
	})
	inBubble(t, "G5 lost while waiting: the wait ends, nothing begins", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.answer(func(int, polling.Request) (reply, bool) { return reply{err: errConflict}, true })
		b.lead()
		time.Sleep(20 * time.Second)
		n := len(b.tg.seen())
		b.lease.lose()
		b.ended(1100*time.Millisecond, polling.ErrLost)
		time.Sleep(time.Minute)
		if got := len(b.tg.seen()); got != n {
			t.Errorf("%d polls after the loss", got-n)
		}
		b.stop()
	})
	inBubble(t, "G1 lost during a long poll: cancelled, its answer dropped", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.answer(func(int, polling.Request) (reply, bool) {
			return reply{deaf: true, elements: []json.RawMessage{element(5)}}, true
		})
		b.lead()
		time.Sleep(3500 * time.Millisecond)
		b.lease.lose()
		time.Sleep(600 * time.Millisecond)
		if p, s := b.p.Progress(), b.p.State(); p.Leading || !p.Progressing(time.Now()) || s.State != polling.StateOff {
			t.Errorf("after the loss: %+v, %+v", p, s)
		}
		refreshes := len(b.tr.of("refresh"))
		b.ended(3*time.Second, polling.ErrLost)
		close(b.tg.deaf)
		settle()
		if n := len(b.tr.of("refresh")) - refreshes; n != 0 {
			t.Errorf("%d refreshes after the loss was seen", n)
		}
		b.wantSteps(b.tr.of("poll", "commit", "confirmed"), "poll without offset")
		b.stop()
	})
	inBubble(t, "G1 lost, won again: one poll at a time, offset anew", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.push(5)
		b.lead()
		settle()
		b.lease.lose()
		b.ended(1100*time.Millisecond, polling.ErrLost)
		b.lease.set(func(l *lease) { l.state = lock.Stale })
		b.lead()
		settle()
		b.wantSteps(b.tr.of("poll"), "poll without offset", "poll 6", "poll without offset")
		if b.tg.mostOpen() != 1 {
			t.Errorf("%d polls at once", b.tg.mostOpen())
		}
		if s := b.p.State(); s.Term != 3 || s.HasOffset {
			t.Errorf("State() = %+v, want term 3 without offset", s)
		}
		b.stop()
	})
}

// TestGate stops while a check of ownership is under way: what it was made for
// must not begin, although the check succeeds.
func TestGate(t *testing.T) {
	inBubble(t, "G1 G5 poll", func(t *testing.T) {
		b := newBench(t, nil)
		answer := make(chan struct{})
		b.lease.owns = func() { <-answer }
		b.lead()
		synctest.Wait()
		time.AfterFunc(100*time.Millisecond, func() { close(answer) })
		b.stop()
		b.wantSteps(b.tr.of("poll", "release"), "release")
	})
	inBubble(t, "G5 commit", func(t *testing.T) {
		b := newBench(t, nil)
		answer := make(chan struct{})
		b.lead()
		synctest.Wait()
		b.lease.set(func(l *lease) { l.owns = func() { <-answer } })
		b.tg.push(1)
		synctest.Wait()
		time.AfterFunc(100*time.Millisecond, func() { close(answer) })
		b.stop()
		b.wantSteps(b.tr.of("poll", "commit", "release"), "poll without offset", "release")
	})
}

// G4: from winning to the first poll nothing waits for a timer. In a bubble
// the clock moves only when everything waits.
func TestGapIsNotTimerBound(t *testing.T) {
	inBubble(t, "G4 first poll", func(t *testing.T) {
		b := newBench(t, nil)
		b.lead()
		synctest.Wait()
		if polls := b.tg.seen(); len(polls) != 1 || polls[0].at != 0 {
			t.Errorf("polls = %+v, want one at 0", polls)
		}
		b.stop()
	})
	inBubble(t, "G4 from answer to answer", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.push(1)
		b.lead()
		synctest.Wait()
		if polls := b.tg.seen(); len(polls) != 2 || polls[1].at != 0 {
			t.Errorf("polls = %+v, want two at 0", polls)
		}
		b.stop()
	})
	inBubble(t, "G4 a stop takes 5 ms", func(t *testing.T) {
		b := newBench(t, nil)
		b.lead()
		time.Sleep(5 * time.Second)
		begun := time.Now()
		b.stop()
		if took := time.Since(begun); took != 5*time.Millisecond {
			t.Errorf("Stop took %v", took)
		}
	})
}

// S13: while a backlog drains, beats and control stay prompt.
func TestBacklog(t *testing.T) {
	inBubble(t, "S13", func(t *testing.T) {
		b := newBench(t, nil)
		ids := make([]int64, 2000)
		for i := range ids {
			ids[i] = int64(i + 1)
		}
		b.tg.push(ids...)
		b.sink.commit = func(context.Context) error { time.Sleep(200 * time.Millisecond); return nil }
		b.lead()
		for range 30 {
			time.Sleep(100 * time.Millisecond)
			if !b.p.Progress().Progressing(time.Now()) {
				t.Fatal("no progress while draining")
			}
		}
		begun := time.Now()
		b.stop()
		if took := time.Since(begun); took > 250*time.Millisecond {
			t.Errorf("Stop took %v", took)
		}
	})
}

func TestOptions(t *testing.T) {
	tr := &trace{start: time.Now()}
	ok := polling.Options{Lock: newLease(tr), Source: newTelegram(tr), Sink: &sink{tr: tr}}
	tests := []struct {
		name   string
		adjust func(o *polling.Options)
		valid  bool
	}{
		{"S9 defaults", func(*polling.Options) {}, true},
		{"no lock", func(o *polling.Options) { o.Lock = nil }, false},
		{"no source", func(o *polling.Options) { o.Source = nil }, false},
		{"no sink", func(o *polling.Options) { o.Sink = nil }, false},
		{"poll timeout 51s", func(o *polling.Options) { o.PollTimeout = 51 * time.Second }, false},
		{"poll timeout 0.5s", func(o *polling.Options) { o.PollTimeout = time.Second / 2 }, false},
		{"poll timeout 1.5s", func(o *polling.Options) { o.PollTimeout = 1500 * time.Millisecond }, false},
		{"check 2s, stale 3s", func(o *polling.Options) {
			o.OwnershipCheck, o.StaleAfter = 2*time.Second, 3*time.Second
		}, false},
		{"check 3s, stale 10s", func(o *polling.Options) {
			o.OwnershipCheck, o.StaleAfter = 3*time.Second, 10*time.Second
		}, false},
		{"negative stale-after", func(o *polling.Options) { o.StaleAfter = -1 }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := ok
			tt.adjust(&o)
			if _, err := polling.New(o); (err == nil) != tt.valid {
				t.Errorf("New() = %v, want valid %v", err, tt.valid)
			}
		})
	}
	if polling.DefaultPollTimeout != 50*time.Second || polling.DefaultOwnershipCheck != time.Second ||
		polling.DefaultStaleAfter != 5*time.Second {
		t.Error("S9: a default has changed")
	}
	if errors.Is(polling.ErrLost, polling.ErrStopped) {
		t.Error("causes cannot be told apart")
	}
}
