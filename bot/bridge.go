package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"tgbridge/bus"
	"tgbridge/internal/journal"
	"tgbridge/internal/telegram"
	"tgbridge/lock"
	"tgbridge/polling"
)

// Errors that end a Bridge; match them with errors.Is.
var (
	// ErrWebhookSet: a webhook is set, and Options keep it.
	ErrWebhookSet = polling.ErrWebhookSet
	// ErrTokenRefused: Telegram refused the token at the first request.
	ErrTokenRefused = polling.ErrTokenRefused
	// ErrSettings: this member's times differ from those of the leader.
	ErrSettings = errors.New("settings differ from the leader's")
	// ErrOptions: the Options make no sense.
	ErrOptions = errors.New("invalid options")
	// ErrState: the state directory cannot be used; the text says why, and what to do.
	ErrState = errors.New("state directory is unusable")
	// ErrOutcomeUnknown: a call may or may not have had its effect.
	ErrOutcomeUnknown = bus.ErrOutcomeUnknown
	// ErrStopped: the Bridge does not run any more.
	ErrStopped = errors.New("the member has stopped")
	// ErrMethod: a name is no method's.
	ErrMethod = errors.New("not the name of a method")
)

// How long a member may take to stop, until when a leader with nobody to hand
// over to takes in outcomes, and from when handlers are cancelled.
const (
	stopWithin   = 5 * time.Second
	drainWithin  = 4700 * time.Millisecond // the rest is for the release of the lease, which takes some milliseconds
	cancelWithin = 2500 * time.Millisecond
)

// LeaseKey returns the registry's key of a bot.
func LeaseKey(botID int64) string { return "tgbridge:" + strconv.FormatInt(botID, 10) }

// BotDir returns the directory of a bot's state.
func BotDir(stateDir string, botID int64) string {
	return filepath.Join(stateDir, strconv.FormatInt(botID, 10))
}

// Target returns where the holder of the lease in a bot's directory is joined and
// asked. In a lease the path of a socket is relative to that directory; an
// absolute one is taken as it is.
func Target(botDir string, holder lock.Entry) bus.Target {
	path := holder.BusSocketPath
	if !filepath.IsAbs(path) {
		path = filepath.Join(botDir, path)
	}
	return bus.Target{Socket: path, Secret: holder.BusSecret, Term: holder.Epoch}
}

// Bridge is one member. Its methods are safe for concurrent use; Run is called
// once.
type Bridge struct {
	o      Options
	botID  int64
	access telegram.Access
	denied *deniedBook
	log    zerolog.Logger

	client *telegram.Client
	api    *telegram.API

	// set by Run before anything of the member starts
	handler  Handler
	dir      string // the bot's, without symbolic links
	member   *lock.Member
	observer *lock.Observer
	lease    *lock.Lock
	poller   *polling.Poller
	server   *bus.Server
	calls    *bus.Calls
	worker   *bus.Worker

	ready   chan struct{}   // closed when Run has set the above
	ended   context.Context // ends with Run
	setEnd  context.CancelCauseFunc
	term    atomic.Pointer[term]
	watched atomic.Pointer[watch] // the leader that this member follows
	proven  atomic.Bool           // Telegram has taken the token: this member followed a leader
	rewatch chan struct{}         // has a token when watched was set
	// draining: the lease is kept without polling, to take in outcomes.
	draining atomic.Bool
	tasks    sync.WaitGroup
}

// New checks the options and returns a Bridge that has touched nothing yet. The
// error is ErrOptions with all that is wrong.
func New(o Options) (*Bridge, error) {
	o, err := o.withDefaults()
	if err == nil {
		err = o.validate()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	botID, err := telegram.BotID(o.Token)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	b := &Bridge{
		o: o, botID: botID,
		access:  newAccess(o.AllowAll, o.AllowedUsers),
		denied:  newDeniedBook(o.Logger),
		log:     o.Logger,
		ready:   make(chan struct{}),
		rewatch: make(chan struct{}, 1),
	}
	b.ended, b.setEnd = context.WithCancelCause(context.Background())
	b.client, err = telegram.NewClient(telegram.ClientOptions{
		Token: o.Token, APIURL: o.APIURL, UserAgent: userAgent(o.Version), Logger: o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	b.api, err = telegram.NewAPI(b.client, telegram.APIOptions{
		Unpaced: o.Unpaced, Check: b.checkLeads, Logger: o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return b, nil
}

func userAgent(version string) string {
	if version == "" {
		return "tgbridge"
	}
	return "tgbridge/" + version
}

// Run joins the other members, leads or follows, and handles updates with h
// until ctx ends; then it stops within 5 seconds: handlers may end within 2.5,
// what is unfinished after that goes to other members. It returns nil when it
// stopped on request, and one of this package's errors, wrapped with what to do,
// when it cannot go on. Nothing of it runs when it returns, but handlers that
// ignore their context.
func (b *Bridge) Run(ctx context.Context, h Handler) error {
	b.handler = h
	defer b.setEnd(ErrStopped)
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	if err := b.start(life); err != nil {
		return err
	}
	defer b.close()
	defer b.calls.Wait()
	defer b.tasks.Wait()
	defer end(nil)
	close(b.ready)
	b.tasks.Go(func() { b.pulse(life) })
	return b.play(ctx, life)
}

// start makes what a member has: file, socket, lease, worker. What was made is
// undone if a later step fails.
func (b *Bridge) start(life context.Context) (err error) {
	instance := uuid.NewString()
	if b.dir, err = resolveDir(b.o.StateDir, b.botID); err != nil {
		return fmt.Errorf("%w: %w; make it, or set another", ErrState, err)
	}
	b.member, err = lock.OpenMember(lock.MemberOptions{
		Dir: b.dir, Instance: instance, Name: b.o.Name, Version: b.o.Version,
		Role: lock.RoleStarting, Heartbeat: b.o.Heartbeat, Logger: b.log,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	defer func() {
		if err != nil {
			_ = b.member.Close()
		}
	}()
	host := lock.ThisHost()
	b.observer = lock.NewObserver(lock.ObserverOptions{
		Dir: b.dir, Host: host, LocksBelieved: b.member.LocksBelieved(),
		MaxGap: b.o.Heartbeat * 5 / 2,
	})
	busSecret, err := newBusSecret()
	if err != nil {
		return err
	}
	socket := filepath.Join("sockets", instance+".sock")
	b.server, err = bus.Listen(bus.ServerOptions{
		Path: filepath.Join(b.dir, socket), Secret: busSecret, Status: b.statusAnswer, Logger: b.log,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	defer func() {
		if err != nil {
			_ = b.server.Close()
		}
	}()
	cwd, _ := os.Getwd() // shown to people; a directory that is gone has none
	b.lease, err = lock.New(lock.Options{
		Dir: b.dir, Key: LeaseKey(b.botID), Member: b.member, Observer: b.observer, Cwd: cwd,
		SocketPath: socket, Secret: busSecret,
		Heartbeat: b.o.Heartbeat, StaleAfter: b.o.StaleAfter, OwnershipCheck: b.o.OwnershipCheck,
		Floor: func() (uint64, error) { return journal.HighestTerm(b.journalDir()) }, Logger: b.log,
	})
	if err != nil {
		return fmt.Errorf("make lease: %w", err)
	}
	b.poller, err = polling.New(polling.Options{
		Lock: b.lease, Source: source{b.client}, Sink: sink{b}, Cwd: cwd,
		OnAcquired: b.beginTerm, BeforeRelease: b.stopDispatch,
		PollTimeout: b.o.PollTimeout, OwnershipCheck: b.o.OwnershipCheck, StaleAfter: b.o.StaleAfter,
		AllowedUpdates: b.o.AllowedUpdates, WebhookDelete: b.o.WebhookDelete, TokenProven: b.proven.Load, Logger: b.log,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	b.calls = bus.NewCalls(life, instance, b.perform)
	b.worker = bus.NewWorker(life, b.o.Name, bus.WorkerOptions{
		Instance: instance, PID: host.PID, Host: host.Name, Version: b.o.Version,
		Concurrency: b.o.Concurrency, Settings: b.o.settings(), HandlerTimeout: b.o.HandlerTimeout,
		Term: b.termOfLease, HighestTerm: b.member.HighestTerm, Handle: b.handle, Calls: b.calls, Logger: b.log,
	})
	return nil
}

// resolveDir makes the state directory and returns the bot's in it, which need
// not be there, with symbolic links resolved: a link that points elsewhere later
// moves no member (G1).
func resolveDir(stateDir string, botID int64) (string, error) {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(stateDir)
	if err != nil {
		return "", err
	}
	dir := BotDir(resolved, botID)
	if to, err := filepath.EvalSymlinks(dir); err == nil {
		return to, nil
	}
	return dir, nil
}

// close gives up what start made, in the reverse order, when nothing of the
// member runs any more. The member's file goes last: a free lock says that the
// member is dead.
func (b *Bridge) close() {
	b.client.Close()
	if err := b.server.Close(); err != nil {
		b.log.Warn().Err(err).Msg("bus socket not removed")
	}
	if err := b.member.Close(); err != nil {
		b.log.Warn().Err(err).Msg("member file not closed")
	}
}

func (b *Bridge) journalDir() string { return filepath.Join(b.dir, "journal") }

// termOfLease reads which term the registry shows: 0 if nobody leads.
func (b *Bridge) termOfLease() (uint64, error) {
	e, err := b.lease.Current()
	if err != nil || !e.Held() {
		return 0, err
	}
	return e.Epoch, nil
}

// handle runs the handler for one delivery.
func (b *Bridge) handle(ctx context.Context, d bus.Delivery) bus.Outcome {
	facts, err := telegram.Inspect(d.Body)
	if err != nil {
		return failed(err)
	}
	if !b.access.Allows(facts) {
		b.denied.note(facts)
		return bus.Outcome{Status: bus.Denied}
	}
	reply, err := b.callHandler(ctx, &Update{delivery: d.ID, attempt: d.Attempt, raw: d.Body, facts: facts})
	if err != nil {
		b.log.Warn().Err(err).Str("delivery", d.ID).Int("attempt", d.Attempt).Msg("handler failed")
		return failed(err)
	}
	out := bus.Outcome{Status: bus.Done}
	if reply.Text != "" {
		out.Reply = encodeReply(storedReply{Text: reply.Text})
	}
	if n := len(out.Reply); n > bus.MaxReply {
		return failed(fmt.Errorf("reply has %d bytes, at most %d are taken", n, bus.MaxReply))
	}
	return out
}

// maxReason bounds what is kept of an error, in bytes.
const maxReason = 1000

// failed is the outcome of a failed attempt.
func failed(err error) bus.Outcome {
	text := err.Error()
	return bus.Outcome{Status: bus.Failed, Error: strings.ToValidUTF8(text[:min(len(text), maxReason)], "")}
}

// callHandler makes a panic an error: one handler ends no other's work.
func (b *Bridge) callHandler(ctx context.Context, u *Update) (reply Reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("handler panicked: %v", p)
		}
	}()
	return b.handler.Handle(ctx, u)
}

// Call calls a method of the Bot API through whoever leads, within Telegram's
// limits, and returns the result as Telegram sent it. In a handler's context
// the call belongs to the delivery. Values of params that are not strings,
// numbers or booleans are sent as JSON.
//
// It waits for a leader and goes on across a change of leader. A 429 is waited
// for; while Telegram cannot be reached, answers with 5xx or refuses every call
// alike (the token, a proxy), it is repeated for up to 5 minutes. Errors: a
// *telegram.Error is hidden behind *CallError; ErrOutcomeUnknown when the call
// may or may not have had its effect; ErrMethod; ErrStopped once Run has
// returned; the error of ctx.
func (b *Bridge) Call(ctx context.Context, method string, params map[string]any) (json.RawMessage, error) {
	if method == "" || strings.ContainsFunc(method, notInMethod) {
		return nil, fmt.Errorf("call %q: %w", method, ErrMethod)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.ended, func() { cancel(ErrStopped) })()
	select {
	case <-b.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	body, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("encode parameters of %s: %w", method, err)
	}
	answer, err := b.worker.Call(ctx, method, "application/json", body)
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", method, err)
	}
	return DecodeAnswer(method, answer)
}

// notInMethod: a method is a part of a URL's path.
func notInMethod(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
}

// Name returns the member's name: as given, or as the leader made it unique.
// Empty before Run.
func (b *Bridge) Name() string {
	select {
	case <-b.ready:
		return b.worker.Name()
	default:
		return ""
	}
}

// Term returns the term that the registry shows, 0 if nobody leads or it cannot
// be read.
func (b *Bridge) Term() uint64 {
	select {
	case <-b.ready:
		term, _ := b.termOfLease()
		return term
	default:
		return 0
	}
}
