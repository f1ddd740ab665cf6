package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	defaultMaxWait     = 5 * time.Minute
	defaultCallTimeout = time.Minute
	firstDelay         = 500 * time.Millisecond
	longestDelay       = 15 * time.Second
	maxMoves           = 8 // of one chat; a chain of new ids ends here

	// maxPenalty is what of a penalty is waited before another try tells whether
	// it still stands: Telegram's last for minutes, and a wrong number must not
	// silence a chat for years.
	maxPenalty = time.Hour
)

// Caller makes one request; *Client is one.
type Caller interface {
	Call(ctx context.Context, method string, params map[string]string) (json.RawMessage, error)
}

var _ Caller = (*Client)(nil)

// APIOptions are the settings of an API. The zero value of each means its
// default.
type APIOptions struct {
	// Unpaced switches our own limits off (a server without limits, tests).
	// Penalties of the server and the order in a chat stay.
	Unpaced bool
	// MaxWait bounds how long a call is repeated while Telegram cannot be
	// reached, answers with 5xx, or what it answers is not about this call
	// (MayPass), counted from the first failure without the waits that Telegram
	// asked for. Default 5 minutes.
	MaxWait time.Duration
	// CallTimeout bounds one attempt. Default 1 minute.
	CallTimeout time.Duration
	// Check is called right before each request is written; its error ends
	// the call. It is where ownership is checked (G5). Default: no check.
	Check func(ctx context.Context) error
	// Moved holds the new ids of chats that became supergroups, as learned
	// earlier. The map is copied.
	Moved map[int64]int64
	// OnMove is told of each chat that a call found moved, before the call
	// is repeated, once for each pair of ids. It may be called concurrently.
	OnMove func(from, to int64)
	// Logger gets a warning with the next delay for each repetition. The
	// zero Logger writes nothing.
	Logger zerolog.Logger
}

// API is the one place where calls wait and are repeated. It is safe for
// concurrent use and starts no goroutines.
type API struct {
	client Caller
	o      APIOptions
	pace   *pacer

	mu    sync.Mutex // guards moved
	moved map[int64]int64
}

// NewAPI makes an API on top of a client that repeats nothing itself.
func NewAPI(client Caller, o APIOptions) (*API, error) {
	if client == nil {
		return nil, errors.New("api: no client")
	}
	if o.MaxWait < 0 || o.CallTimeout < 0 {
		return nil, errors.New("api: max wait and call timeout must not be negative")
	}
	if o.MaxWait == 0 {
		o.MaxWait = defaultMaxWait
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = defaultCallTimeout
	}
	moved := maps.Clone(o.Moved)
	if moved == nil {
		moved = make(map[int64]int64)
	}
	return &API{client: client, o: o, pace: newPacer(o.Unpaced), moved: moved}, nil
}

// Call calls a method and returns its result as Client.Call does; params is
// not changed. It waits for Telegram's limits, repeats what may be repeated,
// and returns when the call is settled or the context ends. Calls that send or
// edit are made in the order in which they came, chat by chat, one at a time.
// The text of parameters is not looked at, except chat_id, which is replaced
// where the chat has moved.
//
// An edit without a change, the deletion of a message that is gone and the
// answer to a query that is too old are successes with the result true.
//
// Errors: *Error for Telegram's last word, *TransportError for what surely had
// no effect and could not be repeated any longer (see SurelyNoEffect), either
// wrapped together with ErrOutcomeUnknown when an attempt may have had its
// effect; ErrMethodRefused. The context's cause and what Check returned are
// inside a *TransportError. A 429 is waited for as long as Telegram says, but
// asked again after an hour at the latest, and each time: only the context
// bounds that.
func (a *API) Call(ctx context.Context, method string, params map[string]string) (json.RawMessage, error) {
	if err := checkCallable(method); err != nil {
		return nil, err
	}
	c := &call{api: a, method: method, params: maps.Clone(params)}
	c.join()
	defer func() { c.turn.leave() }()
	for {
		if err := c.ready(ctx); err != nil {
			return nil, c.failed(err)
		}
		result, err := c.attempt(ctx)
		v := judge(method, err)
		c.maybe = c.maybe || v.maybe || v.action == doubt
		switch v.action {
		case succeed:
			if err != nil {
				return json.RawMessage("true"), nil
			}
			return result, nil
		case fail, doubt:
			return nil, c.failed(err)
		case move:
			if !c.move(err) {
				return nil, c.failed(err)
			}
		case wait:
			c.punish(err)
		case repeat:
			if err := c.backOff(ctx, err); err != nil {
				return nil, c.failed(err)
			}
		}
	}
}

// call is one call under way.
type call struct {
	api    *API
	method string
	params map[string]string // ours
	turn   *turn
	moves  int

	maybe    bool      // some attempt may have had its effect
	failures int       // so far, without penalties of a known length
	giveUp   time.Time // zero before the first failure
}

const chatPrefix = "chat:"

// join takes a place at the call's target. A new place is taken before an old
// one is left, so that calls that move keep their order.
func (c *call) join() {
	key := "method:" + strings.ToLower(c.method)
	paced := isPaced(c.method)
	switch {
	case c.params["chat_id"] != "":
		c.readdress()
		key = chatPrefix + strings.ToLower(c.params["chat_id"])
	case c.params["inline_message_id"] != "":
		key = "inline:" + c.params["inline_message_id"]
	}
	old := c.turn
	if old != nil && old.key == key {
		return
	}
	c.turn = c.api.pace.join(key, paced)
	if old != nil {
		old.leave()
	}
}

// readdress replaces the id of a chat that has moved.
func (c *call) readdress() {
	id, err := strconv.ParseInt(c.params["chat_id"], 10, 64)
	if err != nil {
		return // addressed by name
	}
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	for range maxMoves {
		to, moved := c.api.moved[id]
		if !moved {
			break
		}
		id = to
	}
	c.params["chat_id"] = strconv.FormatInt(id, 10)
}

// ready waits until an attempt may begin. The chat may move while it waits.
func (c *call) ready(ctx context.Context) error {
	for {
		if err := c.turn.await(ctx); err != nil {
			return &TransportError{Method: c.method, Err: err}
		}
		before := c.turn
		if c.join(); c.turn == before {
			break
		}
	}
	if err := c.turn.pass(ctx); err != nil {
		return &TransportError{Method: c.method, Err: err}
	}
	if c.api.o.Check == nil {
		return nil
	}
	if err := c.api.o.Check(ctx); err != nil {
		return &TransportError{Method: c.method, Err: err}
	}
	return nil
}

func (c *call) attempt(ctx context.Context) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, c.api.o.CallTimeout)
	defer cancel()
	defer c.turn.done()
	return c.api.client.Call(ctx, c.method, c.params)
}

// failed marks an error as of unknown outcome if any attempt may have had its
// effect.
func (c *call) failed(err error) error {
	if !c.maybe {
		return err
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}

// move notes a chat's new id; the call is sent once more, to there.
func (c *call) move(err error) bool {
	var e *Error
	from, parseErr := strconv.ParseInt(c.params["chat_id"], 10, 64)
	if !errors.As(err, &e) || parseErr != nil || from == e.MigrateTo || c.moves > 0 {
		return false
	}
	c.moves++
	if c.api.noteMove(from, e.MigrateTo) {
		c.api.o.Logger.Info().Int64("from", from).Int64("to", e.MigrateTo).Msg("chat has a new id")
		if c.api.o.OnMove != nil {
			c.api.o.OnMove(from, e.MigrateTo)
		}
	}
	c.join()
	return true
}

func (a *API) noteMove(from, to int64) (isNew bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.moved[from] == to {
		return false
	}
	a.moved[from] = to
	delete(a.moved, to) // no circles: the newest word counts
	return true
}

// punish makes all who share the call's target wait as long as Telegram says,
// within reason.
func (c *call) punish(err error) {
	var e *Error
	delay := c.nextDelay()
	if errors.As(err, &e) && e.RetryAfter > 0 {
		delay = min(e.RetryAfter, maxPenalty)
	} else {
		c.failures++
	}
	c.turn.punish(time.Now().Add(delay))
	if !c.giveUp.IsZero() {
		c.giveUp = c.giveUp.Add(delay)
	}
	c.warn(err, delay)
}

// backOff waits before a repetition, or returns the error that ends the call.
func (c *call) backOff(ctx context.Context, err error) error {
	now := time.Now()
	if c.giveUp.IsZero() {
		c.giveUp = now.Add(c.api.o.MaxWait)
	}
	delay := c.nextDelay()
	c.failures++
	var e *Error
	if errors.As(err, &e) && e.RetryAfter > delay {
		// Longer than there is time: one more try when it ends.
		delay = max(delay, min(e.RetryAfter, c.giveUp.Sub(now)))
	}
	if now.Add(delay).After(c.giveUp) || ctx.Err() != nil {
		return err
	}
	c.warn(err, delay)
	if cause := sleep(ctx, delay); cause != nil {
		return &TransportError{Method: c.method, Err: fmt.Errorf("%w while waiting after: %w", cause, err)}
	}
	return nil
}

// nextDelay doubles with each failure, give or take a fifth, so that calls
// that failed together do not come back together.
func (c *call) nextDelay() time.Duration {
	delay := longestDelay
	if c.failures < 5 {
		delay = firstDelay << c.failures
	}
	return delay*4/5 + rand.N(delay*2/5)
}

func (c *call) warn(err error, delay time.Duration) {
	line := c.api.o.Logger.Warn().Str("method", c.method).Str("target", c.turn.key).
		Str("error", err.Error()).Dur("delay", delay)
	var e *Error
	if errors.As(err, &e) && e.RetryAfter > delay {
		line.Dur("asked", e.RetryAfter).Msg("telegram call is repeated, sooner than was asked for")
		return
	}
	line.Msg("telegram call is repeated")
}
