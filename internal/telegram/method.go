package telegram

import (
	"fmt"
	"strings"
)

// Telegram takes method names in any case, so they are judged in lower case.

// checkCallable refuses the methods that decide who gets the updates: these
// are the bridge's own.
func checkCallable(method string) error {
	if err := checkMethodName(method); err != nil {
		return err
	}
	switch strings.ToLower(method) {
	case "getupdates", "setwebhook", "deletewebhook", "logout", "close":
		return fmt.Errorf("%s: the bridge itself polls for updates: %w", method, ErrMethodRefused)
	}
	return nil
}

// isRead reports whether a method has no effect, so that repeating it is safe
// whatever became of the first try.
func isRead(method string) bool {
	return strings.HasPrefix(strings.ToLower(method), "get")
}

// isEverywhere reports whether every server has a method, of those that the
// bridge itself makes.
func isEverywhere(method string) bool {
	m := strings.ToLower(method)
	return m == "sendmessage" || m == "getme"
}

// isPaced reports whether Telegram counts a method as a message: what sends
// and what edits. "Typing" is none. What sends several messages at once (an
// album, forwardMessages) is counted as one; a 429 corrects that.
func isPaced(method string) bool {
	m := strings.ToLower(method)
	switch m {
	case "sendchataction":
		return false
	case "stoppoll", "stopmessagelivelocation", "setgamescore":
		return true
	}
	for _, prefix := range []string{"send", "forwardmessage", "copymessage", "editmessage"} {
		if strings.HasPrefix(m, prefix) {
			return true
		}
	}
	return false
}
