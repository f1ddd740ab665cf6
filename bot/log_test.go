package bot_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// brokenLog fails every write.
type brokenLog struct{}

func (brokenLog) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestS12LogFails: a log that cannot be written stops nobody.
func TestS12LogFails(t *testing.T) {
	f, server := newFleet(t)
	zerolog.ErrorHandler = func(error) {} // it would print to stderr
	defer func() { zerolog.ErrorHandler = nil }()
	o := f.options("m1")
	o.Logger = zerolog.New(brokenLog{})
	m := f.run(o, echo("m1"))
	say(t, server, 42, "hello")
	waitSent(t, server, 10*time.Second, "m1 hello")
	m.end(t)
	f.stopped(t)
}
