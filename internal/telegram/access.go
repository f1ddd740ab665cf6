package telegram

// Accounts that Telegram puts into the sender's place of messages that no user
// sent (https://core.telegram.org/bots/api#message, from).
const (
	accountTelegram       = 777000     // channel posts forwarded into the linked group
	accountChannelBot     = 136817688  // messages and votes in a channel's name
	accountAnonymousAdmin = 1087968824 // anonymous administrators
)

// Access says whose updates reach a handler. The zero value allows nobody
// (G9). It is read only, so it may be used concurrently.
type Access struct {
	// All allows every update, also those that no user sent: a public bot.
	All bool
	// Users are the numeric ids of those who are allowed.
	Users map[int64]struct{}
}

// Allows reports whether an update may reach a handler. The sender's numeric
// user id alone decides, in every kind and in every chat; membership of a chat
// and usernames decide nothing. Who the sender is:
//
//	message, edited_message, business_message,    from; with sender_chat nobody;
//	edited_business_message, guest_message        with sender_business_bot that bot
//	channel_post, edited_channel_post             nobody (the channel)
//	callback_query, inline_query,                 from
//	chosen_inline_result, shipping_query,
//	pre_checkout_query, purchased_paid_media
//	my_chat_member, chat_member,                  from: who made the change or asks
//	chat_join_request
//	poll_answer, message_reaction                 user; with voter_chat or actor_chat
//	                                              nobody
//	business_connection, managed_bot,             user
//	subscription
//	chat_boost, removed_chat_boost                the source's user, if it has one
//	stopped_message_generation                    the private chat's user
//	poll, message_reaction_count,                 nobody
//	deleted_business_messages
//	kinds of later versions                       from, else user; with a
//	                                              sender's chat nobody
//
// Where the sender is nobody, or one of Telegram's three stand-in accounts, an
// update is denied unless all are allowed, even if the stand-in's id is
// listed: it would stand for every channel and every anonymous administrator
// anywhere.
func (a Access) Allows(f Facts) bool {
	if a.All {
		return true
	}
	if f.SenderChatID != 0 {
		return false
	}
	switch f.UserID {
	case 0, accountTelegram, accountChannelBot, accountAnonymousAdmin:
		return false
	}
	_, listed := a.Users[f.UserID]
	return listed
}
