package telegram

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"tgbridge/internal/secret"
)

const (
	maxTokenLength = 256
	// shortestSecret is the length from which the secret part alone is
	// redacted. Shorter ones occur in tests only, and would be found in words.
	shortestSecret = 4
	mask           = "[secret]"
)

// BotID returns the bot's user id, the number before the colon of the token.
// The error says what is wrong with a malformed token without showing any of
// it.
func BotID(token secret.Secret) (int64, error) {
	id, _, err := splitToken(token)
	return id, err
}

// splitToken takes a token apart. The secret part may hold only what tokens are
// made of, which needs no escape in the path of a URL.
func splitToken(token secret.Secret) (id int64, secretPart string, err error) {
	text := token.Reveal()
	if text == "" {
		return 0, "", errors.New("bot token: empty")
	}
	if len(text) > maxTokenLength {
		return 0, "", fmt.Errorf("bot token: longer than %d characters", maxTokenLength)
	}
	for i, r := range text {
		if what := whyNotInToken(r); what != "" {
			return 0, "", fmt.Errorf("bot token: %s at position %d; copy the token anew from @BotFather", what, i+1)
		}
	}
	number, secretPart, found := strings.Cut(text, ":")
	if !found || secretPart == "" || strings.Contains(secretPart, ":") {
		return 0, "", errors.New("bot token: want a number, one colon and the secret part, as @BotFather gives it")
	}
	id, err = strconv.ParseInt(number, 10, 64)
	if err != nil || id <= 0 || number[0] < '1' || number[0] > '9' {
		return 0, "", errors.New("bot token: what stands before the colon is not a bot's number")
	}
	return id, secretPart, nil
}

// whyNotInToken names what a character is that no token holds, "" for others.
func whyNotInToken(r rune) string {
	switch {
	case r >= '0' && r <= '9', r >= 'A' && r <= 'Z', r >= 'a' && r <= 'z', strings.ContainsRune(":-_", r):
		return ""
	case r == '\n':
		return "a line feed"
	case r == '\r':
		return "a carriage return"
	case r == ' ', r == '\t':
		return "a blank"
	case r == '.':
		return "a dot, as of an example,"
	case r < ' ', r == 0x7f:
		return "a control character"
	default:
		return "a character that no token holds"
	}
}

// redactor takes a token out of whatever is shown. It keeps the token wrapped,
// so that printing a structure that holds it shows nothing.
type redactor struct {
	token, secretPart secret.Secret
}

func newRedactor(token secret.Secret, secretPart string) redactor {
	r := redactor{token: token}
	if len(secretPart) >= shortestSecret {
		r.secretPart = secret.New(secretPart)
	}
	return r
}

// text returns s without the token and without its secret part.
func (r redactor) text(s string) string {
	if part := r.secretPart.Reveal(); part != "" {
		s = strings.ReplaceAll(s, part, mask)
	}
	if token := r.token.Reveal(); token != "" {
		s = strings.ReplaceAll(s, token, mask)
	}
	return s
}

// err returns an error that shows neither URL nor token. Whatever can be kept
// of the chain is kept, so that errors.Is finds a context's end or an errno.
func (r redactor) err(err error) error {
	for {
		// A *url.Error prints the URL, and with it the token.
		var withURL *url.Error
		if !errors.As(err, &withURL) {
			break
		}
		err = withURL.Err
	}
	if err == nil {
		return errors.New("no reason given")
	}
	text := err.Error()
	if clean := r.text(text); clean != text {
		return errors.New(clean)
	}
	return err
}
