package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tgbridge/internal/botapitest"
)

// An update's way to a follower's handler has two hops, from the server to the
// leader and from there to the follower, and one fsync in between. The floor has
// the same: a write and fsync in the same directory, and the two hops of an echo
// by a unix socket.
const latencyFloor = "write, fsync, unix socket echo"

// latency measures from the instant at which the server answers the poll to the
// call of a follower's handler, one update at a time.
func (b *bench) latency(ctx context.Context) error {
	type handled struct {
		by *process
		stamp
	}
	stamps := make(chan handled, 1000)
	ours, err := b.members(rowLatency, false, func(p *process, s stamp) { stamps <- handled{p, s} })
	if err != nil {
		return err
	}
	defer ours.close()
	if err := ours.start(fleetSize); err != nil {
		return err
	}
	leader, err := ours.settle(ctx)
	if err != nil {
		return err
	}
	floor, err := b.newLatencyFloor(ctx, ours.dir)
	if err != nil {
		return err
	}
	defer floor.close()

	var followers, leaders, floors samples
	measureOurs := func() error {
		id, err := ours.server.Say(botapitest.Message{User: 1 + b.random.Int64N(chats), Text: "hello"})
		if err != nil {
			return err
		}
		var h handled
		select {
		case h = <-stamps:
		case <-time.After(patience):
			return fmt.Errorf("update %d was not handled in %v", id, patience)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if h.Update != id {
			return fmt.Errorf("update %d was handled, %d is due", h.Update, id)
		}
		handed, err := ours.handed(id)
		if err != nil {
			return err
		}
		took := time.Duration(h.At) - ours.epoch - handed
		if h.by == leader {
			leaders = append(leaders, took)
		} else {
			followers = append(followers, took)
		}
		return nil
	}
	measureFloor := func() error {
		took, err := floor.once()
		floors = append(floors, took)
		return err
	}
	for len(followers) < b.o.latencies() {
		if err := b.inTurns(measureOurs, measureFloor); err != nil {
			return err
		}
		if err := sleep(ctx, time.Duration(5+b.random.IntN(15))*time.Millisecond); err != nil {
			return err
		}
	}
	b.progress("%s: %d by followers, %d by the leader", rowLatency, len(followers), len(leaders))
	b.t.spread(rowLatency, "Telegram's answer to a follower's handler", followers, floors, latencyFloor)
	return nil
}

// handed returns when a poll was answered with an update.
func (f *fleet) handed(id int64) (time.Duration, error) {
	at := time.Duration(-1)
	err := f.read(func(e botapitest.Event) {
		if e.Kind == botapitest.EventHanded && at < 0 && slices.Contains(e.Updates, id) {
			at = e.At
		}
	})
	if err == nil && at < 0 {
		err = fmt.Errorf("the ledger does not tell who got update %d", id)
	}
	return at, err
}

// updateSize is about what an update with a short text has.
const updateSize = 300

// latencyFloorBench has the file and the socket of the floor.
type latencyFloorBench struct {
	file *os.File
	conn net.Conn
	echo *fleet
	buf  [updateSize]byte
}

func (b *bench) newLatencyFloor(ctx context.Context, dir string) (_ *latencyFloorBench, err error) {
	l := &latencyFloorBench{}
	if l.file, err = os.Create(filepath.Join(dir, "floor")); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	echoDir, err := b.newDir("echo")
	if err != nil {
		return nil, err
	}
	if l.echo, err = newFleet(echoDir); err != nil {
		return nil, err
	}
	path := filepath.Join(echoDir, "s")
	l.echo.command = func(*process) (command, error) {
		return command{argv: []string{b.bin.bench}, env: []string{roleEnv + "=" + roleEcho, settingsEnv + "=" + path}}, nil
	}
	if err := l.echo.start(1); err != nil {
		return nil, err
	}
	return l, eventually(ctx, func() (bool, error) {
		conn, err := net.Dial("unix", path)
		if err != nil {
			return false, nil // not there yet
		}
		l.conn = conn
		return true, nil
	})
}

func (l *latencyFloorBench) once() (time.Duration, error) {
	begin := clock()
	if _, err := l.file.Write(l.buf[:]); err != nil {
		return 0, err
	}
	if err := l.file.Sync(); err != nil {
		return 0, err
	}
	if _, err := l.conn.Write(l.buf[:]); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(l.conn, l.buf[:]); err != nil {
		return 0, err
	}
	return clock() - begin, nil
}

func (l *latencyFloorBench) close() {
	_ = l.file.Close()
	if l.conn != nil {
		_ = l.conn.Close()
	}
	if l.echo != nil {
		l.echo.close()
	}
}
