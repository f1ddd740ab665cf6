package botapitest

import (
	"time"
	"unicode/utf8"
)

const (
	defaultTopicColor = 7322096
	maxTopicName      = 128 // characters
)

// createForumTopic makes a topic of a forum or of a private chat.
func createForumTopic(b *Bot, c *call) (Answer, *refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	chat, r := b.chatByArg(c.args)
	if r != nil {
		return Answer{}, r
	}
	if !chat.IsForum && chat.Type != "private" {
		return Answer{}, badRequest("the chat is not a forum")
	}
	name := c.args.text("name")
	if n := utf8.RuneCountInString(name); n == 0 || n > maxTopicName {
		return Answer{}, badRequest("TOPIC_TITLE_INVALID")
	}
	id, now := b.nextMessageID(chat), time.Now().Unix()
	t := &topic{name: name, color: defaultTopicColor, own: true, date: now}
	if c.args.has("icon_color") {
		t.color = c.args.number("icon_color")
	}
	chat.topics[id] = t
	chat.remember(&message{id: id, thread: id, topical: true, own: true, date: now, kind: "forum_topic_created"})
	var o object
	o.number("message_thread_id", id)
	o.text("name", t.name)
	o.number("icon_color", t.color)
	return success(o.close(), ""), nil
}

func closeForumTopic(b *Bot, c *call) (Answer, *refusal) { return b.closeTopic(c, true) }

func reopenForumTopic(b *Bot, c *call) (Answer, *refusal) { return b.closeTopic(c, false) }

func (b *Bot) closeTopic(c *call, closed bool) (Answer, *refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	chat, r := b.chatByArg(c.args)
	if r != nil {
		return Answer{}, r
	}
	if !chat.IsForum {
		return Answer{}, badRequest("the chat is not a forum")
	}
	t := chat.topics[c.args.number("message_thread_id")]
	if t == nil {
		return Answer{}, badRequest("message thread not found")
	}
	if t.closed == closed {
		return Answer{}, badRequest("TOPIC_NOT_MODIFIED")
	}
	t.closed = closed
	return success(jsonTrue, ""), nil
}

// printTopicStart prints the service message that a topic began with.
func (b *Bot) printTopicStart(c *chat, thread int64) []byte {
	t := c.topics[thread]
	var made, o object
	made.text("name", t.name)
	made.number("icon_color", t.color)
	o.number("message_id", thread)
	if t.own {
		user := b.user()
		o.raw("from", user.close())
	}
	o.raw("chat", c.printed)
	o.number("date", t.date)
	o.number("message_thread_id", thread)
	o.raw("forum_topic_created", made.close())
	o.bool("is_topic_message", true)
	return o.close()
}
