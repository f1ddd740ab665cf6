package polling

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// batchLimit is how many updates a poll asks for: the most Telegram gives.
const batchLimit = 100

// An Update is one element of an answer whose update_id could be read.
type Update struct {
	// ID is the update_id, never negative. Ids rise within an answer, but are
	// chosen anew after a week without updates: lower does not mean older.
	ID int64
	// Raw is the element as it came, byte for byte. It may hold bytes that are
	// not UTF-8. Nobody may change it.
	Raw json.RawMessage
}

// A Request is what one getUpdates asks.
type Request struct {
	// Offset, if HasOffset, confirms every update below it, irrevocably.
	// Without it the answer begins at the oldest unconfirmed update, and
	// nothing is confirmed.
	Offset    int64
	HasOffset bool
	// Limit is the greatest number of updates in the answer, 100.
	Limit int
	// Timeout is how long Telegram may keep the request waiting for the first
	// update, in whole seconds.
	Timeout time.Duration
	// AllowedUpdates are the kinds asked for. Nil leaves what was asked last.
	// The slice is shared by all requests and must not be changed.
	AllowedUpdates []string
}

// A Source is the way to Telegram.
//
// Its methods are called from several goroutines, but at most one getUpdates
// is wanted at a time. Errors must not contain the token.
type Source interface {
	// GetUpdates performs one getUpdates (Bot API) and returns the elements of
	// result as they came; the caller owns them. An answer with "ok":false is
	// an *APIError. Everything else that is not a whole, well formed answer
	// (no connection, HTML, a redirect, an empty or cut body) is another
	// error, and then nothing of the answer may be returned.
	//
	// It must write nothing if ctx is done when it is called, must return
	// soon after ctx is done, and may return only once the request's
	// connection is closed or free for the next one.
	GetUpdates(ctx context.Context, r Request) ([]json.RawMessage, error)
	// DeleteWebhook performs one deleteWebhook (Bot API) that keeps the
	// pending updates. Errors and ctx are as in GetUpdates.
	DeleteWebhook(ctx context.Context) error
	// Reset drops pooled connections, so that the next request makes a new
	// one. It must not block.
	Reset()
}

// A Sink takes in what was fetched.
type Sink interface {
	// Ready returns a channel that is closed once Confirmed and Commit go on at
	// once, or fail at once: waiting for it has no limit. It must not block.
	Ready() <-chan struct{}
	// Commit makes the batch durable: when it returns nil, every update of it
	// survives the loss of power, and may be confirmed to Telegram. The order
	// is that of the answer. unreadable are elements without a readable id, in
	// order; they may come again in later batches, byte for byte the same.
	// Updates that are known already (a batch is repeated after a takeover)
	// are the Sink's to recognise. The slices are the Sink's from then on.
	//
	// An error that wraps syscall.ENOSPC or syscall.EDQUOT means that nothing
	// is lost and the same batch may be committed again later; it will be.
	// Any other error ends the leadership with ErrSinkFailed.
	//
	// ctx is the leadership. Commit may take 0.8 x stale-after; then the
	// leadership ends, and a Commit that does not return when ctx ends may
	// overlap with one of the next leadership. Dispatching what was committed is the Sink's business
	// and must not delay the return.
	Commit(ctx context.Context, batch []Update, unreadable []json.RawMessage) error
	// Confirmed tells that Telegram answered a poll with this offset, so that
	// it has forgotten everything below; empty says that the answer held
	// nothing. It comes before the Commit of that answer, in the same
	// goroutine, with ownership verified right before.
	Confirmed(offset int64, empty bool)
	// Full reports whether so much is pending that nothing more may be
	// fetched, and then gives a channel that is closed once there is room. It
	// is called by the poll loop itself and must not block: while it does, the
	// leadership runs into its own deadline.
	Full() (<-chan struct{}, bool)
}

// An APIError is an answer of the Bot API with "ok":false. Sources return it
// as a pointer.
type APIError struct {
	// Code is error_code.
	Code int
	// Description is as Telegram sent it, untrusted.
	Description string
	// RetryAfter is parameters.retry_after, 0 if absent. The poller also finds
	// the number in descriptions like "Too Many Requests: retry after 3".
	RetryAfter time.Duration
}

// Error gives code and description, the description without control
// characters and at most 200 characters of it.
func (e *APIError) Error() string {
	return fmt.Sprintf("telegram answered %d: %s", e.Code, printable(e.Description))
}
