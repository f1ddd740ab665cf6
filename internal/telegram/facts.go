package telegram

import (
	"fmt"
	"strconv"
)

// Facts is what the bridge has to know of an update: which one it is, who sent
// it, where, and in which lane it belongs. Numbers are 0 and texts empty where
// an update has none.
type Facts struct {
	UpdateID int64
	// Kind is the name of the member that holds the update: "message",
	// "callback_query" and so on, also of kinds that came after this program.
	// Empty for an update that holds nothing.
	Kind string

	// UserID and Username are the sender's. Beside a SenderChatID the user is
	// a stand-in and says nothing of who sent it. Never decide by Username:
	// anybody can take one.
	UserID   int64
	Username string
	// SenderChatID is the chat on whose behalf it was sent: a channel, a group
	// with an anonymous administrator, an anonymous voter.
	SenderChatID int64

	ChatID int64
	// ThreadID is the topic, as an answer must name it: of a forum or of a
	// private chat with topics. A mere reply thread is none, and neither is
	// the topic General, which is addressed by leaving the thread out.
	ThreadID int64
	// DirectTopicID is the topic of a channel's direct messages, which an
	// answer names by direct_messages_topic_id.
	DirectTopicID int64
	MessageID     int64
	// BusinessConnection is the id of the business connection that a message
	// came by; an answer must name it.
	BusinessConnection string

	// Text is the text or caption of a message of any kind, else empty.
	Text string

	// Lane is the unit of order: "chat:ID", "chat:ID/THREAD",
	// "chat:ID/direct/TOPIC" or "business:CONNECTION/ID"; without a chat
	// "user:ID", else "update:ID".
	Lane string
}

// UnreadableError means that an update cannot be handled, because something
// that decides where it belongs has a wrong type (F10).
type UnreadableError struct {
	// ID is the update's id if HasID. Without one it cannot be confirmed by
	// itself.
	ID    int64
	HasID bool
	// Reason names the member and its type, never its content.
	Reason string
}

// Error returns id and reason.
func (e *UnreadableError) Error() string {
	if !e.HasID {
		return "unreadable update without an id: " + e.Reason
	}
	return fmt.Sprintf("unreadable update %d: %s", e.ID, e.Reason)
}

// senderPlace says where a kind names the user who caused it.
type senderPlace int

const (
	inFrom   senderPlace = iota
	inUser               // member user
	inSource             // member source, user in it (chat boosts)
	inBoost              // member boost, source and user in it
	inChat               // the private chat is the user
	nowhere              // no user, by type
)

// form says how to read a kind.
type form struct {
	sender  senderPlace
	message bool // has the members of a message
}

// formOf knows the kinds of Bot API 10.3
// (https://core.telegram.org/bots/api#update).
func formOf(kind []byte) (form, bool) {
	switch string(kind) {
	case "message", "edited_message", "channel_post", "edited_channel_post",
		"business_message", "edited_business_message", "guest_message":
		return form{sender: inFrom, message: true}, true
	case "callback_query", "inline_query", "chosen_inline_result", "shipping_query",
		"pre_checkout_query", "purchased_paid_media", "my_chat_member", "chat_member",
		"chat_join_request":
		return form{sender: inFrom}, true
	case "poll_answer", "message_reaction", "business_connection", "managed_bot", "subscription":
		return form{sender: inUser}, true
	case "removed_chat_boost":
		return form{sender: inSource}, true
	case "chat_boost":
		return form{sender: inBoost}, true
	case "stopped_message_generation":
		return form{sender: inChat}, true
	case "poll", "message_reaction_count", "deleted_business_messages":
		return form{sender: nowhere}, true
	}
	return form{}, false
}

// Inspect reads the facts out of one update, an element of what GetUpdates
// returned. Member order, blanks, repeated members (the last one counts),
// unknown members and kinds are tolerated; a member that is null counts as
// absent. The result keeps nothing of raw.
//
// The error is an *UnreadableError when raw is no JSON, or nested deeper than
// encoding/json takes (10,000 levels), when the id is missing, or when the kind is
// known and its holder, sender, chat, thread or message id is of a wrong type, or
// when there are two known kinds. The facts then hold what could be read; the id
// also where quotes and brackets alone show where it is. Inspect is pure.
func Inspect(raw []byte) (Facts, error) {
	r := reader{}
	kind, known, body := r.outer(raw)
	if r.reason == "" && body != nil {
		r.facts.Kind = string(kind)
		r.read(known, body)
	}
	if r.reason != "" {
		return r.facts, &UnreadableError{ID: r.facts.UpdateID, HasID: r.hasID, Reason: r.reason}
	}
	r.facts.Lane = r.facts.lane()
	return r.facts, nil
}

// lane names the unit of order that the update belongs to.
func (f *Facts) lane() string {
	chat := strconv.FormatInt(f.ChatID, 10)
	switch {
	case f.ChatID != 0 && f.BusinessConnection != "":
		return "business:" + f.BusinessConnection + "/" + chat
	case f.ChatID != 0 && f.ThreadID != 0:
		return "chat:" + chat + "/" + strconv.FormatInt(f.ThreadID, 10)
	case f.ChatID != 0 && f.DirectTopicID != 0:
		return "chat:" + chat + "/direct/" + strconv.FormatInt(f.DirectTopicID, 10)
	case f.ChatID != 0:
		return "chat:" + chat
	case f.UserID != 0 && f.SenderChatID == 0:
		return "user:" + strconv.FormatInt(f.UserID, 10)
	default:
		return "update:" + strconv.FormatInt(f.UpdateID, 10)
	}
}
