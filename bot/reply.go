package bot

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"tgbridge/bus"
	"tgbridge/internal/telegram"
)

// storedReply is what a delivery's outcome leaves to be sent.
type storedReply struct {
	Text string `json:"text,omitempty"`
	Dead string `json:"dead,omitempty"` // reason, if the delivery ends as a dead letter
}

func encodeReply(r storedReply) json.RawMessage {
	var raw bytes.Buffer
	enc := json.NewEncoder(&raw)
	enc.SetEscapeHTML(false) // it would make the text longer
	_ = enc.Encode(r)        // strings always encode
	return bytes.TrimSpace(raw.Bytes())
}

// deadNotice is the one line that a user gets about a dead letter.
const deadNotice = "Sorry, this message could not be handled."

// sendReply sends what is left of a delivery's reply, part by part: a part is a
// call whose id is the delivery's and its number, so that no part is sent again
// whose result is known, here or by the journal. It returns nil when the
// delivery is finished and that is recorded.
func (t *term) sendReply(ctx context.Context, it bus.Item) error {
	raw, err := t.journal.Reply(it.Seq)
	if isLost(err) {
		return t.finish(it, errTextLost.Error())
	} else if err != nil {
		return err
	}
	var reply storedReply
	if err := json.Unmarshal(raw, &reply); err != nil {
		return fmt.Errorf("decode stored reply: %w", err)
	}
	reason := reply.Dead
	body, err := store{t}.Body(it.Seq)
	if errors.Is(err, bus.ErrBodyLost) { // and with it the chat
		return t.finish(it, cmp.Or(reason, err.Error()))
	} else if err != nil {
		return err
	}
	facts, _ := telegram.Inspect(body) // what cannot be read has no chat
	if facts.ChatID == 0 {
		if reason == "" && reply.Text != "" {
			reason = "reply to an update without a chat"
		}
	} else if refused, err := t.sendParts(ctx, it, facts, reply.Text); err != nil {
		return err
	} else if refused != "" && reason == "" {
		reason = refused
	}
	return t.finish(it, reason)
}

// sendParts sends the parts in order. Refused says why a part did not arrive:
// because Telegram does not take it, and then the rest is not sent; or because
// its outcome is unknown, and a repetition might send it twice (G7).
func (t *term) sendParts(ctx context.Context, it bus.Item, facts telegram.Facts, text string) (refused string, err error) {
	for i, part := range telegram.Split(text, telegram.MaxText) {
		result, err := t.sendPart(ctx, bus.Call{
			Request: it.ID + "#" + strconv.Itoa(i+1), Method: "sendMessage", ContentType: "application/json",
			Body: sendMessageBody(facts, part), Seq: it.Seq, Lane: it.Lane, Again: true,
		})
		if errors.Is(err, bus.ErrOtherRequest) {
			// Another version began this part, in other words or otherwise cut.
			result, err = bus.CallResult{Status: http.StatusConflict}, nil
		}
		if err != nil {
			return "", err
		}
		if result.Status != http.StatusOK {
			t.b.log.Warn().Str("delivery", it.ID).Int("part", i+1).Msg("a part of a reply may not have arrived")
			refused = fmt.Sprintf("part %d of the reply may not have arrived", i+1)
			continue
		}
		var callErr *CallError
		if _, err := DecodeAnswer("sendMessage", result.Body); errors.As(err, &callErr) {
			t.b.log.Warn().Err(err).Str("delivery", it.ID).Msg("Telegram does not take the reply")
			return callErr.Error(), nil
		} else if err != nil {
			return "", err
		}
	}
	return refused, nil
}

// sendAgainAfter is how long a part waits whose call could not be begun.
const sendAgainAfter = time.Second

// sendPart makes the call of a part, and again while it cannot be begun: until
// ctx ends, with the term.
func (t *term) sendPart(ctx context.Context, c bus.Call) (bus.CallResult, error) {
	for {
		result, err := t.b.calls.Do(ctx, c)
		if !errors.Is(err, bus.ErrNotBegun) {
			return result, err
		}
		t.b.log.Debug().Err(err).Str("request", c.Request).Dur("delay", sendAgainAfter).Msg("a part of a reply waits")
		pause(ctx, sendAgainAfter)
		if ctx.Err() != nil {
			return bus.CallResult{}, context.Cause(ctx)
		}
	}
}

// sendMessageBody addresses a text to where the update came from.
func sendMessageBody(f telegram.Facts, text string) []byte {
	params := map[string]any{"chat_id": f.ChatID, "text": text}
	if f.ThreadID != 0 {
		params["message_thread_id"] = f.ThreadID
	}
	if f.DirectTopicID != 0 {
		params["direct_messages_topic_id"] = f.DirectTopicID
	}
	if f.BusinessConnection != "" {
		params["business_connection_id"] = f.BusinessConnection
	}
	body, _ := json.Marshal(params) // strings and numbers always encode
	return body
}
