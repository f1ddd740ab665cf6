package main

import (
	"errors"
	"fmt"

	"tgbridge/bot"
	"tgbridge/config"
	"tgbridge/lock"
)

// The exit codes, which scripts rely on.
const (
	exitOK     = 0 // done, or stopped on request
	exitFailed = 1
	exitUsage  = 2 // wrong usage or configuration, also a webhook that is to be kept
	exitToken  = 3 // Telegram refused the token at start
	exitState  = 4 // state directory or registry unusable
)

// usageError says that a command was called in a wrong way.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// usage returns an error that ends in exit code 2 and a pointer to the help.
func usage(format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...)}
}

// exitCode returns the exit code for what a command returned.
func exitCode(err error) int {
	var wrongUsage *usageError
	var settings *config.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &wrongUsage), errors.As(err, &settings):
		return exitUsage
	case errors.Is(err, bot.ErrOptions), errors.Is(err, bot.ErrSettings), errors.Is(err, bot.ErrWebhookSet):
		return exitUsage
	case errors.Is(err, bot.ErrTokenRefused):
		return exitToken
	case errors.Is(err, bot.ErrState), lock.IsUnusable(err):
		return exitState
	default:
		return exitFailed
	}
}
