package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"tgbridge/internal/botapitest"
)

// bareSends is how many answers the bare loop sends at a time: as many as a
// member handles lanes.
const bareSends = 16

// rates drains a backlog with fleets of different sizes.
func (b *bench) rates(ctx context.Context) error {
	for _, reply := range []bool{false, true} {
		what, floorIs := "handled, no reply", "bare poll loop, keeps nothing"
		if reply {
			what, floorIs = "handled and replied to", "bare poll loop, 16 answers at a time"
		}
		for _, n := range []int{1, 3, 16} {
			var ours, floor drain
			err := b.inTurns(func() (err error) {
				ours, err = b.drainOurs(ctx, n, reply)
				return err
			}, func() (err error) {
				floor, err = b.drainBare(ctx, reply)
				return err
			})
			if err != nil {
				return err
			}
			what := fmt.Sprintf("%s, members: %d", what, n)
			b.t.compare(rowRate, what, aSecond, ours.rate(0, 1), floor.rate(0, 1), floorIs)
			b.progress("%s %s: %.0f/s, floor %.0f/s", rowRate, what, ours.rate(0, 1), floor.rate(0, 1))
		}
	}
	return nil
}

// drainOurs lets members that have settled drain a backlog that comes at once.
func (b *bench) drainOurs(ctx context.Context, members int, reply bool) (drain, error) {
	var handled book
	ours, err := b.members(rowRate, reply, handled.note)
	if err != nil {
		return drain{}, err
	}
	defer ours.close()
	if err := ours.start(members); err != nil {
		return drain{}, err
	}
	if _, err := ours.settle(ctx); err != nil {
		return drain{}, err
	}
	if err := ours.fill(b.o.drained()); err != nil {
		return drain{}, err
	}
	d, err := ours.drain(ctx, b.o.drained(), reply, &handled)
	if err != nil {
		return d, fmt.Errorf("%d members: %w", members, err)
	}
	return d, nil
}

func (b *bench) drainBare(ctx context.Context, reply bool) (drain, error) {
	replies := 0
	if reply {
		replies = bareSends
	}
	floor, err := b.bare(rowRate+"-floor", true, replies)
	if err != nil {
		return drain{}, err
	}
	defer floor.close()
	if err := floor.start(1); err != nil {
		return drain{}, err
	}
	if _, err := floor.settle(ctx); err != nil {
		return drain{}, err
	}
	if err := floor.fill(b.o.drained()); err != nil {
		return drain{}, err
	}
	d, err := floor.drain(ctx, b.o.drained(), reply, nil)
	if err != nil {
		return d, fmt.Errorf("floor: %w", err)
	}
	return d, nil
}

// fill lets n messages come at once.
func (f *fleet) fill(n int) error {
	messages := make([]botapitest.Message, n)
	for i := range messages {
		messages[i] = botapitest.Message{User: int64(1 + i%chats), Text: "hello"}
	}
	_, err := f.server.SayAll(messages)
	return err
}

// A book has when each update was first handled, as handlers tell.
type book struct {
	mu sync.Mutex // guards at
	at map[int64]time.Duration
}

func (b *book) note(_ *process, s stamp) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at == nil {
		b.at = map[int64]time.Duration{}
	}
	if _, ok := b.at[s.Update]; !ok {
		b.at[s.Update] = time.Duration(s.At)
	}
}

func (b *book) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.at)
}

// drain waits until n updates are done. Those are done that were replied to, as
// the server sees it; without replies those that a handler got, or, if there is
// no book of that, those that were confirmed.
func (f *fleet) drain(ctx context.Context, n int, reply bool, handled *book) (drain, error) {
	d := drain{begin: -1}
	each := func(e botapitest.Event) {
		switch {
		case e.Kind == botapitest.EventHanded && d.begin < 0:
			d.begin = e.At
		case reply && e.Kind == botapitest.EventSent:
			d.done = append(d.done, e.At)
		case !reply && handled == nil && e.Kind == botapitest.EventConfirmed:
			for range e.Updates {
				d.done = append(d.done, e.At)
			}
		}
	}
	begin, before := time.Now(), 0
	for {
		if err := f.read(each); err != nil {
			return d, err
		}
		done := len(d.done)
		if !reply && handled != nil {
			done = handled.count()
		}
		if done >= n {
			break
		}
		if done > before {
			begin, before = time.Now(), done
		} else if time.Since(begin) > patience {
			return d, fmt.Errorf("%d of %d updates were done, and no more for %v", done, n, patience)
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return d, err
		}
	}
	if !reply && handled != nil {
		for _, at := range handled.at { // nothing more comes: all have been
			d.done = append(d.done, at-f.epoch)
		}
	}
	return d, nil
}
