package botapitest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// A Server is a Bot API server: an http.Handler that also carries the controls
// of its first bot. Make one with New and end it with Close.
type Server struct {
	*Bot // the first bot

	bots    map[int64]*Bot
	ledger  *ledger
	faults  *faults
	limits  atomic.Bool
	closing chan struct{} // closed by Close; ends every wait
	log     zerolog.Logger

	mu       sync.Mutex // guards what follows
	closed   bool
	calls    sync.WaitGroup // Add only under mu and before closed
	running  []*Running
	connLast atomic.Uint64
}

var _ http.Handler = (*Server)(nil)

// New makes a server. Errors say which option is wrong.
func New(o Options) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("make a Bot API server: %w", err)
	}
	s := &Server{
		bots:    make(map[int64]*Bot),
		faults:  &faults{},
		closing: make(chan struct{}),
		log:     o.Logger,
	}
	s.ledger = newLedger(o.LedgerLimit, s.closing)
	s.limits.Store(!o.NoLimits)
	for _, bo := range o.Bots {
		b := newBot(bo, s)
		s.bots[b.id] = b
		if s.Bot == nil {
			s.Bot = b
		}
	}
	return s, nil
}

// BotByID returns the bot with this id, nil if there is none.
func (s *Server) BotByID(id int64) *Bot { return s.bots[id] }

// SetLimits switches the rate limits on or off, for all bots; see
// Options.NoLimits.
func (s *Server) SetLimits(on bool) { s.limits.Store(on) }

func (s *Server) limited() bool { return s.limits.Load() }

// Now is the time since the server was made, the clock of Event.At.
func (s *Server) Now() time.Duration { return s.ledger.now() }

// Ledger returns the events after the one numbered since, in order. If the
// ledger is full it returns them and ErrLedgerFull.
func (s *Server) Ledger(since uint64) ([]Event, error) { return s.ledger.since(since) }

// ForgetLedger drops the events up to and including seq, which makes room.
func (s *Server) ForgetLedger(seq uint64) { s.ledger.forget(seq) }

// WaitEvent returns the first event after the one numbered since that match
// accepts. It waits for it until ctx ends, whose cause is then in the error;
// ErrLedgerFull and ErrClosed end it, too.
func (s *Server) WaitEvent(ctx context.Context, since uint64, match func(Event) bool) (Event, error) {
	return s.ledger.wait(ctx, since, match)
}

// Close stops listening, ends every request under way, stalled ones too, and
// returns when all have ended. The server answers nothing afterwards. The
// ledger can still be read.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	running := s.running
	s.mu.Unlock()
	for _, r := range running {
		r.Close()
	}
	s.calls.Wait()
}

// enter counts a request in; false once the server is closed.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.calls.Add(1)
	return true
}

// ServeHTTP answers Bot API calls under /bot<token>/ and controls under
// /control/. It cuts a connection by panicking with http.ErrAbortHandler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		panic(http.ErrAbortHandler)
	}
	defer s.calls.Done()
	if strings.HasPrefix(r.URL.Path, "/control/") {
		s.serveControl(w, r)
		return
	}
	s.serveCall(w, r)
}

// A call is a Bot API request under way.
type call struct {
	server *Server
	ctx    context.Context
	bot    *Bot // nil if the token names none
	token  string
	method string // lower case
	args   args
	begin  uint64 // Seq of its EventBegin
	end    Event
}

// method answers a call to a bot.
type method func(*Bot, *call) (Answer, *refusal)

var methods = map[string]method{
	"getme":               getMe,
	"getupdates":          getUpdates,
	"setwebhook":          setWebhook,
	"deletewebhook":       deleteWebhook,
	"getwebhookinfo":      getWebhookInfo,
	"sendmessage":         sendMessage,
	"senddocument":        sendDocument,
	"sendchataction":      sendChatAction,
	"editmessagetext":     editMessageText,
	"deletemessage":       deleteMessage,
	"answercallbackquery": answerCallbackQuery,
	"createforumtopic":    createForumTopic,
	"closeforumtopic":     closeForumTopic,
	"reopenforumtopic":    reopenForumTopic,
}

func (s *Server) serveCall(w http.ResponseWriter, r *http.Request) {
	at := s.ledger.now()
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	c := &call{server: s, ctx: r.Context()}
	token, method, ok := splitPath(r.URL.Path)
	if !ok {
		c.write(w, (&refusal{code: 404, description: "Not Found"}).answer())
		return
	}
	arguments, argsErr := readArgs(r)
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	if method == "" {
		method = arguments.text("method")
	}
	c.token, c.method, c.args = token, strings.ToLower(method), arguments
	if id, ok := botID(token); ok && s.bots[id] != nil && s.bots[id].token == token {
		c.bot = s.bots[id]
	}
	c.begin = s.ledger.add(c.beginEvent(at, r))
	defer c.finish()
	c.answer(w, argsErr)
}

// splitPath takes /bot<token>/<method> apart; the method may be empty.
func splitPath(path string) (token, method string, ok bool) {
	rest, isBot := strings.CutPrefix(path, "/bot")
	if !isBot {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

func (c *call) beginEvent(at time.Duration, r *http.Request) Event {
	e := Event{
		At: at, Kind: EventBegin, Method: c.method, Conn: connName(r), Local: localAddr(r), Client: r.Header.Get("X-Botapitest-Client"),
		Chat: c.args.chatNumber(), Thread: c.args.number("message_thread_id"), MessageID: c.args.number("message_id"),
		Text: c.args.text("text"),
	}
	if e.Client == "" {
		e.Client = r.UserAgent()
	}
	if c.bot != nil {
		e.Bot = c.bot.id
	}
	if c.method == "getupdates" {
		e.HasOffset = c.args.has("offset")
		e.Offset = int64(int32(c.args.number("offset")))
		e.Limit = int(c.args.clamped("limit", maxPoll, 1, maxPoll))
		e.Timeout = int(c.args.clamped("timeout", 0, 0, maxPollTimeout))
	}
	return e
}

// record adds an event of this call to the ledger.
func (c *call) record(e Event) {
	e.Request, e.Method, e.Bot = c.begin, c.method, c.bot.id
	c.server.ledger.add(e)
}

func (c *call) finish() {
	e := c.end
	e.Kind, e.Request, e.Method = EventEnd, c.begin, c.method
	if c.bot != nil {
		e.Bot = c.bot.id
	}
	c.server.ledger.add(e)
	c.server.log.Debug().Str("method", c.method).Int64("bot", e.Bot).Int("status", e.Status).
		Str("fault", e.Fault).Bool("gone", e.Gone).Msg("request answered")
}

// answer gives the answer of a fault, if one is due, or of the Bot API.
func (c *call) answer(w http.ResponseWriter, argsErr error) {
	if f := c.server.faults.pick(c); f != nil {
		c.suffer(w, f, argsErr)
		return
	}
	c.write(w, c.perform(argsErr))
}

// perform does what the call asks for and returns the answer.
func (c *call) perform(argsErr error) Answer {
	a, r := c.dispatch(argsErr)
	if r != nil {
		c.end.Error = r.description
		return r.answer()
	}
	return a
}

func (c *call) dispatch(argsErr error) (Answer, *refusal) {
	if errors.Is(argsErr, errBodyTooLarge) {
		return Answer{}, &refusal{code: 413, description: "Request Entity Too Large"}
	}
	if argsErr != nil {
		return Answer{}, badRequest(argsErr.Error())
	}
	if _, ok := botID(c.token); !ok {
		return Answer{}, &refusal{code: 404, description: "Not Found"}
	}
	if c.bot == nil {
		return Answer{}, &refusal{code: 401, description: "Unauthorized"}
	}
	do, ok := methods[c.method]
	if !ok {
		return Answer{}, &refusal{code: 404, description: "Not Found: method not found"}
	}
	return do(c.bot, c)
}

// write sends an answer. Without one, or to a client that has gone, it cuts
// the connection.
func (c *call) write(w http.ResponseWriter, a Answer) {
	select {
	case <-c.ctx.Done():
		c.end.Gone = true
		panic(http.ErrAbortHandler)
	default:
	}
	if a.Status == 0 && a.Body == nil {
		panic(http.ErrAbortHandler)
	}
	c.writeHeader(w, a, len(a.Body))
	_, _ = w.Write(a.Body)
}

func (c *call) writeHeader(w http.ResponseWriter, a Answer, length int) {
	c.end.Status = a.Status
	if c.end.Status == 0 {
		c.end.Status = http.StatusOK
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(length))
	for name, value := range a.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(c.end.Status)
}

// description is the one in an answer's body, if that is JSON.
func description(body []byte) string {
	var answer struct {
		Description string `json:"description"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return ""
	}
	return answer.Description
}
