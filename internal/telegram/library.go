package telegram

import tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

// SilenceLibrary makes telegram-bot-api/v5 log nothing in this whole process.
// This package's use of it logs nothing anyway; whoever owns the process calls
// it once, before any other use of that library, to hold also for what is
// added later: what that library logs contains URLs, and so the token.
func SilenceLibrary() {
	// The only error is for a nil logger.
	_ = tgbotapi.SetLogger(silentLogger{})
}

type silentLogger struct{}

func (silentLogger) Println(...any)        {}
func (silentLogger) Printf(string, ...any) {}
