package botapitest

import (
	"sync"
	"time"
)

// A Bot is one bot of a Server. Its methods are the controls of a test over
// what the bot's users do; the bot itself is the client of the Bot API.
type Bot struct {
	id      int64
	token   string
	options BotOptions
	ledger  *ledger
	closing <-chan struct{}
	limited func() bool // whether rate limits are on

	mu          sync.Mutex // guards what follows; taken before the ledger's
	queue       queue
	allowed     kindFilter
	waiting     *poll     // the poll that waits for updates, if one does
	repeat      repeat    // the last poll, to know one that asks the same again
	conflictAt  time.Time // conflicts before this are answered late
	webhook     webhook
	chats       map[int64]*chat
	lastMessage int64 // last message id of private chats and groups
	callbacks   map[string]time.Time
	total       bucket
	totalUntil  time.Time // penalty over all chats
}

func newBot(o BotOptions, s *Server) *Bot {
	id, _ := botID(o.Token)
	b := &Bot{
		id: id, token: o.Token, options: o,
		ledger: s.ledger, closing: s.closing, limited: s.limited,
		chats:     make(map[int64]*chat),
		callbacks: make(map[string]time.Time),
	}
	b.queue.next = o.FirstUpdateID
	return b
}

// ID is the bot's id, the number in its token.
func (b *Bot) ID() int64 { return b.id }

// Token is the bot's token.
func (b *Bot) Token() string { return b.token }

// user prints the bot as the sender of a message.
func (b *Bot) user() object {
	var o object
	o.number("id", b.id)
	o.bool("is_bot", true)
	o.text("first_name", b.options.FirstName)
	o.text("username", b.options.Username)
	return o
}

func getMe(b *Bot, _ *call) (Answer, *refusal) {
	o := b.user()
	o.bool("can_join_groups", true)
	o.bool("can_read_all_group_messages", false)
	o.bool("supports_inline_queries", false)
	o.bool("supports_guest_queries", false)
	o.bool("can_connect_to_business", false)
	o.bool("has_main_web_app", false)
	o.bool("has_topics_enabled", true)
	o.bool("allows_users_to_create_topics", true)
	o.bool("can_manage_bots", false)
	return success(o.close(), ""), nil
}
