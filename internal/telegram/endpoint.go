package telegram

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
)

const (
	// DefaultAPIURL is the address of Telegram's own Bot API server.
	DefaultAPIURL = "https://api.telegram.org"

	maxURLLength = 1024
)

// endpointFormat checks the address of a Bot API server and returns it in the
// form that the library wants: a format string for token and method. No error
// shows the address: a token may have been written into it.
func endpointFormat(address string) (string, error) {
	const hint = "; want an address such as " + DefaultAPIURL
	switch {
	case len(address) > maxURLLength:
		return "", fmt.Errorf("api url: longer than %d characters", maxURLLength)
	case strings.Contains(address, "%"):
		return "", errors.New("api url: contains a percent sign" + hint)
	case strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || !unicode.IsPrint(r) }):
		return "", errors.New("api url: contains a blank or a control character" + hint)
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return "", errors.New("api url: not a URL" + hint)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("api url: neither http nor https" + hint)
	case u.Hostname() == "":
		return "", errors.New("api url: no host" + hint)
	case u.User != nil:
		return "", errors.New("api url: contains a user name or password" + hint)
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(address, "#"):
		return "", errors.New("api url: contains a query or a fragment" + hint)
	case strings.Contains(u.Path, ":"):
		return "", errors.New("api url: leave out /bot and the token" + hint)
	}
	return strings.TrimRight(address, "/") + "/bot%s/%s", nil
}
