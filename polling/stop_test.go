package polling_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tgbridge/lock"
	"tgbridge/polling"
)

func TestOwnershipLost(t *testing.T) {
	inBubble(t, "P7 a refresh says no: polling stops once", func(t *testing.T) {
		var leading context.Context
		b := newBench(t, func(_ *bench, o *polling.Options) {
			o.OnAcquired = func(ctx context.Context, _ lock.Result) error { leading = ctx; return nil }
		})
		b.lead()
		time.Sleep(5500 * time.Millisecond)
		b.lease.lose()
		b.ended(1100*time.Millisecond, polling.ErrLost)
		if !errors.Is(context.Cause(leading), polling.ErrLost) {
			t.Errorf("cause of the leadership's context = %v, want ErrLost", context.Cause(leading))
		}
		b.tr.clear()
		time.Sleep(10 * time.Second)
		b.wantSteps(b.tr.of("")) // no refresh, poll or release any more
		if r := b.stop(); r.Released || r.State != lock.ActiveElsewhere {
			t.Errorf("Stop() = %+v, want active elsewhere", r)
		}
	})
	failing := []struct {
		name    string
		refresh func(b *bench) (bool, error)
	}{
		{"P7 refresh fails until the own deadline", func(*bench) (bool, error) { return false, errors.New("EIO") }},
		{"P7 refresh hangs until the own deadline", func(b *bench) (bool, error) {
			time.Sleep(20 * time.Second)
			return true, nil
		}},
	}
	for _, tt := range failing {
		inBubble(t, tt.name, func(t *testing.T) {
			b := newBench(t, nil)
			b.lead()
			time.Sleep(2500 * time.Millisecond) // the last check that succeeds is at 2 s
			b.lease.set(func(l *lease) { l.refresh = func() (bool, error) { return tt.refresh(b) } })
			time.Sleep(3400 * time.Millisecond)
			if err := b.p.Cause(); err != nil {
				t.Fatalf("Cause() = %v before the deadline", err)
			}
			b.ended(1500*time.Millisecond, polling.ErrDeadline)
			if b.lease.held() {
				t.Error("the lease was not released")
			}
			b.stop()
			time.Sleep(20 * time.Second) // the refresh that hangs
		})
	}
	inBubble(t, "P7 own deadline: no beat until the release, also if checks succeed again", func(t *testing.T) {
		b := newBench(t, func(b *bench, o *polling.Options) {
			o.BeforeRelease = func(ctx context.Context) {
				b.lease.set(func(l *lease) { l.refresh = nil })
				time.Sleep(900 * time.Millisecond)
				if b.p.Progress().Progressing(time.Now()) {
					t.Error("beats although it steps down past its own deadline")
				}
			}
		})
		b.lead()
		b.lease.set(func(l *lease) { l.refresh = func() (bool, error) { return false, errors.New("EIO") } })
		b.ended(6*time.Second, polling.ErrDeadline)
		if !b.p.Progress().Progressing(time.Now()) || b.lease.held() {
			t.Error("no beat after the release, or not released")
		}
	})
	inBubble(t, "P7 refresh fails for less than the own deadline", func(t *testing.T) {
		b := newBench(t, nil)
		b.lead()
		time.Sleep(2500 * time.Millisecond)
		b.lease.set(func(l *lease) { l.refresh = func() (bool, error) { return false, errors.New("EIO") } })
		time.Sleep(3 * time.Second)
		b.lease.set(func(l *lease) { l.refresh = nil })
		time.Sleep(10 * time.Second)
		if err := b.p.Cause(); err != nil {
			t.Errorf("Cause() = %v, want none", err)
		}
		b.stop()
	})
	inBubble(t, "P7 stop awaits the step-down in progress", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.answer(func(int, polling.Request) (reply, bool) { return reply{deaf: true}, true })
		b.lead()
		settle()
		b.lease.lose()
		time.Sleep(1100 * time.Millisecond)
		if err := b.p.Cause(); !errors.Is(err, polling.ErrLost) {
			t.Fatalf("Cause() = %v, want ErrLost", err)
		}
		b.stop()
		select {
		case <-b.p.Done():
		default:
			t.Error("Stop returned before the step-down was done")
		}
		close(b.tg.deaf)
	})
}

func TestStop(t *testing.T) {
	inBubble(t, "P8 order: poll closed, before release, release", func(t *testing.T) {
		var closed, before time.Duration
		var ctxErr error
		b := newBench(t, func(b *bench, o *polling.Options) {
			var leading context.Context
			o.OnAcquired = func(ctx context.Context, _ lock.Result) error { leading = ctx; return nil }
			o.BeforeRelease = func(context.Context) {
				before, ctxErr = b.elapsed(), leading.Err()
				b.tr.add("before release")
			}
			o.Registrar = &registrar{tr: b.tr}
		})
		b.lead()
		time.Sleep(20500 * time.Millisecond)
		b.tr.clear()
		if r := b.stop(); !r.Released {
			t.Errorf("Stop() = %+v, want released", r)
		}
		b.wantSteps(b.tr.of(""), "closed", "before release", "release")
		closed = b.tg.seen()[0].end
		if before-closed < 5*time.Millisecond || before-closed > 30*time.Millisecond {
			t.Errorf("before release came %v after the poll's end, want at least 5ms, at most 30ms", before-closed)
		}
		if ctxErr != nil {
			t.Error("the leadership's context ended before dispatching was stopped")
		}
		b.ended(time.Millisecond, polling.ErrStopped)
	})
	inBubble(t, "P8 follower: registration off", func(t *testing.T) {
		b := newBench(t, func(b *bench, o *polling.Options) { o.Registrar = &registrar{tr: b.tr} })
		b.lease.entry, b.lease.state = other(1), lock.ActiveElsewhere
		if _, err := b.p.Start(t.Context(), polling.StartRequest{}); err != nil {
			t.Fatal(err)
		}
		if r := b.stop(); r.Released || r.State != lock.ActiveElsewhere {
			t.Errorf("Stop() = %+v, want active elsewhere", r)
		}
		b.stop()
		b.wantSteps(b.tr.of("follow", "unfollow", "release"), "follow rival", "unfollow", "release", "release")
	})
	inBubble(t, "P8 while the registration is under way", func(t *testing.T) {
		hold := make(chan struct{})
		b := newBench(t, func(b *bench, o *polling.Options) { o.Registrar = &registrar{tr: b.tr, hold: hold} })
		b.lease.entry, b.lease.state = other(1), lock.ActiveElsewhere
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = b.p.Start(t.Context(), polling.StartRequest{})
		}()
		synctest.Wait()
		time.AfterFunc(time.Second, func() { close(hold) })
		b.stop()
		<-done
		b.wantSteps(b.tr.of("follow", "unfollow"), "follow rival", "unfollow")
	})
	inBubble(t, "P8 watcher off and context ended before the release", func(t *testing.T) {
		var leading context.Context
		b := newBench(t, func(_ *bench, o *polling.Options) {
			o.OnAcquired = func(ctx context.Context, _ lock.Result) error { leading = ctx; return nil }
		})
		b.lead()
		settle()
		b.lease.set(func(l *lease) {
			l.release = func() error {
				if !errors.Is(context.Cause(leading), polling.ErrStopped) {
					t.Errorf("cause of the leadership's context = %v at the release", context.Cause(leading))
				}
				b.tr.clear()
				time.Sleep(3 * time.Second)
				return nil
			}
		})
		b.stop()
		b.wantSteps(b.tr.of("refresh"))
	})
	inBubble(t, "P8 never started", func(t *testing.T) {
		b := newBench(t, nil)
		if r := b.stop(); r.Released || r.State != lock.Inactive {
			t.Errorf("Stop() = %+v, want inactive", r)
		}
	})
	inBubble(t, "F12 stopping twice at once", func(t *testing.T) {
		b := newBench(t, nil)
		b.lead()
		time.Sleep(5 * time.Second)
		var group sync.WaitGroup
		var mu sync.Mutex
		released := 0
		for range 2 {
			group.Go(func() {
				r, err := b.p.Stop(context.Background())
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				if r.Released {
					released++
				}
			})
		}
		group.Wait()
		if got := b.elapsed(); got > 5*time.Second+100*time.Millisecond {
			t.Errorf("stopped after %v, want at once", got)
		}
		if b.lease.held() || released == 0 {
			t.Errorf("held = %v, released told %d times", b.lease.held(), released)
		}
	})
	inBubble(t, "F12 before release hangs: bounded by the stop's context", func(t *testing.T) {
		hang := make(chan struct{})
		b := newBench(t, func(_ *bench, o *polling.Options) {
			o.BeforeRelease = func(context.Context) { <-hang }
		})
		b.lead()
		settle()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begun := time.Now()
		for range 4 {
			time.AfterFunc(time.Second, func() {
				if !b.p.Progress().Progressing(time.Now()) {
					t.Error("draining before a stop is no lack of progress")
				}
			})
		}
		_, err := b.p.Stop(ctx)
		if took := time.Since(begun); took > 5100*time.Millisecond {
			t.Errorf("Stop took %v", took)
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Stop() = %v", err)
		}
		b.ended(time.Second, polling.ErrStopped)
		if b.lease.held() {
			t.Error("the lease was not released")
		}
		close(hang)
	})
	inBubble(t, "S10 step-down ends though requests do not return", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.answer(func(int, polling.Request) (reply, bool) { return reply{deaf: true}, true })
		b.lead()
		settle()
		b.tr.clear()
		begun := time.Now()
		b.stop()
		if took := time.Since(begun); took > 1500*time.Millisecond {
			t.Errorf("Stop took %v", took)
		}
		b.wantSteps(b.tr.of("poll", "reset", "before", "release"), "reset", "before release", "release")
		close(b.tg.deaf)
	})
	inBubble(t, "S10 step-down while Telegram answers with errors", func(t *testing.T) {
		b := newBench(t, nil)
		b.tg.answer(func(int, polling.Request) (reply, bool) { return reply{err: api(502, "Bad Gateway")}, true })
		b.lead()
		time.Sleep(40 * time.Second)
		begun := time.Now()
		if r := b.stop(); !r.Released || time.Since(begun) > 50*time.Millisecond {
			t.Errorf("Stop() = %+v after %v", r, time.Since(begun))
		}
	})
	inBubble(t, "release fails: told, no beat, stop again", func(t *testing.T) {
		b := newBench(t, nil)
		b.lead()
		settle()
		b.lease.set(func(l *lease) { l.release = func() error { return errors.New("EIO") } })
		if _, err := b.p.Stop(t.Context()); err == nil {
			t.Error("Stop() = nil, want an error")
		}
		if b.p.Progress().Progressing(time.Now()) {
			t.Error("beats for a lease that it does not exercise")
		}
		b.lease.set(func(l *lease) { l.release = nil })
		if r := b.stop(); !r.Released || !b.p.Progress().Progressing(time.Now()) {
			t.Errorf("Stop() = %+v, want released, and progress", r)
		}
	})
	inBubble(t, "lost while draining: context ends at once", func(t *testing.T) {
		var leading context.Context
		b := newBench(t, func(b *bench, o *polling.Options) {
			o.OnAcquired = func(ctx context.Context, _ lock.Result) error { leading = ctx; return nil }
			o.BeforeRelease = func(ctx context.Context) {
				b.lease.lose()
				select {
				case <-leading.Done():
				case <-ctx.Done():
					t.Error("nobody told of the loss")
				}
			}
		})
		b.lead()
		settle()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r, err := b.p.Stop(ctx)
		if err != nil || r.Released || r.State != lock.ActiveElsewhere {
			t.Errorf("Stop() = %+v, %v, want active elsewhere", r, err)
		}
		if !errors.Is(context.Cause(leading), polling.ErrLost) {
			t.Errorf("cause = %v, want ErrLost", context.Cause(leading))
		}
	})
}

func TestSuspend(t *testing.T) {
	inBubble(t, "P9 lease kept, resumed under the same term", func(t *testing.T) {
		b := newBench(t, nil)
		b.lead()
		settle()
		if err := b.p.Suspend(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.ended(time.Millisecond, polling.ErrSuspended)
		b.wantSteps(b.tr.of("before", "release"), "before release")
		if b.p.Progress().Progressing(time.Now()) {
			t.Error("beats for a lease that it does not exercise")
		}
		b.tr.clear()
		time.Sleep(3 * time.Second)
		b.wantSteps(b.tr.of(""))
		r, err := b.p.Start(t.Context(), polling.StartRequest{})
		if err != nil || r.Outcome != polling.Leading || r.Lease.Term != 1 || r.Lease.Wrote {
			t.Errorf("Start() = %+v, %v, want leading under term 1, nothing written", r, err)
		}
		if !b.p.Progress().Progressing(time.Now()) {
			t.Error("no progress after the resumption")
		}
		b.stop()
	})
	inBubble(t, "P9 lost meanwhile: nothing stands in our name", func(t *testing.T) {
		b := newBench(t, func(b *bench, o *polling.Options) {
			o.BeforeRelease = func(context.Context) {
				b.lease.lose()
				time.Sleep(1100 * time.Millisecond)
			}
		})
		b.lead()
		settle()
		if err := b.p.Suspend(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !b.p.Progress().Progressing(time.Now()) {
			t.Error("no beat, though the lease is another's")
		}
	})
	inBubble(t, "P9 then stop releases", func(t *testing.T) {
		b := newBench(t, nil)
		b.lead()
		if err := b.p.Suspend(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := b.stop(); !r.Released || !b.p.Progress().Progressing(time.Now()) {
			t.Errorf("Stop() = %+v, want released, and progress", r)
		}
	})
}

func TestMaySend(t *testing.T) {
	inBubble(t, "P11", func(t *testing.T) {
		b := newBench(t, nil)
		if err := b.p.MaySend(); !errors.Is(err, polling.ErrNotLeading) {
			t.Errorf("before a start: %v, want ErrNotLeading", err)
		}
		b.lead()
		settle()
		if err := b.p.MaySend(); err != nil {
			t.Errorf("while leading: %v", err)
		}
		eio := errors.New("EIO")
		b.lease.set(func(l *lease) { l.ownsErr = eio })
		if err := b.p.MaySend(); !errors.Is(err, eio) || errors.Is(err, polling.ErrNotLeading) {
			t.Errorf("check fails: %v, want its error", err)
		}
		b.lease.set(func(l *lease) { l.ownsErr = nil })
		b.lease.lose()
		if err := b.p.MaySend(); !errors.Is(err, polling.ErrNotLeading) {
			t.Errorf("after the loss: %v, want ErrNotLeading", err)
		}
		b.ended(time.Second, polling.ErrLost)
		b.stop()
	})
}
