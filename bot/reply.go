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
	"strings"

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
// delivery is finished and that is recorded; after an error it is called again.
func (t *term) sendReply(ctx context.Context, it bus.Item) error {
	raw, err := t.journal.Reply(it.Seq)
	if isLost(err) {
		return t.finish(it, errTextLost.Error())
	} else if err != nil {
		return store{t}.readable(err)
	}
	var reply storedReply
	if err := json.Unmarshal(raw, &reply); err != nil {
		return t.finish(it, fmt.Sprintf("its reply cannot be read: %v", err))
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
	} else if refused != "" {
		reason = strings.TrimPrefix(reason+"; "+refused, "; ")
	}
	return t.finish(it, reason)
}

// sendParts sends the parts in order. Refused says why a part did not arrive:
// because Telegram does not take it, and then the rest is not sent; or because
// its outcome is unknown, and a repetition might send it twice (G7).
func (t *term) sendParts(ctx context.Context, it bus.Item, facts telegram.Facts, text string) (refused string, err error) {
	for i, part := range telegram.Split(text, telegram.MaxText) {
		result, err := t.b.calls.Do(ctx, bus.Call{
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
			refused = fmt.Sprintf("part %d of the reply may not have arrived", i+1)
			continue
		}
		var callErr *CallError
		if _, err := DecodeAnswer("sendMessage", result.Body); errors.As(err, &callErr) {
			return callErr.Error(), nil
		} else if err != nil {
			return "", err
		}
	}
	return refused, nil
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
