package botapitest

import (
	"bytes"
	"time"
)

// editMessageText changes the text of a message of the bot.
func editMessageText(b *Bot, c *call) (Answer, *refusal) {
	if c.args.has("inline_message_id") {
		return success(jsonTrue, ""), nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	chat, m, r := b.ownMessage(c.args, "message to edit not found", "message can't be edited")
	if r != nil {
		return Answer{}, r
	}
	f, r := textArgument(c.args, "MESSAGE_TOO_LONG")
	if r != nil {
		return Answer{}, r
	}
	if m.kind != "text" {
		return Answer{}, badRequest("there is no text in the message to edit")
	}
	if r = b.admit(chat); r != nil {
		return Answer{}, r
	}
	markup := c.args.text("reply_markup")
	if f.text == m.text && markup == m.markup && bytes.Equal(printEntities(f.entities), printEntities(m.entities)) {
		return Answer{}, badRequest("message is not modified: specified new message content and reply markup " +
			"are exactly the same as a current content and reply markup of the message")
	}
	m.text, m.entities, m.markup, m.edited = f.text, f.entities, markup, time.Now().Unix()
	c.record(Event{Kind: EventEdited, Chat: chat.ID, Thread: m.thread, MessageID: m.id, Text: m.text})
	return success(b.printMessage(chat, m), ""), nil
}

// ownMessage finds the message of the bot that chat_id and message_id name.
func (b *Bot) ownMessage(a args, notFound, notOwn string) (*chat, *message, *refusal) {
	chat, r := b.chatByArg(a)
	if r != nil {
		return nil, nil, r
	}
	m := chat.messages[a.number("message_id")]
	if m == nil {
		return nil, nil, badRequest(notFound)
	}
	if !m.own {
		return nil, nil, badRequest(notOwn)
	}
	return chat, m, nil
}

// deleteMessage removes a message. The bot may remove its own, those of others
// in private chats, and none older than 48 hours.
func deleteMessage(b *Bot, c *call) (Answer, *refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	chat, r := b.chatByArg(c.args)
	if r != nil {
		return Answer{}, r
	}
	m := chat.messages[c.args.number("message_id")]
	if m == nil {
		return Answer{}, badRequest("message to delete not found")
	}
	if !m.own && chat.Type != "private" || time.Since(time.Unix(m.date, 0)) > 48*time.Hour {
		return Answer{}, badRequest("message can't be deleted for everyone")
	}
	delete(chat.messages, m.id)
	c.record(Event{Kind: EventDeleted, Chat: chat.ID, Thread: m.thread, MessageID: m.id})
	return success(jsonTrue, ""), nil
}

// callbackLife is how long a callback query can be answered.
const callbackLife = time.Minute

// answerCallbackQuery answers a query that was injected, once.
func answerCallbackQuery(b *Bot, c *call) (Answer, *refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := c.args.text("callback_query_id")
	asked, known := b.callbacks[id]
	delete(b.callbacks, id)
	if !known || time.Since(asked) > callbackLife {
		return Answer{}, badRequest("query is too old and response timeout expired or query ID is invalid")
	}
	return success(jsonTrue, ""), nil
}
