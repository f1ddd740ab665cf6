package main

import (
	"bytes"
	"io"
	"sync"

	"github.com/rs/zerolog"

	"tgbridge/config"
	"tgbridge/internal/secret"
)

// timeFormat is RFC 3339 with milliseconds: failovers are shorter than a
// second.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// logger returns the logger that the configuration asks for. It writes to
// stderr, without the token.
func (c *cli) logger(cfg config.Config) zerolog.Logger {
	// The library has the formats of times in variables of its own only.
	zerolog.TimeFieldFormat = timeFormat
	zerolog.DurationFieldFormat = zerolog.DurationFormatString // with its unit
	var out io.Writer = c.stderr
	if cfg.LogFormat == config.LogConsole || cfg.LogFormat == config.LogAuto && c.stderrTerminal {
		out = zerolog.ConsoleWriter{Out: c.stderr, NoColor: !c.stderrTerminal || isDumb(c.environ), TimeFormat: "15:04:05.000"}
	}
	levels := map[config.LogLevel]zerolog.Level{
		config.LogDebug: zerolog.DebugLevel,
		config.LogInfo:  zerolog.InfoLevel,
		config.LogWarn:  zerolog.WarnLevel,
		config.LogError: zerolog.ErrorLevel,
	}
	return zerolog.New(out).Level(levels[cfg.LogLevel]).With().Timestamp().Logger()
}

// redactor is the second net below secret.Secret: it replaces the token, whole
// or its secret part alone, in what passes through, should some library print
// it (G8). Each Write is looked at by itself; a token that comes in two writes
// is not found, but log lines and error messages come in one.
type redactor struct {
	mu      sync.Mutex // guards all that follows
	out     io.Writer
	private [][]byte
}

func newRedactor(out io.Writer) *redactor { return &redactor{out: out} }

// hide adds a token.
func (r *redactor) hide(token secret.Secret) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, part := range config.PrivateParts(token) {
		r.private = append(r.private, []byte(part))
	}
}

// Write writes p without tokens. The count is of p's bytes, as if all had been
// written, unless there is an error.
func (r *redactor) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clean := p
	for _, part := range r.private {
		clean = bytes.ReplaceAll(clean, part, []byte(secret.Secret{}.String()))
	}
	if _, err := r.out.Write(clean); err != nil {
		return 0, err
	}
	return len(p), nil
}
