package config

// UpdateKinds returns every kind of update that Bot API 10.3 has. They are
// asked for by name, because Telegram leaves some out when asked for all, and
// remembers the last list when asked for none in particular.
func UpdateKinds() []string {
	return []string{
		"message",
		"edited_message",
		"channel_post",
		"edited_channel_post",
		"business_connection",
		"business_message",
		"edited_business_message",
		"deleted_business_messages",
		"guest_message",
		"message_reaction",
		"message_reaction_count",
		"inline_query",
		"chosen_inline_result",
		"callback_query",
		"shipping_query",
		"pre_checkout_query",
		"purchased_paid_media",
		"poll",
		"poll_answer",
		"my_chat_member",
		"chat_member",
		"chat_join_request",
		"chat_boost",
		"removed_chat_boost",
		"managed_bot",
		"subscription",
		"stopped_message_generation",
	}
}
