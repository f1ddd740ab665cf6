package botapitest

import (
	"net/url"
	"time"
)

// webhook is a bot's webhook; the zero value is none.
type webhook struct {
	url            string
	maxConnections int64
	setAt          time.Time // of the last setWebhook with a URL
}

func setWebhook(b *Bot, c *call) (Answer, *refusal) {
	return b.changeWebhook(c, c.args.text("url"))
}

func deleteWebhook(b *Bot, c *call) (Answer, *refusal) {
	return b.changeWebhook(c, "")
}

// changeWebhook sets or, with an empty address, deletes the webhook.
func (b *Bot) changeWebhook(c *call, address string) (Answer, *refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	next := webhook{url: address, setAt: now}
	if address != "" {
		if b.limited() && now.Before(b.webhook.setAt.Add(time.Second)) {
			return Answer{}, tooMany(time.Second)
		}
		if r := checkWebhookURL(address); r != nil {
			return Answer{}, r
		}
		next.maxConnections = int64(c.args.clamped("max_connections", 40, 1, 100))
		b.endPoll(ending{conflict: terminatedByHook})
	}
	if filter, ok := parseKinds(c.args.text("allowed_updates")); ok && address != "" {
		b.allowed = filter
	}
	before, drop := b.webhook, c.args.truth("drop_pending_updates")
	b.webhook = next
	if drop {
		if ids := b.queue.clear(); len(ids) > 0 {
			c.record(Event{Kind: EventDropped, Updates: ids})
		}
	}
	return success(jsonTrue, webhookChange(before, next, drop)), nil
}

func webhookChange(before, after webhook, dropped bool) string {
	switch {
	case after.url == "" && before.url == "":
		return "Webhook is already deleted"
	case after.url == "":
		return "Webhook was deleted"
	case after.url == before.url && after.maxConnections == before.maxConnections && !dropped:
		return "Webhook is already set"
	}
	return "Webhook was set"
}

func checkWebhookURL(address string) *refusal {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return badRequest("invalid webhook URL specified")
	}
	if u.Scheme != "https" {
		return badRequest("bad webhook: An HTTPS URL must be provided for webhook")
	}
	return nil
}

func getWebhookInfo(b *Bot, _ *call) (Answer, *refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recordExpired(b.queue.expire(time.Now()))
	var o object
	o.text("url", b.webhook.url)
	o.bool("has_custom_certificate", false)
	o.number("pending_update_count", int64(len(b.queue.updates)))
	if b.webhook.url != "" {
		o.number("max_connections", b.webhook.maxConnections)
	}
	if b.allowed != nil {
		o.raw("allowed_updates", b.allowed.print())
	}
	return success(o.close(), ""), nil
}

// SetWebhook sets the webhook to an address, or deletes it where that is
// empty, as if the bot had. A poll that waits is ended by setting one.
func (b *Bot) SetWebhook(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if address != "" {
		b.endPoll(ending{conflict: terminatedByHook})
	}
	b.webhook = webhook{url: address, maxConnections: 40}
}

// EndPolls answers the poll that waits, if one does, with a, as a server that
// restarts answers each with 500. A status of 0 or no body cuts its
// connection.
func (b *Bot) EndPolls(a Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endPoll(ending{answer: a})
}
