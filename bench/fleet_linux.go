package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tgbridge/internal/botapitest"
)

// patience bounds every wait for processes.
const patience = 60 * time.Second

// A fleet is a Bot API server and the processes of one side. Its methods are
// called by one goroutine.
type fleet struct {
	server *botapitest.Server
	epoch  time.Duration // clock() when the server's clock was 0
	dir    string
	log    *os.File // what the processes log

	command func(p *process) (command, error)
	// settled reports whether all processes have found their places.
	settled func() (bool, error)

	processes []*process
	number    int
	tasks     sync.WaitGroup

	seq       uint64 // the ledger was read up to here
	lastPoll  string // address that the last poll came to
	conflicts int    // polls that were answered with 409, to whoever still heard it

	loaded  atomic.Bool // whether the load comes in
	endLoad context.CancelFunc
	failed  atomic.Pointer[error] // of the load
}

// newFleet makes a fleet without processes.
func newFleet(dir string) (*fleet, error) {
	server, err := botapitest.New(botapitest.Options{NoLimits: true, LedgerLimit: 10_000_000})
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		server.Close()
		return nil, err
	}
	return &fleet{server: server, epoch: epochOf(server), dir: dir, log: log, endLoad: func() {}}, nil
}

// epochOf compares the two clocks: the best of some tries.
func epochOf(s *botapitest.Server) time.Duration {
	var epoch time.Duration
	best := time.Hour
	for range 100 {
		before := clock()
		now := s.Now()
		after := clock()
		if after-before < best {
			best, epoch = after-before, before+(after-before)/2-now
		}
	}
	return epoch
}

// close kills all processes and waits for everything of the fleet.
func (f *fleet) close() {
	f.endLoad()
	for _, p := range f.processes {
		p.end()
	}
	f.server.Close()
	f.tasks.Wait()
	_ = f.log.Close()
}

// start starts n more processes.
func (f *fleet) start(n int) error {
	for range n {
		f.number++
		api, err := f.server.Start("")
		if err != nil {
			return err
		}
		p := &process{name: fmt.Sprintf("m%d", f.number), api: api, ready: make(chan struct{}), ended: make(chan struct{})}
		c, err := f.command(p)
		if err == nil {
			err = p.start(c, f.log, &f.tasks, f.server.Now)
		}
		if err != nil {
			api.Close()
			return err
		}
		f.processes = append(f.processes, p)
	}
	return nil
}

// remove ends a process and forgets it.
func (f *fleet) remove(p *process) {
	p.end()
	f.processes = slices.DeleteFunc(f.processes, func(o *process) bool { return o == p })
}

// read reads what is new in the ledger, and lets the ledger forget it.
func (f *fleet) read(each func(botapitest.Event)) error {
	events, err := f.server.Ledger(f.seq)
	for _, e := range events {
		f.seq = e.Seq
		if e.Method == "getupdates" && e.Kind == botapitest.EventBegin {
			f.lastPoll = e.Local
		}
		if e.Method == "getupdates" && e.Kind == botapitest.EventEnd && e.Status == 409 && !e.Gone {
			f.conflicts++
		}
		if each != nil {
			each(e)
		}
	}
	f.server.ForgetLedger(f.seq)
	return err
}

// poller returns the process that made the last poll, nil if it has ended.
func (f *fleet) poller() (*process, error) {
	if err := f.read(nil); err != nil {
		return nil, err
	}
	return f.at(f.lastPoll), nil
}

func (f *fleet) at(addr string) *process {
	for _, p := range f.processes {
		if p.api.Addr == addr {
			return p
		}
	}
	return nil
}

// settle waits until every process has found its place, and returns the one
// that polls.
func (f *fleet) settle(ctx context.Context) (*process, error) {
	var leader *process
	err := eventually(ctx, func() (bool, error) {
		if err := f.failed.Load(); err != nil {
			return false, *err
		}
		for _, p := range f.processes {
			select {
			case <-p.ended:
				return false, fmt.Errorf("process %s ended by itself", p.name)
			default:
			}
		}
		var err error
		if leader, err = f.poller(); err != nil || leader == nil {
			return false, err
		}
		return f.settled()
	})
	if err != nil {
		return nil, fmt.Errorf("wait for %d processes to settle: %w", len(f.processes), err)
	}
	return leader, nil
}

// eventually calls check every few milliseconds until it is true.
func eventually(ctx context.Context, check func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("took longer than %v", patience))
	defer cancel()
	for {
		if ok, err := check(); ok || err != nil {
			return err
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// sleep sleeps; it returns the cause if ctx ends before.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// firstPoll waits for the first poll after an instant that did not come from
// one process, and returns its begin.
func (f *fleet) firstPoll(ctx context.Context, after time.Duration, not *process) (botapitest.Event, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("nobody polled for %v", patience))
	defer cancel()
	return f.server.WaitEvent(ctx, f.seq, func(e botapitest.Event) bool {
		return e.Kind == botapitest.EventBegin && e.Method == "getupdates" && e.At >= after && (not == nil || e.Local != not.api.Addr)
	})
}

// gap does something to the process that polls and returns how long it was
// until another polled. Then it replaces that process by a new one.
func (f *fleet) gap(ctx context.Context, random *rand.Rand, event func(ctx context.Context, leader *process) error) (time.Duration, error) {
	f.loaded.Store(true)
	defer f.loaded.Store(false)
	leader, err := f.settle(ctx)
	if err != nil {
		return 0, err
	}
	// At any instant of what the processes do regularly.
	if err := sleep(ctx, 200*time.Millisecond+time.Duration(random.IntN(int(250*time.Millisecond)))); err != nil {
		return 0, err
	}
	if err := f.read(nil); err != nil {
		return 0, err
	}
	at := f.server.Now()
	if err := event(ctx, leader); err != nil {
		return 0, err
	}
	poll, err := f.firstPoll(ctx, at, leader)
	if err != nil {
		return 0, err
	}
	f.remove(leader)
	return poll.At - at, f.start(1)
}

// sending is the event of a signal.
func sending(s syscall.Signal) func(context.Context, *process) error {
	return func(_ context.Context, leader *process) error { return leader.signal(s) }
}

// chats is over how many private chats messages spread.
const chats = 200

// load lets messages come, a number a second, while f.loaded is true.
func (f *fleet) load(perSecond int, seed uint64) {
	ctx, cancel := context.WithCancel(context.Background())
	f.endLoad = cancel
	random := rand.New(rand.NewPCG(seed, 1))
	f.tasks.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if !f.loaded.Load() {
				continue
			}
			_, err := f.server.Say(botapitest.Message{User: 1 + random.Int64N(chats), Text: "hello"})
			if err != nil && !errors.Is(err, botapitest.ErrClosed) {
				err = fmt.Errorf("send a message to the bot: %w", err)
				f.failed.Store(&err)
				return
			}
		}
	})
}
