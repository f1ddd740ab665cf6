package botapitest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// lives tells how long updates of a kind wait where it is not a day.
var lives = map[string]time.Duration{
	"inline_query":         30 * time.Second,
	"callback_query":       150 * time.Second,
	"chosen_inline_result": 10 * time.Minute,
}

func life(kind string) time.Duration {
	if d, ok := lives[kind]; ok {
		return d
	}
	return 24 * time.Hour
}

// onRequest are the kinds that come only to bots that ask for them.
var onRequest = []string{"chat_member", "message_reaction", "message_reaction_count"}

// kinds are the update kinds of Bot API 10.3. A name in allowed_updates that
// is not among them is ignored.
var kinds = []string{
	"message", "edited_message", "channel_post", "edited_channel_post",
	"business_connection", "business_message", "edited_business_message", "deleted_business_messages",
	"message_reaction", "message_reaction_count",
	"inline_query", "chosen_inline_result", "callback_query", "shipping_query", "pre_checkout_query",
	"purchased_paid_media", "poll", "poll_answer",
	"my_chat_member", "chat_member", "chat_join_request", "chat_boost", "removed_chat_boost",
	"managed_bot", "guest_message", "subscription", "stopped_message_generation",
}

// kindFilter is what a bot asked for last; nil stands for the default set.
type kindFilter map[string]bool

// parse reads allowed_updates. It reports false where the argument changes
// nothing: absent, "null", or not a list of strings. An empty list, and one of
// unknown names alone, is the default set.
func parseKinds(argument string) (kindFilter, bool) {
	var names []string
	if err := json.Unmarshal([]byte(argument), &names); err != nil || names == nil {
		return nil, false
	}
	filter := make(kindFilter)
	for _, name := range names {
		if name = strings.ToLower(name); slices.Contains(kinds, name) {
			filter[name] = true
		}
	}
	if len(filter) == 0 {
		return nil, true
	}
	return filter, true
}

// allows reports whether an update of this kind is kept when it arrives. One
// without a kind, which no server sends, always is.
func (f kindFilter) allows(kind string) bool {
	if f == nil {
		return !slices.Contains(onRequest, kind)
	}
	return kind == "" || f[kind]
}

// print is the filter as getWebhookInfo shows it.
func (f kindFilter) print() []byte {
	var b []byte
	b = append(b, '[')
	for i, name := range slices.Sorted(maps.Keys(f)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, name)
	}
	return append(b, ']')
}
