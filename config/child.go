package config

import (
	"slices"
	"strings"

	"tgbridge/internal/secret"
)

// stateDirVariable is always passed on to commands, see ChildEnv.
const stateDirVariable = "TGBRIDGE_STATE_DIR"

// ChildEnv returns the environment of a command that a member runs, made from
// environ, KEY=VALUE strings as of os.Environ. The result is a new slice.
//
// The token's variable is left out, and any other that holds the token (G8).
// TELEGRAM_BOT_TOKEN_FILE stays, it is no secret.
//
// Settings that came by flag or env file are added as variables, and the state
// directory as an absolute path: a command that starts tgbridge again (F66), or
// sends by it, must meet the same members under the same settings wherever it
// runs.
func (c Config) ChildEnv(environ []string) []string {
	private := PrivateParts(c.Token)
	set := append(slices.Clone(c.passedOn), stateDirVariable+"="+c.StateDir)
	child := make([]string, 0, len(environ)+len(set))
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		isPrivate := strings.EqualFold(name, tokenVariable) ||
			slices.ContainsFunc(private, func(p string) bool { return strings.Contains(value, p) })
		isReplaced := slices.ContainsFunc(set, func(s string) bool { return strings.HasPrefix(s, name+"=") })
		if !isPrivate && !isReplaced {
			child = append(child, entry)
		}
	}
	return append(child, set...)
}

// PrivateParts returns the texts that must not be shown of a token, or of what
// was given as one: all of it and what follows a colon, but nothing so short
// that it is as likely part of something else. They must not be printed, and
// serve to find and replace them.
func PrivateParts(token secret.Secret) []string {
	const shortest = 6
	text := token.Reveal()
	parts := append(strings.Split(text, ":")[1:], text)
	return slices.DeleteFunc(parts, func(part string) bool { return len(part) < shortest })
}
