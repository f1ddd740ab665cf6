package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Call makes a call through whoever leads, under one request id: it waits for a
// leader and repeats what a change of leader cut off. Method has to be escaped
// as a segment of a path.
//
// In a handler's context the call belongs to the delivery. Its id then follows
// from the delivery, what is called, and how often this attempt has called just
// that: a later attempt that makes the same call gets the recorded result.
//
// It returns the far side's answer, or ErrOutcomeUnknown, ErrSuperseded, a
// *Refused with what was wrong, or the cause of ctx; the call may have been made
// in the last case.
func (w *Worker) Call(ctx context.Context, method, contentType string, body []byte) (json.RawMessage, error) {
	call := Call{Request: uuid.NewString(), Method: method, ContentType: contentType, Body: body}
	var of Held
	if j, ok := ctx.Value(jobKey{}).(*job); ok {
		of = j.held
		call.Request = w.requestOf(j, call)
	}
	for {
		s, err := w.current(ctx)
		if err != nil {
			return nil, err
		}
		answer, err := s.call(ctx, call, of)
		switch {
		case err == nil:
			return answer, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case IsRefused(err, CodeUnknown):
			return nil, ErrOutcomeUnknown
		case IsRefused(err, CodeSuperseded):
			return nil, ErrSuperseded
		}
		if refused := (*Refused)(nil); errors.As(err, &refused) &&
			!IsRefused(err, CodeNotLeader, CodeTerm, CodeRegistration, CodeBusy) {
			return nil, refused
		}
		// Cut off, or no longer the leader. The same leader is asked again after
		// a moment, another one at once.
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// call makes a call in this session, and gives it up when the session ends: a
// leader that hangs never answers.
func (s *session) call(ctx context.Context, call Call, of Held) (json.RawMessage, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	return s.client.Call(ctx, s.registration, call, of)
}

// requestOf returns the id of a call that a handler makes: the same in every
// attempt of the delivery.
func (w *Worker) requestOf(j *job, c Call) string {
	h := sha256.New()
	for _, part := range []string{j.held.Delivery, c.Method, c.ContentType} {
		h.Write([]byte(part + "\x00"))
	}
	h.Write(c.Body)
	key := hex.EncodeToString(h.Sum(nil)[:16])
	w.mu.Lock()
	defer w.mu.Unlock()
	j.made[key]++
	return key + "." + strconv.Itoa(j.made[key])
}
