package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"tgbridge/bus"
	"tgbridge/internal/telegram"
)

// What the check before each request says. Either way nothing was sent.
var (
	errNotLeading = errors.New("this member does not lead")
	errUnchecked  = errors.New("it cannot be checked whether this member leads")
)

// checkLeads is asked right before each request is written.
func (b *Bridge) checkLeads(context.Context) error {
	owns, err := b.lease.Owns()
	if err != nil {
		return fmt.Errorf("%w: %w", errUnchecked, err)
	}
	if !owns {
		return errNotLeading
	}
	return nil
}

// perform makes one call to Telegram: what a handler, a reply or a command
// asked for.
func (b *Bridge) perform(ctx context.Context, c bus.Call) (bus.CallResult, error) {
	params, err := decodeParams(c.ContentType, c.Body)
	if err != nil {
		return answerResult(answer{Code: http.StatusBadRequest, Description: "Bad Request: " + err.Error()}), nil
	}
	result, err := b.api.Call(ctx, c.Method, params)
	var refused *telegram.Error
	switch {
	case err == nil:
		return answerResult(answer{OK: true, Result: result}), nil
	case errors.Is(err, errNotLeading), errors.Is(err, errUnchecked),
		ctx.Err() != nil && telegram.SurelyNoEffect(err):
		// Of what was tried before only answers of 429 and 5xx can have come, after
		// which a call may be made again (G7): the successor does.
		return bus.CallResult{}, fmt.Errorf("%w: %w", bus.ErrNotBegun, err)
	case c.Again && telegram.MayPass(c.Method, err):
		// A reply is owed however long that takes.
		return bus.CallResult{}, fmt.Errorf("%w: %w", bus.ErrNotBegun, err)
	case errors.Is(err, telegram.ErrOutcomeUnknown):
		b.log.Warn().Err(err).Str("method", c.Method).Msg("outcome of a call is unknown")
		return refusalResult(http.StatusBadGateway, bus.CodeUnknown, err), nil
	case errors.As(err, &refused):
		r := answerResult(answer{
			Code: refused.Code, Description: refused.Description,
			Parameters: parameters{RetryAfter: int(refused.RetryAfter.Seconds()), MigrateTo: refused.MigrateTo},
		})
		r.Passing = telegram.MayPass(c.Method, err)
		return r, nil
	default:
		r := refusalResult(http.StatusBadGateway, bus.CodeTelegram, err)
		r.Passing = telegram.MayPass(c.Method, err)
		return r, nil
	}
}

// answer is an answer of the Bot API.
type answer struct {
	OK          bool            `json:"ok"`
	Result      json.RawMessage `json:"result,omitempty"`
	Code        int             `json:"error_code,omitempty"`
	Description string          `json:"description,omitempty"`
	Parameters  parameters      `json:"parameters,omitzero"`
}

type parameters struct {
	RetryAfter int   `json:"retry_after,omitempty"`
	MigrateTo  int64 `json:"migrate_to_chat_id,omitempty"`
}

func answerResult(a answer) bus.CallResult {
	body, err := json.Marshal(a)
	if err != nil {
		return refusalResult(http.StatusBadGateway, bus.CodeTelegram, err)
	}
	return bus.CallResult{Status: http.StatusOK, Body: body}
}

func refusalResult(status int, code string, err error) bus.CallResult {
	body, _ := json.Marshal(bus.ErrorAnswer{Error: err.Error(), Code: code}) // strings always encode
	return bus.CallResult{Status: status, Body: body}
}

// A CallError is Telegram's refusal of a call.
type CallError struct {
	Method      string
	Code        int // error_code
	Description string
	RetryAfter  int   // seconds; 0 if not given
	MigrateTo   int64 // id of the supergroup that the chat became; 0 if not given
}

func (e *CallError) Error() string {
	return fmt.Sprintf("%s: telegram answered %d: %s", e.Method, e.Code, e.Description)
}

// DecodeAnswer returns the result in an answer of the Bot API, or a *CallError.
func DecodeAnswer(method string, body []byte) (json.RawMessage, error) {
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("decode answer to %s: %w", method, err)
	}
	if !a.OK {
		return nil, &CallError{
			Method: method, Code: a.Code, Description: a.Description,
			RetryAfter: a.Parameters.RetryAfter, MigrateTo: a.Parameters.MigrateTo,
		}
	}
	return a.Result, nil
}

// decodeParams reads parameters as the Bot API takes them without files: a JSON
// object or an urlencoded form. Files come in later versions.
func decodeParams(contentType string, body []byte) (map[string]string, error) {
	params := map[string]string{}
	if len(body) == 0 {
		return params, nil
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, fmt.Errorf("content type %q cannot be parsed", contentType)
	}
	switch media {
	case "application/json":
		var object map[string]json.RawMessage
		if err := json.Unmarshal(body, &object); err != nil {
			return nil, errors.New("parameters are not a JSON object")
		}
		for name, value := range object {
			if text, ok := paramText(value); ok {
				params[name] = text
			}
		}
	case "application/x-www-form-urlencoded":
		values, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, errors.New("parameters are not an urlencoded form")
		}
		for name := range values {
			params[name] = values.Get(name)
		}
	default:
		return nil, fmt.Errorf("content type %s is not supported: send application/json or application/x-www-form-urlencoded", media)
	}
	return params, nil
}

// paramText returns a JSON value as the text that a form would hold; false for
// null, which is a parameter left out.
func paramText(value json.RawMessage) (string, bool) {
	trimmed := strings.TrimSpace(string(value))
	if trimmed == "null" {
		return "", false
	}
	var text string
	if strings.HasPrefix(trimmed, `"`) && json.Unmarshal(value, &text) == nil {
		return text, true
	}
	return trimmed, true
}
