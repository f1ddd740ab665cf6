package bot

import (
	"context"
	"encoding/json"

	"tgbridge/internal/telegram"
)

// An Update is one update of Telegram on its way to a handler, whole and as it
// came. It belongs to its handler and is not safe for concurrent use.
type Update struct {
	delivery string
	attempt  int
	raw      json.RawMessage
	facts    telegram.Facts
}

// Delivery returns the id of the delivery: the same for every attempt.
func (u *Update) Delivery() string { return u.delivery }

// Attempt returns the number of this attempt, from 1. Attempts that failed, took
// too long or died with their member are counted. One that was given back because
// its member was told to stop is not: the next has the same number.
func (u *Update) Attempt() int { return u.attempt }

// Raw returns the update as Telegram sent it, byte for byte, fields and kinds
// unknown to this package included. The caller must not change it.
func (u *Update) Raw() json.RawMessage { return u.raw }

// Decode decodes the update into a type of the caller's, such as
// tgbotapi.Update.
func (u *Update) Decode(into any) error { return json.Unmarshal(u.raw, into) }

// ID returns update_id.
func (u *Update) ID() int64 { return u.facts.UpdateID }

// Kind returns the name of the update's content: message, callback_query, ...
func (u *Update) Kind() string { return u.facts.Kind }

// ChatID returns the chat's id; false if the kind has no chat.
func (u *Update) ChatID() (int64, bool) { return u.facts.ChatID, u.facts.ChatID != 0 }

// ThreadID returns the id of the topic; 0 outside topics and in General.
func (u *Update) ThreadID() int64 { return u.facts.ThreadID }

// UserID returns the id of the user who sent it; 0 if no user did.
func (u *Update) UserID() int64 { return u.facts.UserID }

// Username returns the sender's name without @; "" if there is none. It can
// change hands: never decide by it.
func (u *Update) Username() string { return u.facts.Username }

// MessageID returns the id of the message; 0 if there is none.
func (u *Update) MessageID() int64 { return u.facts.MessageID }

// Text returns the text of the message, or the caption.
func (u *Update) Text() string { return u.facts.Text }

// A Reply is what the bridge sends back for a handler.
type Reply struct {
	// Text is plain text, sent in parts of at most 4096 UTF-16 units to the
	// update's chat and topic. Empty: nothing is sent. One that needs more than
	// 64 KiB, encoded as JSON, is a failed attempt.
	Text string
}

// A Handler handles updates. Handle is called concurrently for different lanes
// and one update after another within a lane. Its context ends when its time is
// over, when another attempt of the update was begun elsewhere, or when the
// member stops. An error makes another attempt, up to Options.Attempts.
type Handler interface {
	Handle(ctx context.Context, u *Update) (Reply, error)
}

// A HandlerFunc is a function that is a Handler.
type HandlerFunc func(ctx context.Context, u *Update) (Reply, error)

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, u *Update) (Reply, error) { return f(ctx, u) }
