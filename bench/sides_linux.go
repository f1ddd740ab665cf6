package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"tgbridge/bot"
	"tgbridge/bus"
	"tgbridge/internal/botapitest"
	"tgbridge/lock"
)

// A side is a fleet of members, with a view of their directory.
type side struct {
	*fleet
	state    string
	bot      string // the bot's directory in it
	observer *lock.Observer
}

// release makes a fleet of the release binary, with its echo handler.
func (b *bench) release(name string) (*side, error) {
	return b.newSide(name, func(p *process, state string) (command, error) {
		return command{argv: []string{b.bin.tgbridge, "echo"}, env: []string{
			"TELEGRAM_BOT_TOKEN=" + botapitest.DefaultToken, "TELEGRAM_API_URL=" + p.api.URL,
			"TGBRIDGE_STATE_DIR=" + state, "TGBRIDGE_NAME=" + p.name, "TGBRIDGE_ALLOW_ALL=true", "TGBRIDGE_PACE=off",
		}}, nil
	})
}

// members makes a fleet of this program as members, whose handlers' stamps go
// to each, from a goroutine for each member.
func (b *bench) members(name string, reply bool, each func(*process, stamp)) (*side, error) {
	return b.newSide(name, func(p *process, state string) (command, error) {
		settings, err := json.Marshal(memberSettings{API: p.api.URL, State: state, Name: p.name, Reply: reply})
		return command{
			argv:   []string{b.bin.bench},
			env:    []string{roleEnv + "=" + roleMember, settingsEnv + "=" + string(settings)},
			stdout: func(p *process, r io.Reader) { readStamps(bufio.NewReaderSize(r, 1<<16), func(s stamp) { each(p, s) }) },
		}, err
	})
}

func (b *bench) newSide(name string, run func(p *process, state string) (command, error)) (*side, error) {
	dir, err := b.newDir(name)
	if err != nil {
		return nil, err
	}
	f, err := newFleet(dir)
	if err != nil {
		return nil, err
	}
	s := &side{fleet: f}
	s.use(filepath.Join(dir, "state"))
	f.command = func(p *process) (command, error) { return run(p, s.state) }
	f.settled = s.joined
	return s, nil
}

// use sets the state directory of processes to come.
func (s *side) use(state string) {
	s.state, s.bot = state, bot.BotDir(state, s.server.ID())
	s.observer = lock.NewObserver(lock.ObserverOptions{Dir: s.bot, Host: lock.ThisHost(), LocksBelieved: true})
}

func (s *side) lease() (lock.Entry, error) { return lock.ReadLease(s.bot, bot.LeaseKey(s.server.ID())) }

// joined reports whether one process leads, the one that polls, and all others
// have joined it: their files say so.
func (s *side) joined() (bool, error) {
	e, err := s.lease()
	if err != nil || !e.Held() {
		return false, err
	}
	if p := s.at(s.lastPoll); p == nil || p.pid != e.PID {
		return false, nil
	}
	readings, err := s.observer.Members()
	if err != nil {
		return false, err
	}
	n := 0
	for _, r := range readings {
		if !r.Dead() && !r.Torn && r.Info.Joined == e.Epoch {
			n++
		}
	}
	return n == len(s.processes), nil
}

// handover asks the leader's bus to hand over.
func (s *side) handover(ctx context.Context, _ *process) error {
	e, err := s.lease()
	if err != nil {
		return err
	}
	c := bus.NewClient(bot.Target(s.bot, e), "bench")
	defer c.Close()
	if err := c.Handover(ctx, ""); err != nil {
		return fmt.Errorf("ask for a handover: %w", err)
	}
	return nil
}

// bare makes a fleet of the floor's program: n of them share a lock, if locked.
func (b *bench) bare(name string, locked bool, replies int) (*fleet, error) {
	dir, err := b.newDir(name)
	if err != nil {
		return nil, err
	}
	f, err := newFleet(dir)
	if err != nil {
		return nil, err
	}
	f.command = func(p *process) (command, error) {
		argv := []string{b.bin.bare, "-reply", fmt.Sprint(replies)}
		if locked {
			argv = append(argv, "-lock", filepath.Join(dir, "lock"))
		}
		return command{argv: append(argv, p.api.URL+"/bot"+botapitest.DefaultToken), stdout: awaitReady}, nil
	}
	f.settled = func() (bool, error) {
		for _, p := range f.processes {
			select {
			case <-p.ready:
			default:
				return !locked, nil
			}
		}
		return true, nil
	}
	return f, nil
}

// awaitReady waits for a line, and then for the end.
func awaitReady(p *process, r io.Reader) {
	if _, err := bufio.NewReader(r).ReadString('\n'); err == nil {
		close(p.ready)
	}
	_, _ = io.Copy(io.Discard, r)
}
