package bot

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"tgbridge/bus"
	"tgbridge/internal/journal"
)

// store is the journal as the hub and the calls see it.
type store struct{ t *term }

var (
	_ bus.Store   = store{}
	_ bus.CallLog = store{}
)

// Record writes the hub's decisions.
func (s store) Record(actions []bus.Action, durable bool, done func(error)) {
	records := make([]journal.Record, 0, len(actions))
	for _, a := range actions {
		records = append(records, s.record(a))
	}
	s.t.write(records, durable, done)
}

// record is what the journal has to know of a decision.
func (s store) record(a bus.Action) journal.Record {
	r := journal.Record{Seq: a.Item.Seq, Attempt: a.Item.Attempt}
	switch a.Kind {
	case bus.Assign, bus.Adopt:
		r.Kind, r.Member, r.Name, r.Term = journal.KindAssign, a.Member, a.Name, s.t.number
	case bus.TakeBack: // the item has the next attempt
		r.Kind, r.Attempt = journal.KindRelease, a.Item.Attempt-1
	default: // bus.Finish
		r.Kind, r.Body = journal.KindOutcome, a.Outcome.Reply
		if a.Dead != "" {
			r.Body = encodeReply(storedReply{Text: deadNotice, Dead: a.Dead})
		}
	}
	return r
}

// write writes records, which make room perhaps. With a full disk they wait in
// the journal: what was decided is not undone.
func (t *term) write(records []journal.Record, durable bool, done func(error)) {
	t.journal.Write(records, durable, func(err error) {
		t.madeRoom()
		done(err)
	})
}

// await writes records and waits for them.
func (s store) await(durable bool, records ...journal.Record) error {
	done := make(chan error, 1)
	s.t.write(records, durable, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-s.t.ctx.Done():
		return bus.ErrHubClosed
	}
}

// errTextLost is the reason of dead letters whose update or reply is lost.
var errTextLost = fmt.Errorf("%w from the journal, of which a file was damaged", bus.ErrBodyLost)

// isLost reports whether an error of reading the journal will not pass.
func isLost(err error) bool {
	return errors.Is(err, journal.ErrDamaged) || errors.Is(err, journal.ErrNotFound)
}

// Body returns the bytes of a delivery.
func (s store) Body(seq uint64) ([]byte, error) {
	body, err := s.t.journal.Body(seq)
	if isLost(err) {
		return nil, errTextLost
	}
	return body, s.readable(err)
}

// readable notes the error of a read that may pass, and returns it.
func (s store) readable(err error) error {
	if err != nil && !errors.Is(err, journal.ErrClosed) && s.t.trouble.note(err) {
		s.t.b.log.Warn().Err(err).Msg("journal cannot be read: what needs it waits")
	}
	return err
}

// Intend records that a call is about to be made.
func (s store) Intend(r bus.CallRecord) error {
	return s.await(false, journal.Record{
		Kind: journal.KindCall, Request: r.Request, Seq: r.Seq, Lane: r.Lane, By: r.By, Hash: r.Hash,
	})
}

// Conclude records the result of a call. A leader that was overtaken before the
// record was written is told so: its successor has not read it.
func (s store) Conclude(request string, r bus.CallResult) error {
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode result of a call: %w", err)
	}
	if err := s.await(false, journal.Record{Kind: journal.KindResult, Request: request, Body: body}); err != nil {
		return err
	}
	return s.t.b.checkLeads(s.t.ctx)
}

// Withdraw records that a call was not made after all.
func (s store) Withdraw(request string) error {
	return s.await(false, journal.Record{Kind: journal.KindForget, Request: request})
}

// Result returns the recorded result of a call. Of one that is lost nothing is
// known but that the call was made.
func (s store) Result(request string) (bus.CallResult, error) {
	body, err := s.t.journal.Result(request)
	switch {
	case isLost(err) || err == nil && len(body) == 0:
		return refusalResult(http.StatusBadGateway, bus.CodeUnknown, errors.New("the call was made, but its result was lost")), nil
	case err != nil:
		return bus.CallResult{}, s.readable(err)
	}
	var r bus.CallResult
	if err := json.Unmarshal(body, &r); err != nil {
		return bus.CallResult{}, fmt.Errorf("decode result of a call: %w", err)
	}
	return r, nil
}

// finish records that a delivery is done with, or a dead letter.
func (t *term) finish(it bus.Item, dead string) error {
	r := journal.Record{Kind: journal.KindDone, Seq: it.Seq}
	if dead != "" {
		r = journal.Record{Kind: journal.KindDead, Seq: it.Seq, Reason: dead}
		t.b.log.Warn().Str("delivery", it.ID).Str("reason", dead).Msg("dead letter")
	}
	return store{t}.await(false, r)
}
