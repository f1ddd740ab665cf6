package botapitest

import (
	"slices"
	"strings"
	"time"
)

// keptMessages is how many messages of a chat can be replied to, edited or
// deleted; older ones are answered as not found.
const keptMessages = 10_000

// A Chat is what the server knows of a chat. Those of injected messages become
// known by themselves; SetChat makes one known, or changes it.
type Chat struct {
	ID int64 `json:"id"`
	// Type is "private", "group", "supergroup" or "channel"; empty means
	// private for a positive id, supergroup for one below -1000000000000,
	// group for others.
	Type string `json:"type,omitempty"`
	// Title is a group's title; FirstName and LastName are a user's.
	Title     string `json:"title,omitempty"`
	FirstName string `json:"first_name,omitempty"`
	LastName  string `json:"last_name,omitempty"`
	Username  string `json:"username,omitempty"`
	// IsForum says that a supergroup has topics.
	IsForum bool `json:"is_forum,omitempty"`
	// MigratedTo is the supergroup that a group became: sends to it are
	// refused with migrate_to_chat_id.
	MigratedTo int64 `json:"migrated_to,omitempty"`
	// Forbidden, if set, refuses sends with status 403 and this description,
	// such as "Forbidden: bot was blocked by the user".
	Forbidden string `json:"forbidden,omitempty"`
	// WriteClosedTopics says that the bot may write in closed topics.
	WriteClosedTopics bool `json:"write_closed_topics,omitempty"`
}

func (c *Chat) complete() {
	switch {
	case c.Type != "":
	case c.ID > 0:
		c.Type = "private"
	case c.ID < -1_000_000_000_000:
		c.Type = "supergroup"
	default:
		c.Type = "group"
	}
	if c.Type == "private" && c.FirstName == "" {
		c.FirstName = "User"
	}
	if c.Type != "private" && c.Title == "" {
		c.Title = "Chat"
	}
}

// print gives the chat in the order of members that Telegram uses.
func (c *Chat) print() []byte {
	var o object
	o.number("id", c.ID)
	if c.Type != "private" {
		o.text("title", c.Title)
	}
	o.textIf("first_name", c.FirstName)
	o.textIf("last_name", c.LastName)
	o.textIf("username", c.Username)
	if c.IsForum {
		o.bool("is_forum", true)
	}
	o.text("type", c.Type)
	if c.Type == "group" {
		o.bool("all_members_are_administrators", true)
	}
	return o.close()
}

// chat is a Chat with its messages and topics.
type chat struct {
	Chat
	printed  []byte // Chat.print
	last     int64  // the last message id, of supergroups and channels
	messages map[int64]*message
	order    []int64 // ids of messages as they came, for keptMessages
	topics   map[int64]*topic
	pace     chatPace
}

// message is what the server remembers of a message.
type message struct {
	id, thread int64
	topical    bool // thread is a topic, not a reply thread
	own        bool // written by the bot
	date       int64
	text       string // or caption
	entities   []entity
	reply      int64  // the message replied to, 0 for none
	edited     int64  // when it was last edited, 0 for never
	markup     string // reply_markup as it was sent
	kind       string // the member that holds the content: "text", "document", ...
	content    []byte // that member, printed, where it is not "text"
	file       upload // the file of a document
}

// topic is a forum topic; its thread id is the id of the message that made it.
type topic struct {
	name   string
	color  int64
	closed bool
	own    bool // made by the bot
	date   int64
}

func newChat(c Chat) *chat {
	c.complete()
	return &chat{Chat: c, printed: c.print(), messages: make(map[int64]*message), topics: make(map[int64]*topic)}
}

func (c *chat) remember(m *message) {
	if _, known := c.messages[m.id]; !known {
		c.order = append(c.order, m.id)
	}
	c.messages[m.id] = m
	c.last = max(c.last, m.id)
	if len(c.order) > keptMessages {
		delete(c.messages, c.order[0])
		c.order = c.order[1:]
	}
}

// chatByArg finds the chat that an argument names, by number or @username, and
// checks that the bot may write there.
func (b *Bot) chatByArg(a args) (*chat, *refusal) {
	name := a.text("chat_id")
	if name == "" {
		return nil, badRequest("chat_id is empty")
	}
	c := b.chats[leadingNumber(name)]
	if username, ok := strings.CutPrefix(name, "@"); ok {
		c = b.chatByUsername(username)
	}
	switch {
	case c == nil:
		return nil, badRequest("chat not found")
	case c.MigratedTo != 0:
		r := badRequest("group chat was upgraded to a supergroup chat")
		r.migrateTo = c.MigratedTo
		return nil, r
	case c.Forbidden != "":
		return nil, &refusal{code: 403, description: c.Forbidden}
	}
	return c, nil
}

// chatByUsername finds public groups and channels; users have no address by
// name.
func (b *Bot) chatByUsername(username string) *chat {
	for _, c := range b.chats {
		if c.Type != "private" && strings.EqualFold(c.Username, username) {
			return c
		}
	}
	return nil
}

// meet makes a chat known unless it is.
func (b *Bot) meet(c Chat) *chat {
	known := b.chats[c.ID]
	if known == nil {
		known = newChat(c)
		b.chats[c.ID] = known
	}
	return known
}

// nextMessageID is the id of the next message in c. Private chats and groups
// share one sequence, supergroups and channels have their own.
func (b *Bot) nextMessageID(c *chat) int64 {
	if slices.Contains([]string{"supergroup", "channel"}, c.Type) {
		c.last++
		return c.last
	}
	b.lastMessage++
	for c.messages[b.lastMessage] != nil {
		b.lastMessage++
	}
	return b.lastMessage
}

// SetChat makes a chat known to the bot as if it had been met, or changes what
// is known of it; its messages and topics stay.
func (b *Bot) SetChat(c Chat) {
	c.complete()
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.meet(c)
	known.Chat, known.printed = c, c.print()
}

// AddTopic makes a forum topic, or one of a private chat, as if its user had,
// without an update. The thread id is that of the message which made it.
func (b *Bot) AddTopic(chatID, thread int64, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.meet(Chat{ID: chatID})
	c.topics[thread] = &topic{name: name, color: defaultTopicColor, date: time.Now().Unix()}
	c.remember(&message{id: thread, thread: thread, topical: true, date: time.Now().Unix(), kind: "forum_topic_created"})
}
