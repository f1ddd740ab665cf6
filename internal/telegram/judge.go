package telegram

import (
	"errors"
	"net/http"
	"strings"
)

// action is what the retry layer does after an attempt.
type action int

const (
	succeed action = iota // the effect is there
	fail                  // Telegram's last word, or nothing that a repetition would change
	repeat                // again after a growing delay
	wait                  // again when the penalty is over
	move                  // again, to the chat's new id
	doubt                 // no repetition: the outcome is unknown
)

// verdict is the judgement of one attempt.
type verdict struct {
	action action
	// maybe means that the attempt may have had its effect although it is
	// repeated, because Telegram answered with 5xx.
	maybe bool
}

// judge decides what follows from an attempt's error (G7).
func judge(method string, err error) verdict {
	if err == nil {
		return verdict{action: succeed}
	}
	var transport *TransportError
	if errors.As(err, &transport) {
		return judgeTransport(method, transport)
	}
	var e *Error
	if !errors.As(err, &e) {
		return verdict{action: fail}
	}
	switch {
	case e.Code >= 500 && e.IsFinal():
		return verdict{action: fail}
	case e.Code >= 500:
		return verdict{action: repeat, maybe: !isRead(method)}
	case e.Code == http.StatusTooManyRequests, e.RetryAfter > 0:
		return verdict{action: wait}
	case e.Code == http.StatusBadRequest && e.MigrateTo != 0:
		return verdict{action: move}
	case e.Code == http.StatusBadRequest && isAlreadySo(method, e.Description):
		return verdict{action: succeed}
	case e.isAboutAll(method):
		return verdict{action: repeat}
	default:
		return verdict{action: fail}
	}
}

// isAboutAll reports whether an answer below 500, which says that nothing was
// done, speaks of the token, the address or the way to Telegram and not of this
// call: every call would get it, and none any more once it has passed.
func (e *Error) isAboutAll(method string) bool {
	switch {
	case e.Code >= 300 && e.Code < 400: // a proxy, a portal, or http where https is wanted
		return true
	case e.Code == http.StatusUnauthorized, // also seen to pass with a good token
		e.Code == http.StatusProxyAuthRequired, e.Code == http.StatusRequestTimeout,
		e.Code == http.StatusMisdirectedRequest, e.Code == http.StatusTooEarly:
		return true
	case e.Code == http.StatusBadRequest && strings.EqualFold(e.Description, "logged out"):
		return true
	case e.Foreign: // whoever it was, it speaks of the request only in these
		switch e.Code {
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong,
			http.StatusRequestHeaderFieldsTooLarge:
			return false
		}
		return e.Code >= 400
	case e.Code == http.StatusNotFound:
		// A method that the server does not know, unless every server does: then
		// the token is none, or the address is wrong.
		return isEverywhere(method) && !strings.Contains(strings.ToLower(e.Description), "method not found")
	default:
		return false
	}
}

// MayPass reports whether the same call may succeed later although it failed with
// err: Telegram could not be reached or answered with 5xx, or the failure would
// have met every call alike. Whether an attempt may have had its effect, only
// ErrOutcomeUnknown tells.
func MayPass(method string, err error) bool { return judge(method, err).action == repeat }

func judgeTransport(method string, err *TransportError) verdict {
	switch {
	case errors.Is(err, ErrAnswerTooLarge) && isRead(method):
		return verdict{action: fail}
	case !err.Sent, isRead(method):
		return verdict{action: repeat}
	default:
		return verdict{action: doubt}
	}
}

// IsFinal reports whether an answer with 5xx says that the call had its effect, so
// that it must not be made again.
func (e *Error) IsFinal() bool {
	return strings.Contains(e.Description, "sent message was immediately deleted")
}

// isAlreadySo recognises refusals that say that what was asked for is so
// already, or can no longer matter. Only the text tells them.
func isAlreadySo(method, description string) bool {
	m, d := strings.ToLower(method), strings.ToLower(description)
	switch {
	case strings.HasPrefix(m, "edit"):
		return strings.Contains(d, "is not modified") || strings.Contains(d, "_not_modified")
	case m == "deletemessage":
		return strings.Contains(d, "message to delete not found")
	case strings.HasPrefix(m, "answer"):
		return strings.Contains(d, "query is too old")
	default:
		return false
	}
}
