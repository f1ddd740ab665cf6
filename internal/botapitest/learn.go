package botapitest

import (
	"encoding/json"
	"maps"
	"time"
)

// envelope is what the server learns from an update's content: a message, or
// something with one inside. What does not decode is left unknown.
type envelope struct {
	ID        json.RawMessage `json:"id"`
	Chat      *envelopeChat   `json:"chat"`
	Message   *envelope       `json:"message"`
	MessageID int64           `json:"message_id"`
	From      struct {
		ID int64 `json:"id"`
	} `json:"from"`
	Date          int64           `json:"date"`
	Thread        int64           `json:"message_thread_id"`
	Topical       bool            `json:"is_topic_message"`
	Text          string          `json:"text"`
	TopicCreated  *envelopeTopic  `json:"forum_topic_created"`
	TopicClosed   json.RawMessage `json:"forum_topic_closed"`
	TopicReopened json.RawMessage `json:"forum_topic_reopened"`
	Replied       *envelope       `json:"reply_to_message"`
}

type envelopeChat struct {
	ID        int64  `json:"id"`
	Type      string `json:"type"`
	Title     string `json:"title"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`
	Username  string `json:"username"`
	IsForum   bool   `json:"is_forum"`
}

type envelopeTopic struct {
	Name  string `json:"name"`
	Color int64  `json:"icon_color"`
}

// learn makes known what an injected update tells of chats, messages, topics
// and callback queries; b.mu is held.
func (b *Bot) learn(u parsedUpdate) {
	var e envelope
	if json.Unmarshal(u.content, &e) != nil {
		return
	}
	switch u.kind {
	case "message", "edited_message", "channel_post", "edited_channel_post":
		b.learnMessage(&e)
	case "callback_query":
		var id string
		if json.Unmarshal(e.ID, &id) == nil {
			b.callbacks[id] = time.Now()
			maps.DeleteFunc(b.callbacks, func(_ string, asked time.Time) bool { return time.Since(asked) > callbackLife })
		}
		if e.Message != nil {
			b.learnMessage(e.Message)
		}
	default:
		b.learnChat(&e)
	}
}

// learnChat returns nil if there is no chat to learn.
func (b *Bot) learnChat(e *envelope) *chat {
	if e.Chat == nil || e.Chat.ID == 0 {
		return nil
	}
	return b.meet(Chat{
		ID: e.Chat.ID, Type: e.Chat.Type, Title: e.Chat.Title, FirstName: e.Chat.FirstName,
		LastName: e.Chat.LastName, Username: e.Chat.Username, IsForum: e.Chat.IsForum,
	})
}

func (b *Bot) learnMessage(e *envelope) {
	c := b.learnChat(e)
	if c == nil {
		return
	}
	if e.Replied != nil {
		b.learnMessage(e.Replied)
	}
	if e.Topical && e.Thread != 0 {
		c.learnTopic(e)
	}
	if e.MessageID != 0 {
		c.remember(&message{
			id: e.MessageID, thread: e.Thread, topical: e.Topical, own: e.From.ID == b.id,
			date: e.Date, text: e.Text, kind: "text",
		})
	}
}

func (c *chat) learnTopic(e *envelope) {
	t := c.topics[e.Thread]
	if t == nil {
		t = &topic{name: "Topic", color: defaultTopicColor, date: e.Date}
		c.topics[e.Thread] = t
	}
	if e.TopicCreated != nil {
		t.name, t.color = e.TopicCreated.Name, e.TopicCreated.Color
	}
	if e.TopicClosed != nil {
		t.closed = true
	}
	if e.TopicReopened != nil {
		t.closed = false
	}
}
