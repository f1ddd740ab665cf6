package botapitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A Message is one that a user sends to the bot or to a chat the bot is in.
type Message struct {
	// User is the sender's id; 0 means the chat's, where that is private.
	User int64 `json:"user,omitempty"`
	// Chat is the chat's id; 0 means the private chat with User. A chat that
	// the bot has not met becomes known.
	Chat int64 `json:"chat,omitempty"`
	// Thread is the topic's or reply thread's id, 0 for none.
	Thread int64 `json:"thread,omitempty"`
	// ReplyThread says that Thread is no topic but the thread of replies to
	// that message. A topic that is not known becomes so.
	ReplyThread bool `json:"reply_thread,omitempty"`
	// Text is the message's text.
	Text string `json:"text"`
	// FirstName and Username are the sender's; empty means "User" and none.
	FirstName string `json:"first_name,omitempty"`
	Username  string `json:"username,omitempty"`
}

// ErrFiltered means that an update was dropped because the bot's
// allowed_updates leave its kind out.
var ErrFiltered = errors.New("the bot did not ask for updates of this kind")

// ErrUpdatesPending means that ids cannot be chosen anew: Telegram does so
// only after a week without updates.
var ErrUpdatesPending = errors.New("updates are waiting")

// Say sends a message to the bot and returns the id of its update.
// Errors: ErrFiltered, ErrQueueFull.
func (b *Bot) Say(m Message) (int64, error) {
	ids, err := b.SayAll([]Message{m})
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// SayAll sends messages in order, at once, and returns the ids of their
// updates. On an error those before it were sent and their ids are returned.
func (b *Bot) SayAll(messages []Message) ([]int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	ids := make([]int64, 0, len(messages))
	var failed error
	for _, m := range messages {
		if !b.allowed.allows("message") {
			failed = fmt.Errorf("inject message: %w", ErrFiltered)
			break
		}
		id := b.queue.nextID()
		if _, err := b.queue.push(b.printInjected(id, m, now), now.Add(life("message"))); err != nil {
			failed = fmt.Errorf("inject message: %w", err)
			break
		}
		ids = append(ids, id)
	}
	b.injected(ids)
	return ids, failed
}

// injected records ids and wakes the poll that waits; b.mu is held.
func (b *Bot) injected(ids []int64) {
	if len(ids) > 0 {
		b.ledger.add(Event{Kind: EventInjected, Bot: b.id, Updates: append([]int64(nil), ids...)})
		b.wake()
	}
}

// printInjected prints the update of a user's message and remembers that.
func (b *Bot) printInjected(id int64, m Message, now time.Time) []byte {
	if m.Chat == 0 {
		m.Chat = m.User
	}
	if m.User == 0 {
		m.User = m.Chat
	}
	if m.FirstName == "" {
		m.FirstName = "User"
	}
	c := b.meet(Chat{ID: m.Chat, FirstName: m.FirstName, Username: m.Username, IsForum: m.Thread != 0 && !m.ReplyThread && m.Chat < 0})
	stored := &message{id: b.nextMessageID(c), thread: m.Thread, topical: m.Thread != 0 && !m.ReplyThread, date: now.Unix(), text: m.Text, kind: "text"}
	c.remember(stored)
	if stored.topical && c.topics[m.Thread] == nil {
		c.topics[m.Thread] = &topic{name: "Topic", color: defaultTopicColor, date: now.Unix()}
	}
	o := object{b: make([]byte, 0, 384+len(m.Text))}
	o.number("update_id", id)
	o.raw("message", b.printUserMessage(c, stored, m))
	return o.close()
}

func (b *Bot) printUserMessage(c *chat, stored *message, m Message) []byte {
	var from object
	from.number("id", m.User)
	from.bool("is_bot", false)
	from.text("first_name", m.FirstName)
	from.textIf("username", m.Username)
	o := object{b: make([]byte, 0, 320+len(m.Text))}
	o.number("message_id", stored.id)
	o.raw("from", from.close())
	o.raw("chat", c.printed)
	o.number("date", stored.date)
	if m.Thread != 0 {
		o.number("message_thread_id", m.Thread)
		if stored.topical {
			o.raw("reply_to_message", b.printTopicStart(c, m.Thread))
		} else if root := c.messages[m.Thread]; root != nil {
			o.raw("reply_to_message", b.printReplied(c, root))
		}
	}
	o.text("text", m.Text)
	if stored.topical {
		o.bool("is_topic_message", true)
	}
	return o.close()
}

// Inject puts an update into the queue as it is; it is served byte for byte
// under the id that it names. The server keeps raw. Chats, topics, messages
// and callback queries in it become known.
//
// Errors: ErrFiltered; ErrQueueFull; ErrUpdateID if the id is below one that
// waits or out of range; that no id can be read (see InjectAs).
func (b *Bot) Inject(raw []byte) (int64, error) {
	ids, err := b.InjectAll([][]byte{raw})
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// InjectAll is Inject for many, at once and in order. Updates that are
// filtered are left out of the ids, without an error unless all were. On
// another error those before it were injected and their ids are returned.
func (b *Bot) InjectAll(raws [][]byte) ([]int64, error) {
	updates := make([]parsedUpdate, len(raws))
	for i, raw := range raws {
		u, err := parseUpdate(raw)
		if err != nil {
			return nil, fmt.Errorf("inject update: %w", err)
		}
		updates[i] = u
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := make([]int64, 0, len(raws))
	var failed error
	for i, u := range updates {
		if !b.allowed.allows(u.kind) {
			b.ledger.add(Event{Kind: EventFiltered, Bot: b.id, Updates: []int64{u.id}})
			continue
		}
		if _, failed = b.queue.pushAs(u.id, raws[i], time.Now().Add(life(u.kind))); failed != nil {
			break
		}
		b.learn(u)
		ids = append(ids, u.id)
	}
	b.injected(ids)
	if failed == nil && len(ids) == 0 && len(raws) > 0 {
		return nil, fmt.Errorf("inject update: %w", ErrFiltered)
	}
	return ids, failed
}

// InjectAs puts bytes into the queue under an id of the caller's, whatever
// they hold, so that what no server would send can be served too. They are not
// filtered, and live for a day. Errors: ErrQueueFull, ErrUpdateID.
func (b *Bot) InjectAs(id int64, raw []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.queue.pushAs(id, raw, time.Now().Add(life(""))); err != nil {
		return err
	}
	b.injected([]int64{id})
	return nil
}

// Replace lets an update that waits be served with other bytes, as Telegram
// never does. It reports whether one of this id waits.
func (b *Bot) Replace(id int64, raw []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queue.replace(id, raw)
}

// Pending is the number of updates that wait to be confirmed.
func (b *Bot) Pending() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recordExpired(b.queue.expire(time.Now()))
	return len(b.queue.updates)
}

// NextUpdateID is the id that the next update gets, 0 if none was chosen yet.
func (b *Bot) NextUpdateID() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queue.next
}

// ChooseIDsAnew lets update ids begin at first, or at random where it is 0, as
// after a week without updates. Error: ErrUpdatesPending, ErrUpdateID.
func (b *Bot) ChooseIDsAnew(first int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue.updates) > 0 {
		return fmt.Errorf("choose update ids anew: %d %w", len(b.queue.updates), ErrUpdatesPending)
	}
	if first < 0 || first >= maxUpdateID {
		return fmt.Errorf("choose update ids anew from %d: %w", first, ErrUpdateID)
	}
	b.queue.chooseIDs(first)
	return nil
}

// parsedUpdate is what the server needs to know of an update.
type parsedUpdate struct {
	id      int64
	kind    string
	content json.RawMessage
}

// parseUpdate reads an update's id and kind. The kind is the one member beside
// update_id; of several, one that the Bot API knows.
func parseUpdate(raw []byte) (parsedUpdate, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return parsedUpdate{}, fmt.Errorf("read update: %w", err)
	}
	var u parsedUpdate
	if err := json.Unmarshal(members["update_id"], &u.id); err != nil {
		return parsedUpdate{}, errors.New("read update: no update_id that is a number")
	}
	delete(members, "update_id")
	for _, kind := range kinds {
		if content, ok := members[kind]; ok {
			u.kind, u.content = kind, content
			return u, nil
		}
	}
	for kind, content := range members {
		u.kind, u.content = kind, content
	}
	return u, nil
}
