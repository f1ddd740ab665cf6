package polling

import (
	"errors"
	"strings"
	"unicode"
)

// Why a leadership ended, or why none began. They are matched with errors.Is
// on Poller.Cause, on the cause of the leadership's context (context.Cause)
// and on what Start returns.
var (
	// ErrStopped: Stop was called.
	ErrStopped = errors.New("polling was stopped")
	// ErrSuspended: Suspend was called. The lease was kept.
	ErrSuspended = errors.New("polling was suspended")
	// ErrLost: the lease is another's or gone. Nothing was released.
	ErrLost = errors.New("the lease was lost")
	// ErrDeadline: the poll loop made no pass, a phase went past its limit, or
	// ownership could not be verified, for 0.8 x stale-after. The lease is
	// given back as soon as that can be done.
	ErrDeadline = errors.New("own deadline passed")
	// ErrWebhookSet: a webhook is set and by configuration kept.
	ErrWebhookSet = errors.New("a webhook is set for this bot, so Telegram refuses to be polled: " +
		"delete the webhook, or allow that it is deleted")
	// ErrTokenRefused: Telegram refused the token, and never in this process
	// was there a request that succeeded.
	ErrTokenRefused = errors.New("token refused by Telegram: check it at @BotFather")
	// ErrSinkFailed: a batch could not be made durable. Nothing of it was
	// confirmed, so Telegram will send it again.
	ErrSinkFailed = errors.New("updates could not be stored")
	// ErrNotAllowed: Options.Allowed refused the start; nothing was acquired.
	ErrNotAllowed = errors.New("polling is not allowed")
	// ErrNotLeading: asked for what only the present leader may do.
	ErrNotLeading = errors.New("not the leader")
)

// errSuperseded ends an auto-start that something newer overtook. Nobody sees
// it: such an auto-start ends silently.
var errSuperseded = errors.New("auto-start superseded")

// textLimit is how many characters of a text from outside are shown.
const textLimit = 200

// printable makes a text from outside fit for a log line, a status and a
// terminal: no control or invisible characters, runs of blanks as one, not
// longer than textLimit characters.
func printable(text string) string {
	var b strings.Builder
	count, blank := 0, false
	for _, r := range text {
		if unicode.IsSpace(r) {
			blank = b.Len() > 0
			continue
		}
		if !unicode.IsPrint(r) {
			continue
		}
		if count >= textLimit {
			b.WriteString("...")
			break
		}
		if blank {
			b.WriteByte(' ')
			count, blank = count+1, false
		}
		b.WriteRune(r)
		count++
	}
	return b.String()
}
