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
	case e.Code == http.StatusTooManyRequests:
		return verdict{action: wait}
	case e.Code >= 500 && e.IsFinal():
		return verdict{action: fail}
	case e.Code >= 500:
		return verdict{action: repeat, maybe: !isRead(method)}
	case e.Code != http.StatusBadRequest:
		return verdict{action: fail}
	case e.MigrateTo != 0:
		return verdict{action: move}
	case isAlreadySo(method, e.Description):
		return verdict{action: succeed}
	default:
		return verdict{action: fail}
	}
}

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
