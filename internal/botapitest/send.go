package botapitest

import (
	"encoding/json"
	"strings"
	"time"
)

const maxText = 4096 // UTF-16 units

// sendMessage stores a message and answers with it.
func sendMessage(b *Bot, c *call) (Answer, *refusal) {
	f, r := textArgument(c.args, "message is too long")
	if r != nil {
		return Answer{}, r
	}
	return b.send(c, &message{text: f.text, entities: f.entities, kind: "text"})
}

// send places a message into the chat, topic and reply that the arguments
// name.
func (b *Bot) send(c *call, m *message) (Answer, *refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	chat, r := b.chatByArg(c.args)
	if r != nil {
		return Answer{}, r
	}
	reply, r := replyArgument(chat, c.args)
	if r != nil {
		return Answer{}, r
	}
	if m.thread, r = threadArgument(chat, c.args, reply); r != nil {
		return Answer{}, r
	}
	if r = b.admit(chat); r != nil {
		return Answer{}, r
	}
	m.id, m.own, m.date = b.nextMessageID(chat), true, time.Now().Unix()
	m.topical = m.thread != 0
	if reply != nil {
		m.reply = reply.id
	}
	m.markup = c.args.text("reply_markup")
	chat.remember(m)
	c.record(Event{Kind: EventSent, Chat: chat.ID, Thread: m.thread, MessageID: m.id, Text: m.text, File: m.file.name, Size: m.file.size})
	return success(b.printMessage(chat, m), ""), nil
}

// textArgument is the text of a message with its entities.
func textArgument(a args, tooLong string) (formatted, *refusal) {
	if !a.has("text") {
		return formatted{}, badRequest("message text is empty")
	}
	f, r := formattedArgument(a, "text", "entities")
	switch {
	case r != nil:
		return f, r
	case f.text == "":
		return f, badRequest("text must be non-empty")
	case utf16Len(f.text) > maxText:
		return f, badRequest(tooLong)
	}
	return f, nil
}

// threadArgument is the topic that a message goes to: the one named, or that
// of the message replied to; 0 for none and for General, which has no name.
func threadArgument(c *chat, a args, reply *message) (int64, *refusal) {
	thread := a.number("message_thread_id")
	if thread == 0 {
		if reply == nil || !reply.topical {
			return 0, nil
		}
		thread = reply.thread
	}
	topic := c.topics[thread]
	if topic == nil {
		return 0, badRequest("message thread not found")
	}
	if topic.closed && !c.WriteClosedTopics {
		return 0, badRequest("TOPIC_CLOSED")
	}
	return thread, nil
}

// replyArgument finds the message that is replied to, nil for none.
func replyArgument(c *chat, a args) (*message, *refusal) {
	id, without := a.number("reply_to_message_id"), a.truth("allow_sending_without_reply")
	if parameters := a.text("reply_parameters"); parameters != "" {
		var p struct {
			MessageID                json.Number `json:"message_id"`
			AllowSendingWithoutReply bool        `json:"allow_sending_without_reply"`
		}
		if json.Unmarshal([]byte(parameters), &p) != nil {
			return nil, badRequest("can't parse reply parameters JSON object")
		}
		id, without = leadingNumber(string(p.MessageID)), p.AllowSendingWithoutReply
	}
	if id == 0 {
		return nil, nil
	}
	m := c.messages[id]
	if m == nil && !without {
		return nil, badRequest("message to be replied not found")
	}
	return m, nil
}

// printMessage prints a message of the bot.
func (b *Bot) printMessage(c *chat, m *message) []byte {
	o := object{b: make([]byte, 0, 512+len(m.text))}
	o.number("message_id", m.id)
	if c.Type == "channel" {
		o.raw("sender_chat", c.printed)
	} else {
		user := b.user()
		o.raw("from", user.close())
	}
	o.raw("chat", c.printed)
	o.number("date", m.date)
	if m.edited != 0 {
		o.number("edit_date", m.edited)
	}
	if m.topical {
		o.number("message_thread_id", m.thread)
	}
	switch reply := c.messages[m.reply]; {
	case reply != nil:
		o.raw("reply_to_message", b.printReplied(c, reply))
	case m.topical && c.topics[m.thread] != nil:
		o.raw("reply_to_message", b.printTopicStart(c, m.thread))
	}
	if m.kind == "text" {
		o.text("text", m.text)
		if m.entities != nil {
			o.raw("entities", printEntities(m.entities))
		}
	} else {
		o.raw(m.kind, m.content)
		o.textIf("caption", m.text)
		if m.entities != nil {
			o.raw("caption_entities", printEntities(m.entities))
		}
	}
	if json.Valid([]byte(m.markup)) && strings.Contains(m.markup, `"inline_keyboard"`) {
		o.raw("reply_markup", []byte(m.markup))
	}
	if m.topical {
		o.bool("is_topic_message", true)
	}
	return o.close()
}

// printReplied prints a message inside another, which never shows what it
// replies to itself.
func (b *Bot) printReplied(c *chat, m *message) []byte {
	var o object
	o.number("message_id", m.id)
	if m.own {
		user := b.user()
		o.raw("from", user.close())
	}
	o.raw("chat", c.printed)
	o.number("date", m.date)
	if m.thread != 0 {
		o.number("message_thread_id", m.thread)
	}
	o.textIf("text", m.text)
	if m.topical {
		o.bool("is_topic_message", true)
	}
	return o.close()
}

// sendChatAction checks its arguments as a message's would be.
func sendChatAction(b *Bot, c *call) (Answer, *refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	chat, r := b.chatByArg(c.args)
	if r != nil {
		return Answer{}, r
	}
	if _, r = threadArgument(chat, c.args, nil); r != nil {
		return Answer{}, r
	}
	if !chatActions[strings.ToLower(c.args.text("action"))] {
		return Answer{}, badRequest("wrong parameter action in request")
	}
	return success(jsonTrue, ""), nil
}

var chatActions = map[string]bool{
	"cancel": true, "typing": true,
	"record_video": true, "upload_video": true, "record_voice": true, "upload_voice": true,
	"record_audio": true, "upload_audio": true, "upload_photo": true, "upload_document": true,
	"choose_sticker": true, "pick_up_location": true, "find_location": true,
	"record_video_note": true, "upload_video_note": true, "record_round": true, "upload_round": true,
}
