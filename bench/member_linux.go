package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"tgbridge/bot"
	"tgbridge/internal/botapitest"
)

// Roles that this program plays for itself.
const (
	roleMember = "member" // a member with a handler in Go
	roleEcho   = "echo"   // sends back what comes by a socket
)

// settingsEnv has the JSON settings of a role.
const settingsEnv = "BENCH_SETTINGS"

// memberSettings are those of roleMember.
type memberSettings struct {
	API, State, Name string
	Reply            bool // with the text that came
}

// play plays a role until ctx ends.
func play(ctx context.Context, role string, stdout io.Writer) error {
	settings := []byte(os.Getenv(settingsEnv))
	switch role {
	case roleMember:
		var s memberSettings
		if err := json.Unmarshal(settings, &s); err != nil {
			return fmt.Errorf("settings of a member: %w", err)
		}
		return playMember(ctx, s, stdout)
	case roleEcho:
		return playEcho(ctx, string(settings))
	}
	return fmt.Errorf("there is no role %q", role)
}

// A stamp is the instant at which a handler got an update, by clock. Stamps are
// written as they are in memory, little-endian.
type stamp struct{ Update, At int64 }

// stampEvery is how often a member writes the stamps it has.
const stampEvery = 5 * time.Millisecond

// playMember runs a member whose handler notes when it was called, and writes
// the stamps to out.
func playMember(ctx context.Context, s memberSettings, out io.Writer) error {
	b, err := bot.New(bot.Options{
		Token: bot.NewSecret(botapitest.DefaultToken), APIURL: s.API, StateDir: s.State, Name: s.Name,
		AllowAll: true, Unpaced: true,
	})
	if err != nil {
		return err
	}
	var (
		mu     sync.Mutex // guards stamps
		stamps []stamp
	)
	flush := func() error {
		mu.Lock()
		ready := stamps
		stamps = nil
		mu.Unlock()
		if len(ready) == 0 {
			return nil
		}
		return binary.Write(out, binary.LittleEndian, ready)
	}
	life, end := context.WithCancel(ctx)
	flushed := make(chan error, 1)
	go func() {
		defer end()
		tick := time.NewTicker(stampEvery)
		defer tick.Stop()
		for {
			select {
			case <-life.Done():
				flushed <- flush()
				return
			case <-tick.C:
			}
			if err := flush(); err != nil {
				flushed <- err
				return
			}
		}
	}()
	err = b.Run(life, bot.HandlerFunc(func(_ context.Context, u *bot.Update) (bot.Reply, error) {
		at := clock()
		mu.Lock()
		stamps = append(stamps, stamp{u.ID(), int64(at)})
		mu.Unlock()
		if s.Reply {
			return bot.Reply{Text: u.Text()}, nil
		}
		return bot.Reply{}, nil
	}))
	end()
	return errors.Join(err, <-flushed)
}

// readStamps gives each stamp that a member writes to each.
func readStamps(in io.Reader, each func(stamp)) {
	for {
		var s stamp
		if binary.Read(in, binary.LittleEndian, &s) != nil {
			return // the process has ended
		}
		each(s)
	}
}

// playEcho listens on a socket and sends back what comes by one connection at a
// time.
func playEcho(ctx context.Context, path string) error {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		_, _ = io.Copy(conn, conn) // until the other side has enough
		_ = conn.Close()
	}
}
