package telegram

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrOutcomeUnknown means that a call may have had its effect or not: its
	// request was written, at least in part, and no answer tells. Repeating it
	// may double the effect. It is wrapped together with what happened, so
	// that errors.As finds the *TransportError or *Error beside it.
	ErrOutcomeUnknown = errors.New("it is unknown whether the call had its effect")

	// ErrMethodRefused means that a method is not to be called through the
	// bridge, because the bridge owns polling, or that a name is no method's.
	// Nothing was sent.
	ErrMethodRefused = errors.New("method refused")
)

// Error is a failure that was answered: by Telegram, or by a proxy before it.
type Error struct {
	// Method is the method as it was called.
	Method string
	// Status is the HTTP status.
	Status int
	// Code is the answer's error_code, or Status where there is none.
	Code int
	// Description is Telegram's text, or the HTTP status's: one line, bounded,
	// without the token. Wordings change; judge by the other fields.
	Description string
	// Foreign is true if the answer is not one of the Bot API, or not a whole
	// one: a proxy or portal gave it in Telegram's place.
	Foreign bool
	// RetryAfter is how long to wait before the next request, 0 if nothing
	// was said: from the parameters, the header or the text of a 429. It is not
	// negative, and as long as was said.
	RetryAfter time.Duration
	// MigrateTo is the new id of a chat that became a supergroup, else 0.
	MigrateTo int64
}

// Error returns method, code and description in one line.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: answered with %d: %s", e.Method, e.Code, e.Description)
}

// TransportError means that no usable answer came.
type TransportError struct {
	// Method is the method as it was called.
	Method string
	// Sent is false if surely no byte of the request was written. It is true
	// if some may have been, and if an answer came that cannot be used.
	Sent bool
	// Err is the reason, without URL and token. errors.Is finds the context's
	// end, an errno and ErrAnswerTooLarge in it.
	Err error
}

// Error returns method, reason, and whether the request may have been sent.
func (e *TransportError) Error() string {
	if e.Sent {
		return fmt.Sprintf("%s: no usable answer: %v", e.Method, e.Err)
	}
	return fmt.Sprintf("%s: not sent: %v", e.Method, e.Err)
}

// Unwrap returns the reason.
func (e *TransportError) Unwrap() error { return e.Err }

// SurelyNoEffect reports whether err proves that the request never reached
// Telegram: name resolution, dial, TLS or a proxy failed, or the connection
// closed or the context ended, before anything was written. It says false for
// nil, for every answer of Telegram's, and for whatever wraps
// ErrOutcomeUnknown.
func SurelyNoEffect(err error) bool {
	if errors.Is(err, ErrOutcomeUnknown) {
		return false
	}
	var transport *TransportError
	return errors.As(err, &transport) && !transport.Sent
}
