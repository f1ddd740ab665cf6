package polling_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"tgbridge/lock"
	"tgbridge/polling"
)

// A registrar is a Registrar in memory.
type registrar struct {
	tr   *trace
	err  error
	hold chan struct{} // not nil: Follow waits for it, whatever its context
}

func (r *registrar) Follow(_ context.Context, owner lock.Entry) error {
	r.tr.add("follow %s", owner.InstanceID)
	if r.hold != nil {
		<-r.hold
	}
	return r.err
}

func (r *registrar) Unfollow() { r.tr.add("unfollow") }

func TestStartNotAllowed(t *testing.T) {
	inBubble(t, "P1", func(t *testing.T) {
		noToken := errors.New("no token")
		b := newBench(t, func(_ *bench, o *polling.Options) {
			o.Allowed = func() error { return noToken }
		})
		_, err := b.p.Start(t.Context(), polling.StartRequest{})
		if !errors.Is(err, polling.ErrNotAllowed) || !errors.Is(err, noToken) {
			t.Errorf("Start() = %v, want ErrNotAllowed and the reason", err)
		}
		b.wantSteps(b.tr.of(""))
		if b.p.Done() != nil || b.p.Cause() != nil {
			t.Error("Done() or Cause() is not nil without a leadership")
		}
	})
}

func TestStartOrder(t *testing.T) {
	inBubble(t, "P2 refresh, on acquired, poll", func(t *testing.T) {
		b := newBench(t, nil)
		b.lead()
		settle()
		b.wantSteps(b.tr.of(""), "acquire plain expecting none", "refresh", "on acquired", "owns", "poll without offset")
		b.stop()
	})
	inBubble(t, "P2 watcher runs before on acquired", func(t *testing.T) {
		b := newBench(t, func(b *bench, o *polling.Options) {
			o.OnAcquired = func(context.Context, lock.Result) error {
				b.tr.clear()
				time.Sleep(2100 * time.Millisecond)
				b.tr.add("on acquired")
				return nil
			}
		})
		b.lead()
		b.wantSteps(b.tr.of("refresh", "on acquired"), "refresh", "refresh", "on acquired")
		b.stop()
	})
	inBubble(t, "P2 closed runtime is replaced by force", func(t *testing.T) {
		b := newBench(t, func(_ *bench, o *polling.Options) {
			o.RuntimeClosed = func(owner lock.Entry) bool { return owner.InstanceID == "rival" }
		})
		b.lease.entry, b.lease.state = other(1), lock.ActiveHere
		b.lead()
		b.wantSteps(b.tr.of("acquire"), "acquire plain expecting none", "acquire force expecting rival")
		b.stop()
	})
	inBubble(t, "P2 closed runtime, entry changed meanwhile", func(t *testing.T) {
		b := newBench(t, func(b *bench, o *polling.Options) {
			o.RuntimeClosed = func(lock.Entry) bool {
				b.lease.set(func(l *lease) { l.entry.Epoch++ })
				return true
			}
		})
		b.lease.entry, b.lease.state = other(1), lock.ActiveHere
		r, err := b.p.Start(t.Context(), polling.StartRequest{})
		if err != nil || r.Outcome != polling.Refused {
			t.Errorf("Start() = %v, %v, want refused", r.Outcome, err)
		}
		b.wantSteps(b.tr.of("acquire"), "acquire plain expecting none")
	})
	inBubble(t, "P2 A9 an election replaces no closed runtime", func(t *testing.T) {
		b := newBench(t, func(_ *bench, o *polling.Options) { o.RuntimeClosed = func(lock.Entry) bool { return true } })
		b.lease.entry, b.lease.state = other(1), lock.ActiveHere
		r, err := b.p.Start(t.Context(), polling.StartRequest{Mode: lock.Election})
		if err != nil || r.Outcome != polling.Refused {
			t.Errorf("Start() = %v, %v, want refused", r.Outcome, err)
		}
		b.wantSteps(b.tr.of("acquire"), "acquire election expecting none")
	})
	inBubble(t, "P2 a live runtime is not replaced", func(t *testing.T) {
		b := newBench(t, nil)
		b.lease.entry, b.lease.state = other(1), lock.ActiveHere
		if r, err := b.p.Start(t.Context(), polling.StartRequest{}); err != nil || r.Outcome != polling.Refused {
			t.Errorf("Start() = %v, %v, want refused", r.Outcome, err)
		}
		b.wantSteps(b.tr.of("acquire"), "acquire plain expecting none")
	})
	inBubble(t, "P2 refused owner is the candidate of a forced start, success clears it", func(t *testing.T) {
		b := newBench(t, nil)
		b.lease.entry, b.lease.state = other(1), lock.ActiveElsewhere
		if _, err := b.p.Start(t.Context(), polling.StartRequest{}); err != nil {
			t.Fatal(err)
		}
		r, err := b.p.Start(t.Context(), polling.StartRequest{Mode: lock.Force})
		if err != nil || r.Outcome != polling.Leading {
			t.Fatalf("Start(force) = %v, %v, want leading", r.Outcome, err)
		}
		b.stop()
		b.tr.clear()
		if _, err := b.p.Start(t.Context(), polling.StartRequest{Mode: lock.Force}); err != nil {
			t.Fatal(err)
		}
		b.wantSteps(b.tr.of("acquire"), "acquire force expecting none")
		b.stop()
	})
	inBubble(t, "A3 starting twice goes on", func(t *testing.T) {
		b := newBench(t, nil)
		b.lead()
		settle()
		b.tr.clear()
		r, err := b.p.Start(t.Context(), polling.StartRequest{})
		if err != nil || r.Outcome != polling.Leading || r.Lease.Term != 1 {
			t.Errorf("Start() = %+v, %v, want leading under term 1", r, err)
		}
		settle()
		b.wantSteps(b.tr.of("acquire", "on acquired", "poll"))
		b.stop()
	})
}

func TestStartRolledBack(t *testing.T) {
	boom := errors.New("boom")
	inBubble(t, "P3 refresh says no: nothing released", func(t *testing.T) {
		b := newBench(t, nil)
		b.lease.refresh = func() (bool, error) { b.lease.lose(); return false, nil }
		r, err := b.p.Start(t.Context(), polling.StartRequest{})
		if err != nil || r.Outcome != polling.Changed {
			t.Errorf("Start() = %v, %v, want changed", r.Outcome, err)
		}
		b.ended(time.Millisecond, polling.ErrLost)
		time.Sleep(5 * time.Second)
		b.wantSteps(b.tr.of(""), "acquire plain expecting none", "refresh")
	})
	inBubble(t, "P3 refresh fails: released, first error told", func(t *testing.T) {
		b := newBench(t, nil)
		b.lease.refresh = func() (bool, error) { return false, boom }
		_, err := b.p.Start(t.Context(), polling.StartRequest{})
		if !errors.Is(err, boom) {
			t.Errorf("Start() = %v, want boom", err)
		}
		b.wantSteps(b.tr.of(""), "acquire plain expecting none", "refresh", "release")
		if b.lease.held() || !b.p.Progress().Progressing(time.Now()) {
			t.Error("lease is held, or no progress, after the roll-back")
		}
	})
	inBubble(t, "P3 on acquired fails: released, before release not called", func(t *testing.T) {
		b := newBench(t, func(_ *bench, o *polling.Options) {
			o.OnAcquired = func(context.Context, lock.Result) error { return boom }
		})
		_, err := b.p.Start(t.Context(), polling.StartRequest{})
		if !errors.Is(err, boom) {
			t.Errorf("Start() = %v, want boom", err)
		}
		b.wantSteps(b.tr.of("poll", "release", "before"), "release")
	})
	inBubble(t, "P3 F53 release fails too: no beat, tried until it succeeds", func(t *testing.T) {
		b := newBench(t, func(_ *bench, o *polling.Options) {
			o.OnAcquired = func(context.Context, lock.Result) error { return boom }
		})
		b.lease.release = func() error { return errors.New("EIO") }
		_, err := b.p.Start(t.Context(), polling.StartRequest{})
		if !errors.Is(err, boom) {
			t.Errorf("Start() = %v, want the first error", err)
		}
		if b.p.Progress().Progressing(time.Now()) {
			t.Error("beats for a lease that it does not exercise")
		}
		time.Sleep(3 * time.Second)
		b.lease.set(func(l *lease) { l.release = nil })
		time.Sleep(1100 * time.Millisecond)
		if b.lease.held() || !b.p.Progress().Progressing(time.Now()) {
			t.Error("lease is held, or no progress, after the release succeeded")
		}
		b.stop()
	})
	inBubble(t, "P4 S3 lost during a slow start", func(t *testing.T) {
		b := newBench(t, func(b *bench, o *polling.Options) {
			o.OnAcquired = func(ctx context.Context, _ lock.Result) error {
				time.AfterFunc(10*time.Second, b.lease.lose)
				for range 10 { // the beat goes on meanwhile
					time.Sleep(900 * time.Millisecond)
					if !b.p.Progress().Progressing(time.Now()) {
						t.Error("no progress during a slow start")
					}
				}
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), polling.ErrLost) {
					t.Errorf("cause = %v, want ErrLost", context.Cause(ctx))
				}
				return nil
			}
		})
		r, err := b.p.Start(t.Context(), polling.StartRequest{})
		if err != nil || r.Outcome != polling.Changed {
			t.Errorf("Start() = %v, %v, want changed", r.Outcome, err)
		}
		if got := b.elapsed(); got > 11100*time.Millisecond {
			t.Errorf("ended after %v, want a check's time after the loss", got)
		}
		b.wantSteps(b.tr.of("poll", "release", "before"))
	})
	inBubble(t, "P3 the start's context ends", func(t *testing.T) {
		b := newBench(t, func(_ *bench, o *polling.Options) {
			o.OnAcquired = func(ctx context.Context, _ lock.Result) error { <-ctx.Done(); return ctx.Err() }
		})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := b.p.Start(ctx, polling.StartRequest{})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Start() = %v, want its deadline", err)
		}
		b.wantSteps(b.tr.of("poll", "release"), "release")
	})
	inBubble(t, "P3 the start's context ends at the last moment", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := newBench(t, func(_ *bench, o *polling.Options) {
			o.OnAcquired = func(context.Context, lock.Result) error { cancel(); return nil }
		})
		r, err := b.p.Start(ctx, polling.StartRequest{})
		if !errors.Is(err, context.Canceled) || r.Outcome != "" {
			t.Errorf("Start() = %v, %v, want canceled", r.Outcome, err)
		}
		b.wantSteps(b.tr.of("poll", "before", "release"), "before release", "release")
	})
	inBubble(t, "P3 a start takes over from the release that failed", func(t *testing.T) {
		fail := true
		b := newBench(t, func(_ *bench, o *polling.Options) {
			o.OnAcquired = func(context.Context, lock.Result) error {
				if fail {
					return boom
				}
				return nil
			}
		})
		b.lease.release = func() error { return boom }
		if _, err := b.p.Start(t.Context(), polling.StartRequest{}); !errors.Is(err, boom) {
			t.Errorf("Start() = %v, want boom", err)
		}
		fail = false
		b.lead()
		b.lease.set(func(l *lease) { l.release = nil })
		time.Sleep(5 * time.Second)
		if !b.lease.held() || b.p.Cause() != nil {
			t.Errorf("held = %v, cause %v: the lease of a leader was released", b.lease.held(), b.p.Cause())
		}
		b.stop()
	})
	inBubble(t, "P3 a stop ends the release that goes on being tried", func(t *testing.T) {
		b := newBench(t, func(_ *bench, o *polling.Options) {
			o.OnAcquired = func(context.Context, lock.Result) error { return boom }
		})
		b.lease.release = func() error { return boom }
		if _, err := b.p.Start(t.Context(), polling.StartRequest{}); !errors.Is(err, boom) {
			t.Errorf("Start() = %v, want boom", err)
		}
		if _, err := b.p.Stop(t.Context()); !errors.Is(err, boom) {
			t.Errorf("Stop() = %v, want boom", err)
		}
		b.tr.clear()
		time.Sleep(5 * time.Second)
		b.wantSteps(b.tr.of("release"))
	})
	inBubble(t, "the start's context does not bound the leadership", func(t *testing.T) {
		b := newBench(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := b.p.Start(ctx, polling.StartRequest{}); err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(time.Minute)
		if b.p.Cause() != nil {
			t.Errorf("Cause() = %v, want none", b.p.Cause())
		}
		b.stop()
	})
	inBubble(t, "lock fails", func(t *testing.T) {
		b := newBench(t, nil)
		b.lease.acquire = func(lock.Mode, *lock.Entry) (lock.Result, error) { return lock.Result{}, boom }
		if _, err := b.p.Start(t.Context(), polling.StartRequest{}); !errors.Is(err, boom) {
			t.Errorf("Start() = %v, want boom", err)
		}
		b.wantSteps(b.tr.of("refresh", "poll", "release"), "release")
	})
	inBubble(t, "lock fails, and what it may have published cannot be released", func(t *testing.T) {
		b := newBench(t, nil)
		b.lease.acquire = func(lock.Mode, *lock.Entry) (lock.Result, error) {
			b.lease.entry = b.lease.self
			return lock.Result{}, boom
		}
		b.lease.release = func() error { return boom }
		if _, err := b.p.Start(t.Context(), polling.StartRequest{}); !errors.Is(err, boom) {
			t.Errorf("Start() = %v, want boom", err)
		}
		if b.p.Progress().Progressing(time.Now()) {
			t.Error("beats for a lease that it does not exercise")
		}
		b.lease.set(func(l *lease) { l.release = nil })
		time.Sleep(1100 * time.Millisecond)
		if b.lease.held() || !b.p.Progress().Progressing(time.Now()) {
			t.Error("lease is held, or no progress, after the release succeeded")
		}
	})
}

func TestStartRefused(t *testing.T) {
	denied := errors.New("other settings")
	tests := []struct {
		name      string
		mode      lock.Mode
		registrar bool
		follow    error
		outcome   polling.Outcome
		reason    error
		takeover  bool
		steps     []string
	}{
		{"P5 registers as follower", lock.Plain, true, nil, polling.Following, nil, false, []string{"follow rival"}},
		{"P5 registration fails", lock.Plain, true, denied, polling.Refused, denied, false, []string{"follow rival"}},
		{"P5 no registrar", lock.Plain, false, nil, polling.Refused, nil, true, nil},
		{"P5 forced start", lock.Force, true, nil, polling.Following, nil, false, []string{"follow rival"}},
		{"P6 refused election", lock.Election, true, nil, polling.Refused, nil, false, nil},
		{"P6 refused election, no registrar", lock.Election, false, nil, polling.Refused, nil, false, nil},
	}
	for _, tt := range tests {
		inBubble(t, tt.name, func(t *testing.T) {
			b := newBench(t, func(b *bench, o *polling.Options) {
				if tt.registrar {
					o.Registrar = &registrar{tr: b.tr, err: tt.follow}
				}
			})
			b.lease.entry, b.lease.state = other(1), lock.ActiveElsewhere
			r, err := b.p.Start(t.Context(), polling.StartRequest{Mode: tt.mode})
			if err != nil || r.Outcome != tt.outcome || !errors.Is(r.Reason, tt.reason) || r.Takeover != tt.takeover {
				t.Errorf("Start() = %+v, %v", r, err)
			}
			if r.Owner == nil || r.Owner.InstanceID != "rival" {
				t.Errorf("Owner = %+v, want the rival", r.Owner)
			}
			b.wantSteps(b.tr.of("follow", "refresh", "poll"), tt.steps...)
			if !b.p.Progress().Progressing(time.Now()) {
				t.Error("a member that does not lead makes no progress")
			}
		})
	}
}

func TestAutoStart(t *testing.T) {
	here := func(cwd string) lock.Entry {
		return lock.Entry{PID: 10, Cwd: cwd, InstanceID: "elder", Epoch: 1, Generation: 1}
	}
	away := func(cwd string) lock.Entry {
		return lock.Entry{PID: 20, Cwd: cwd, InstanceID: "rival", Epoch: 1, Generation: 1}
	}
	tests := []struct {
		name    string
		entry   lock.Entry
		state   lock.State
		outcome polling.Outcome
		steps   []string
	}{
		{"P10 own lease", lock.Entry{PID: 10, Cwd: "/own", InstanceID: "me", Generation: 2}, lock.ActiveHere,
			polling.Leading, []string{"acquire plain expecting none"}},
		{"P10 nothing there", lock.Entry{}, lock.Inactive, polling.NotStarted, nil},
		{"P10 stale, same directory", away("/own"), lock.Stale, polling.Leading, []string{"acquire election expecting rival"}},
		{"P10 stale, other directory", away("/other"), lock.Stale, polling.NotStarted, nil},
		{"P10 stale, no directory", away(""), lock.Stale, polling.NotStarted, nil},
		{"P10 alive elsewhere, same directory", away("/own"), lock.ActiveElsewhere, polling.NotStarted, nil},
		{"P10 alive elsewhere, no directory", away(""), lock.ActiveElsewhere, polling.NotStarted, nil},
		{"P10 other runtime, same directory", here("/own"), lock.ActiveHere,
			polling.Leading, []string{"acquire force expecting elder"}},
		{"P10 other runtime, no directory", here(""), lock.ActiveHere,
			polling.Leading, []string{"acquire force expecting elder"}},
		{"P10 other runtime, other directory", here("/other"), lock.ActiveHere, polling.NotStarted, nil},
	}
	for _, tt := range tests {
		inBubble(t, tt.name, func(t *testing.T) {
			b := newBench(t, func(b *bench, o *polling.Options) { o.Registrar = &registrar{tr: b.tr} })
			b.lease.entry, b.lease.state = tt.entry, tt.state
			r, err := b.p.AutoStart(t.Context())
			if err != nil || r.Outcome != tt.outcome {
				t.Errorf("AutoStart() = %v, %v, want %v", r.Outcome, err, tt.outcome)
			}
			b.wantSteps(b.tr.of("acquire", "follow"), tt.steps...)
			if tt.outcome == polling.Leading {
				b.stop()
			}
		})
	}
}

func TestAutoStartSuperseded(t *testing.T) {
	own := lock.Entry{PID: 10, Cwd: "/own", InstanceID: "me", Generation: 2}
	// begin starts an auto-start that hangs in OnAcquired until it is ended.
	begin := func(t *testing.T) (*bench, chan error) {
		first := true
		b := newBench(t, func(_ *bench, o *polling.Options) {
			o.OnAcquired = func(ctx context.Context, _ lock.Result) error {
				if first {
					first = false
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
		})
		b.lease.entry = own
		result := make(chan error, 1)
		go func() {
			r, err := b.p.AutoStart(t.Context())
			if r.Outcome != polling.NotStarted {
				t.Errorf("AutoStart() = %v, want not started", r.Outcome)
			}
			result <- err
		}()
		settle()
		return b, result
	}
	inBubble(t, "P10 by a start", func(t *testing.T) {
		b, result := begin(t)
		b.lead()
		if err := <-result; err != nil {
			t.Errorf("AutoStart() = %v, want silence", err)
		}
		b.stop()
	})
	inBubble(t, "P8 by a stop, which awaits it", func(t *testing.T) {
		b, result := begin(t)
		if r := b.stop(); !r.Released {
			t.Errorf("Stop() = %+v, want released", r)
		}
		select {
		case err := <-result:
			if err != nil {
				t.Errorf("AutoStart() = %v, want silence", err)
			}
		case <-time.After(time.Second):
			t.Error("the auto-start goes on after the stop")
		}
		b.wantSteps(b.tr.of("poll"))
	})
	inBubble(t, "P9 by a suspend, lease kept", func(t *testing.T) {
		b, result := begin(t)
		if err := b.p.Suspend(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-result; err != nil {
			t.Errorf("AutoStart() = %v, want silence", err)
		}
		b.wantSteps(b.tr.of("release", "poll"))
		if !b.lease.held() {
			t.Error("the lease was not kept")
		}
		b.stop()
	})
}

// A plain start in progress is ended by a stop too, and says so.
func TestStopEndsStart(t *testing.T) {
	inBubble(t, "P8", func(t *testing.T) {
		b := newBench(t, func(_ *bench, o *polling.Options) {
			o.OnAcquired = func(ctx context.Context, _ lock.Result) error { <-ctx.Done(); return nil }
		})
		result := make(chan error, 1)
		go func() {
			_, err := b.p.Start(t.Context(), polling.StartRequest{})
			result <- err
		}()
		settle()
		if r := b.stop(); !r.Released {
			t.Errorf("Stop() = %+v, want released", r)
		}
		if err := <-result; !errors.Is(err, polling.ErrStopped) {
			t.Errorf("Start() = %v, want ErrStopped", err)
		}
		// OnAcquired had succeeded, so what it began is stopped.
		b.wantSteps(b.tr.of("before", "release", "poll"), "before release", "release")
	})
}
