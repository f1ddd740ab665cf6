package bot

import (
	"context"
	"time"

	"tgbridge/lock"
)

// upkeepEvery is how often what a cleaner may have removed is looked for.
const upkeepEvery = time.Second

// pulse does all regular work of a member but a leader's: the beat, the upkeep,
// and the watch of the leader. It is one goroutine with one timer. What is due
// within half a heartbeat is done together, so that a follower soon does all at
// the instants at which it looks at the leader: to be woken is most of what an
// idle member costs.
func (b *Bridge) pulse(life context.Context) {
	slack := b.o.Heartbeat / 2
	now := time.Now()
	beatAt, keepAt := now.Add(b.o.Heartbeat), now.Add(upkeepEvery)
	timer := time.NewTimer(b.o.Heartbeat)
	defer timer.Stop()
	var keep upkeep
	beatFault := ""
	for {
		select {
		case <-life.Done():
			return
		case <-timer.C:
		case <-b.rewatch:
		}
		now = time.Now()
		if now.After(beatAt.Add(-slack)) {
			beatAt = now.Add(b.o.Heartbeat)
			if err := b.beat(now); isNews(&beatFault, err) {
				b.log.Warn().Err(err).Msg("beat not written")
			}
		}
		if now.After(keepAt.Add(-slack)) {
			keepAt = now.Add(upkeepEvery)
			keep.do(b)
		}
		next := earlier(beatAt, keepAt)
		if w := b.watched.Load(); w != nil {
			next = earlier(next, w.work(now, slack))
		}
		timer.Reset(time.Until(next))
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// beat raises the member's beat if the member gets on: as leader if the poll loop
// does or outcomes are taken in before a stop, and in any role if the worker does.
func (b *Bridge) beat(now time.Time) error {
	leads := b.poller.Progress().Progressing(now) || b.draining.Load()
	if !leads || b.worker.Stuck(b.o.StaleAfter*8/10) {
		return nil
	}
	return b.member.Beat()
}

// upkeep makes anew what a cleaner removed. What keeps it from that is told when
// it begins, not every time.
type upkeep struct{ fileFault, socketFault string }

func (u *upkeep) do(b *Bridge) {
	err := b.member.Check()
	if isNews(&u.fileFault, err) {
		b.log.Warn().Err(err).Msg("member file cannot be made anew")
	}
	anew, err := b.server.Check()
	if isNews(&u.socketFault, err) {
		b.log.Warn().Err(err).Msg("bus socket cannot be made anew")
	}
	if anew {
		b.log.Warn().Str("path", b.server.Path()).Msg("bus socket was removed; made anew")
	}
}

// isNews reports whether err is another than the last one, which it replaces.
func isNews(last *string, err error) bool {
	text := ""
	if err != nil {
		text = err.Error()
	}
	news := text != *last && text != ""
	*last = text
	return news
}

// watch ends a Follow, with the cause, when the leader is dead or hung, or when
// the lease is another's. It looks at the leader's beat right after the next one
// is due, and more often while that does not come: so it knows to some ms when
// the last one was, and an idle follower wakes little more than once a heartbeat.
// It belongs to the pulse.
type watch struct {
	b     *Bridge
	ctx   context.Context // of the Follow
	lost  context.CancelCauseFunc
	lease lock.Entry

	checkAt time.Time // when the lease is read next
	left    bool      // the lease was seen released
	lookAt  time.Time // when the beat is looked at next
	beat    uint64    // as seen last
	again   time.Duration
}

// How far looks at the beat are apart, in parts of a heartbeat.
const (
	lookEarly = 200 // so much before the next beat is due by the last one seen
	lookAgain = 50  // after a look that saw no beat, doubled by each further one
	lookMost  = 4   // but at most this
)

// work does what is due, or will be within slack, and returns when it has to be
// called again.
func (w *watch) work(now time.Time, slack time.Duration) time.Time {
	if w.ctx.Err() != nil {
		return now.Add(w.b.o.Heartbeat)
	}
	due := w.checkAt.Add(-slack)
	if w.left {
		due = w.checkAt // the goodbye has all of its time
	}
	if !now.Before(due) {
		w.checkAt = now.Add(w.b.o.OwnershipCheck)
		if w.check() {
			w.checkAt = now.Add(byeWithin)
		}
	}
	if !now.Before(w.lookAt) {
		w.lookAt = now.Add(w.look())
	}
	return earlier(w.checkAt, w.lookAt)
}

// look looks at the leader's beat, and returns when to look again.
func (w *watch) look() time.Duration {
	heartbeat := w.b.o.Heartbeat
	reading, err := w.b.observer.Look(w.lease.InstanceID)
	switch {
	case err != nil: // no answer
		return heartbeat / lookMost
	case reading.Dead():
		w.lost(&leaderLost{leaderDead})
		return heartbeat
	case reading.Hung(w.b.o.StaleAfter):
		w.lost(&leaderLost{leaderHung})
		return heartbeat
	}
	next := heartbeat - heartbeat/lookEarly
	if known := w.again > 0; !known || reading.Beat == w.beat {
		w.again = min(max(2*w.again, heartbeat/lookAgain), heartbeat/lookMost)
		next = w.again
	} else {
		w.again = heartbeat / (2 * lookAgain)
	}
	w.beat = reading.Beat
	return min(next, max(0, w.b.o.StaleAfter-reading.Unmoved))
}

// byeWithin is how long the goodbye of a leader may take that has released the
// lease: it names the heir, so it is waited for.
const byeWithin = 50 * time.Millisecond

// check reads the lease, and ends the Follow if it is not the leader's any more.
// It reports whether to look again soon.
func (w *watch) check() (again bool) {
	present, err := w.b.lease.Current()
	switch {
	case err != nil: // no answer
	case !present.Held() && !w.left:
		w.left = true
		return true
	case !present.Held():
		w.lost(&leaderLost{leaderLeft})
	case !present.SameOwner(w.lease):
		w.lost(&leaderLost{leaseMoved})
	}
	return false
}
