package telegram

import (
	"encoding/json"
	"fmt"
	"math"

	"tgbridge/internal/rawjson"
)

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
	whole := rawjson.Members(raw, func(name, value []byte) {
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
	if !json.Valid(raw) { // also what encoding/json does not take
		r.unreadable("no JSON, or nested deeper than 10,000 levels")
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
	rawjson.Members(obj, func(name, value []byte) {
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
	rawjson.Members(obj, func(name, value []byte) {
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
