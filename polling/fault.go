package polling

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A fault is a kind of failure: what decides is the kind, and each is told to
// people in its own words.
type fault int

const (
	noFault      fault = iota
	conflict           // 409: somebody else polls
	webhook            // 409: a webhook is set
	tokenRefused       // 401, 404
	rateLimited        // 429
	misdirected        // 421: a server that does not serve this bot
	loggedOut          // 400 Logged out
	refused            // another refusal by the Bot API
	unreachable        // 5xx, or no answer of the Bot API at all
	unreadable         // an answer without any readable id
	repeated           // an answer that the offset should have ruled out
	diskFull           // a batch could not be stored for now
	ownership          // ownership could not be verified
	unreleased         // the lease could not be given back
)

// faultTexts are, for each kind, a fixed log message that says what to do.
var faultTexts = map[fault]string{
	conflict: "another program polls with this bot's token: find and stop it, on this host or elsewhere; " +
		"if it cannot be found, revoke the token at @BotFather",
	webhook: "a webhook is set for this bot: deleting it, pending updates are kept",
	tokenRefused: "Telegram refuses the token that it accepted before: " +
		"if it was revoked at @BotFather, restart with the new one",
	rateLimited: "Telegram asks for a pause: nothing is polled meanwhile; of more than an hour, an hour is waited before the next try",
	misdirected: "this Bot API server does not serve this bot: check the API address and the server's token filter",
	loggedOut: "the bot is logged out of this Bot API server: use the server that it was moved to, " +
		"or wait ten minutes before using this one again",
	refused:     "Telegram refuses the poll",
	unreachable: "no usable answer from Telegram: check network and API address",
	unreadable:  "no id can be read in what Telegram sent: nothing is confirmed",
	repeated:    "Telegram sends again what was confirmed: check for a caching proxy",
	diskFull:    "updates cannot be stored: free space in the state directory; nothing is confirmed until then",
	ownership:   "ownership of the lease cannot be verified: nothing is begun until it can; check the state directory",
	unreleased:  "the lease cannot be released: this member shows no life until it is; check the state directory",
}

// classify finds the kind of a failed request, and for a rateLimited one the
// pause that Telegram asks for, 0 if it did not say.
func classify(err error) (fault, time.Duration) {
	var api *APIError
	if !errors.As(err, &api) {
		return unreachable, 0
	}
	text := strings.ToLower(api.Description)
	switch {
	case api.Code == 409 && strings.Contains(text, "webhook"):
		return webhook, 0
	case api.Code == 409:
		return conflict, 0
	case api.Code == 401 || api.Code == 404:
		return tokenRefused, 0
	case api.Code == 429:
		return rateLimited, pause(api)
	case api.Code == 421:
		return misdirected, 0
	case api.Code == 400 && strings.Contains(text, "logged out"):
		return loggedOut, 0
	case api.Code >= 500:
		return unreachable, 0
	default:
		return refused, 0
	}
}

// retryAfter is the older form of a pause: in the text alone.
var retryAfter = regexp.MustCompile(`(?i)retry after (\d{1,9})`)

// pause is what a 429 asks for, 0 if nothing.
func pause(e *APIError) time.Duration {
	if e.RetryAfter > 0 {
		return e.RetryAfter
	}
	if m := retryAfter.FindStringSubmatch(e.Description); m != nil {
		if seconds, err := strconv.Atoi(m[1]); err == nil {
			return time.Duration(seconds) * time.Second
		}
	}
	return 0
}

// isDiskFull reports whether a failed commit may be repeated later.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
