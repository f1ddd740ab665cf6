package bot

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"tgbridge/internal/telegram"
	"tgbridge/polling"
)

// source is Telegram as the poller sees it.
type source struct{ client *telegram.Client }

var _ polling.Source = source{}

func (s source) GetUpdates(ctx context.Context, r polling.Request) ([]json.RawMessage, error) {
	var offset *int64
	if r.HasOffset {
		offset = &r.Offset
	}
	raw, err := s.client.GetUpdates(ctx, offset, r.Limit, r.Timeout, r.AllowedUpdates)
	return raw, pollError(err)
}

func (s source) DeleteWebhook(ctx context.Context) error {
	return pollError(s.client.DeleteWebhook(ctx))
}

func (s source) Reset() { s.client.Reset() }

// pollError makes Telegram's answer one that the poller knows. What somebody in
// between answered says nothing of the token, other pollers or a webhook, only
// perhaps when to come again.
func pollError(err error) error {
	var e *telegram.Error
	if !errors.As(err, &e) || e.Foreign && e.Code != http.StatusTooManyRequests {
		return err
	}
	return &polling.APIError{Code: e.Code, Description: e.Description, RetryAfter: e.RetryAfter}
}
