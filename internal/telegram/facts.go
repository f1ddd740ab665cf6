package telegram

import (
	"fmt"
	"math"
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
// The error is an *UnreadableError when the id is missing, or when the kind is
// known and its holder, sender, chat, thread or message id is of a wrong type,
// or when there are two known kinds. The facts then hold what could be read.
// For bytes that are no JSON it may or may not be an error. Inspect is pure.
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

// reader collects facts, and the first reason why they cannot be had.
type reader struct {
	facts  Facts
	hasID  bool
	known  bool // the kind is known: types are binding
	reason string
}

// outer reads the update's own members: id and kind.
func (r *reader) outer(raw []byte) (kind []byte, known *form, body []byte) {
	var id []byte
	var other, otherBody []byte
	whole := members(raw, func(name, value []byte) {
		f, isKind := formOf(name)
		switch {
		case string(name) == "update_id":
			id = value
		case isNull(value):
		case isKind && known != nil && string(kind) != string(name):
			r.unreadable("two kinds in one update")
		case isKind:
			kind, known, body = name, &f, value
		case otherBody == nil && value[0] == '{':
			other, otherBody = name, value
		}
	})
	if !whole {
		r.unreadable("not a JSON object")
		return nil, nil, nil
	}
	// The next offset is id + 1, and a negative offset would drop updates.
	if n, ok := intOf(id); ok && n >= 0 && n < math.MaxInt64 {
		r.facts.UpdateID, r.hasID = n, true
	} else {
		r.unreadable("update_id is " + typeOf(id) + ", want an id")
	}
	if known == nil {
		return other, nil, otherBody
	}
	if body[0] != '{' {
		r.unreadable(fmt.Sprintf("%s is %s, want an object", kind, typeOf(body)))
	}
	return kind, known, body
}

// parts are the members of a kind's object that matter, nil where absent.
type parts struct {
	from, user, source, boost, botSender []byte
	senderChat, chat, message            []byte
	messageID, thread, isTopic, direct   []byte
	text, caption, connection            []byte
}

func partsOf(obj []byte) parts {
	var p parts
	members(obj, func(name, value []byte) {
		if isNull(value) {
			value = nil
		}
		switch string(name) {
		case "from":
			p.from = value
		case "user":
			p.user = value
		case "source":
			p.source = value
		case "boost":
			p.boost = value
		case "sender_business_bot":
			p.botSender = value
		case "sender_chat", "actor_chat", "voter_chat":
			p.senderChat = value
		case "chat":
			p.chat = value
		case "message":
			p.message = value
		case "message_id":
			p.messageID = value
		case "message_thread_id":
			p.thread = value
		case "is_topic_message":
			p.isTopic = value
		case "direct_messages_topic":
			p.direct = value
		case "text":
			p.text = value
		case "caption":
			p.caption = value
		case "business_connection_id":
			p.connection = value
		}
	})
	return p
}

// read fills the facts from a kind's object. known is nil for a kind that this
// program does not know, which is read as far as it can be.
func (r *reader) read(known *form, body []byte) {
	r.known = known != nil
	p := partsOf(body)
	r.sender(known, p)
	place, at := p, ""
	if known != nil && !known.message && p.message != nil {
		// A button belongs to the place of its message.
		if p.message[0] != '{' {
			r.wrong("message", p.message, "an object")
			return
		}
		place, at = partsOf(p.message), "message."
	}
	r.place(known, place, at)
	if known == nil || !known.message {
		return
	}
	text, ok := stringOf(p.text)
	if !ok {
		text, _ = stringOf(p.caption)
	}
	r.facts.Text = text
}

// sender reads who sent it.
func (r *reader) sender(known *form, p parts) {
	if p.senderChat != nil {
		r.facts.SenderChatID = r.idIn("sender_chat", p.senderChat)
		if r.facts.SenderChatID == 0 {
			return
		}
	}
	user := p.from
	if known == nil {
		if user == nil {
			user = p.user
		}
	} else {
		switch known.sender {
		case inUser:
			user = p.user
		case inSource:
			user = userOfSource(p.source)
		case inBoost:
			user = userOfSource(memberOf(p.boost, "source"))
		case inChat:
			user = privateChat(p.chat)
		case nowhere:
			user = nil
		}
	}
	if p.botSender != nil {
		// Sent by a bot in the name of the business account: the bot is the
		// sender, not the account's owner.
		user = p.botSender
	}
	if user == nil {
		return
	}
	r.facts.UserID = r.idIn("sender", user)
	r.facts.Username, _ = stringOf(memberOf(user, "username"))
}

// place reads where it was sent. at names the object that p was read from.
func (r *reader) place(known *form, p parts, at string) {
	if p.chat != nil {
		r.facts.ChatID = r.idIn(at+"chat", p.chat)
	}
	if p.messageID != nil {
		r.facts.MessageID = r.number(at+"message_id", p.messageID)
	}
	if p.direct != nil {
		if p.direct[0] != '{' {
			r.wrong(at+"direct_messages_topic", p.direct, "an object")
		} else if id := memberOf(p.direct, "topic_id"); id != nil {
			r.facts.DirectTopicID = r.number(at+"direct_messages_topic.topic_id", id)
		}
	}
	if conn, ok := stringOf(p.connection); ok {
		r.facts.BusinessConnection = conn
	}
	r.thread(known, p, at)
}

// thread reads the topic. In a message a thread without is_topic_message is a
// thread of replies; other kinds lack that member, and name threads in private
// chats only, where all of them are topics.
func (r *reader) thread(known *form, p parts, at string) {
	if p.isTopic != nil && p.isTopic[0] != 't' && p.isTopic[0] != 'f' {
		r.wrong(at+"is_topic_message", p.isTopic, "a boolean")
		return
	}
	if p.thread == nil {
		return
	}
	id := r.number(at+"message_thread_id", p.thread)
	private := privateChat(p.chat) != nil
	isMessage := known == nil || known.message || at != ""
	switch {
	case id == 1 && !private: // General
	case len(p.isTopic) > 0 && p.isTopic[0] == 't', !isMessage && private:
		r.facts.ThreadID = id
	}
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

// idIn reads the id of a user or chat.
func (r *reader) idIn(what string, obj []byte) int64 {
	if obj[0] != '{' {
		r.wrong(what, obj, "an object")
		return 0
	}
	id := memberOf(obj, "id")
	n, ok := intOf(id)
	if !ok || n == 0 {
		r.wrong(what+".id", id, "an id")
	}
	return n
}

func (r *reader) number(what string, value []byte) int64 {
	n, ok := intOf(value)
	if !ok {
		r.wrong(what, value, "an integer of 64 bits")
	}
	return n
}

// wrong notes a member of a wrong type. In kinds that this program does not
// know, members of the same name may be something else: they count as absent.
func (r *reader) wrong(what string, value []byte, want string) {
	if r.known {
		r.unreadable(fmt.Sprintf("%s.%s is %s, want %s", r.facts.Kind, what, typeOf(value), want))
	}
}

func (r *reader) unreadable(reason string) {
	if r.reason == "" {
		r.reason = reason
	}
}

// memberOf returns the last member of that name, nil if there is none.
func memberOf(obj []byte, want string) []byte {
	var found []byte
	members(obj, func(name, value []byte) {
		if string(name) == want {
			found = value
			if isNull(value) {
				found = nil
			}
		}
	})
	return found
}

// userOfSource returns who boosted a chat: nil for a giveaway without winner.
func userOfSource(source []byte) []byte { return memberOf(source, "user") }

// privateChat returns the chat if it is a private one: its id is the user's.
func privateChat(chat []byte) []byte {
	if kind, _ := stringOf(memberOf(chat, "type")); kind == "private" {
		return chat
	}
	return nil
}
