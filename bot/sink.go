package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"syscall"

	"tgbridge/bus"
	"tgbridge/internal/journal"
	"tgbridge/internal/telegram"
	"tgbridge/polling"
)

// sink takes in what the poller fetched: judge, journal, hub.
type sink struct{ b *Bridge }

var _ polling.Sink = sink{}

var errNoTerm = errors.New("no term under way")

// Ready waits for the takeover of the journal.
func (s sink) Ready() <-chan struct{} {
	if t := s.b.term.Load(); t != nil {
		return t.opened
	}
	none := make(chan struct{})
	close(none)
	return none
}

// Commit makes a batch durable, then hands it to the hub. Updates of senders
// who are not allowed go no further than here.
func (s sink) Commit(ctx context.Context, batch []polling.Update, unreadable []json.RawMessage) error {
	t, err := s.b.readyTerm(ctx)
	if err != nil {
		return err
	}
	in := t.intake(len(batch) + len(unreadable))
	for _, u := range batch {
		in.take(u.ID, u.Raw)
	}
	for _, raw := range unreadable {
		in.takeUnreadable(raw)
	}
	if len(in.records) > 0 {
		done := make(chan error, 1)
		t.journal.TryWrite(in.records, true, func(err error) { done <- err })
		select {
		case err = <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("journal updates: %w", asPollingKnows(err))
		}
		if err := t.hub.Add(in.items); err != nil {
			return err
		}
	}
	if err := t.journal.Check(); err != nil {
		return fmt.Errorf("check journal: %w", asPollingKnows(err))
	}
	return nil
}

// asPollingKnows makes the error that says that the disk is full on every system
// of journal.ErrDiskFull.
func asPollingKnows(err error) error {
	if errors.Is(err, journal.ErrDiskFull) {
		return fmt.Errorf("%w: %w", syscall.ENOSPC, err)
	}
	return err
}

// Confirmed forgets what Telegram has forgotten.
func (s sink) Confirmed(offset int64, empty bool) {
	t := s.b.term.Load()
	if t == nil || !t.isReady() {
		return
	}
	t.journal.TryWrite([]journal.Record{{Kind: journal.KindConfirmed, Offset: offset, Empty: empty}}, false, func(error) {})
}

// Full reports whether enough is pending.
func (s sink) Full() (<-chan struct{}, bool) {
	t := s.b.term.Load()
	if t == nil || !t.isReady() {
		return nil, false
	}
	return t.full()
}

// intake turns a batch into records and deliveries.
type intake struct {
	t       *term
	seq     uint64
	ids     map[int64]uint64 // hash by id, of this batch
	records []journal.Record
	items   []bus.Item
}

func (t *term) intake(n int) *intake {
	return &intake{t: t, seq: t.journal.Reserve(n), ids: make(map[int64]uint64, n)}
}

var hashTable = crc64.MakeTable(crc64.ECMA)

// maxUpdate is the greatest length of an update in bytes, far above Telegram's. It
// fits, also as base64, into a line of the journal and of the bus.
const maxUpdate = 8 << 20

// take adds an update, unless it is known or denied.
func (in *intake) take(id int64, raw []byte) {
	hash := crc64.Checksum(raw, hashTable)
	known, ok := in.ids[id]
	if !ok {
		var e journal.Entry
		e, ok = in.t.journal.Seen(id)
		known = e.Hash
	}
	if ok {
		if known != hash {
			in.t.b.log.Warn().Int64("update_id", id).Msg("update came again with other content; the first is kept")
		}
		return
	}
	if len(raw) > maxUpdate {
		in.dead(id, hash, raw, fmt.Sprintf("it has %d bytes, at most %d are taken", len(raw), maxUpdate))
		return
	}
	facts, err := telegram.Inspect(raw)
	if err != nil {
		in.dead(id, hash, raw, err.Error())
		return
	}
	if !in.t.b.access.Allows(facts) {
		in.t.b.denied.note(facts)
		return
	}
	in.ids[id] = hash
	delivery := fmt.Sprintf("%d.%d", id, in.seq)
	in.records = append(in.records, journal.Record{
		Kind: journal.KindUpdate, Seq: in.seq, Delivery: delivery, ID: id, Hash: hash, Lane: facts.Lane, Body: raw,
	})
	in.items = append(in.items, bus.Item{Seq: in.seq, ID: delivery, Lane: facts.Lane, Attempt: 1})
	in.seq++
}

// takeUnreadable adds an element without an id, which Telegram sends again with
// every poll until a later id is confirmed: only once.
func (in *intake) takeUnreadable(raw []byte) {
	hash := crc64.Checksum(raw, hashTable)
	for _, e := range in.t.journal.DeadLetters() {
		if e.ID == 0 && e.Hash == hash {
			return
		}
	}
	in.dead(0, hash, raw, "no update_id can be read")
}

// dead adds a dead letter, with the beginning of what is too long.
func (in *intake) dead(id int64, hash uint64, raw []byte, reason string) {
	in.ids[id] = hash
	in.t.b.log.Warn().Int64("update_id", id).Str("reason", reason).Msg("dead letter: update cannot be read")
	in.records = append(in.records,
		journal.Record{
			Kind: journal.KindUpdate, Seq: in.seq, Delivery: fmt.Sprintf("%d.%d", id, in.seq), ID: id, Hash: hash,
			Lane: "unreadable", Body: raw[:min(len(raw), maxUpdate)],
		},
		journal.Record{Kind: journal.KindDead, Seq: in.seq, Reason: reason})
	in.seq++
}
