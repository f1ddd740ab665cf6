package telegram

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"
	"github.com/rs/zerolog"

	"tgbridge/internal/secret"
)

const (
	defaultUserAgent = "tgbridge"
	maxUserAgent     = 256
	defaultMaxBody   = 64 << 20
	maxMethodLength  = 64

	dialTimeout = 10 * time.Second
	tlsTimeout  = 10 * time.Second
	// idleTimeout is well below what servers and proxies in front of them
	// keep: a request written to a connection that they just closed is one
	// whose outcome nobody knows.
	idleTimeout = 15 * time.Second
	idleConns   = 16
)

// ClientOptions are the settings of a Client. The zero value of each but Token
// means its default.
type ClientOptions struct {
	// Token is the bot's token, NUMBER:SECRET. Required.
	Token secret.Secret
	// APIURL is the address of the Bot API server, with a path if it has one,
	// without /bot and the token. Default DefaultAPIURL.
	APIURL string
	// UserAgent is sent with every request. Default "tgbridge".
	UserAgent string
	// MaxBody is the longest answer taken, in bytes. Default 64 MiB: room for
	// 100 updates of 32,768 characters that are all escaped, three times over.
	MaxBody int64
	// Logger gets a line per request at debug level, without parameters. The
	// zero Logger writes nothing.
	Logger zerolog.Logger
}

func (o *ClientOptions) validate() error {
	if o.UserAgent == "" {
		o.UserAgent = defaultUserAgent
	}
	if len(o.UserAgent) > maxUserAgent || strings.ContainsFunc(o.UserAgent, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Errorf("user agent: want at most %d printable ASCII characters", maxUserAgent)
	}
	if o.APIURL == "" {
		o.APIURL = DefaultAPIURL
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.MaxBody < 0 {
		return errors.New("max body: negative")
	}
	return nil
}

// Client makes single requests to a Bot API server. It repeats nothing, waits
// for nothing, and follows no redirects. It is safe for concurrent use.
// HTTP/1.1 only: a cancelled request closes its connection, and it is known
// whether any of a request was written.
type Client struct {
	token     secret.Secret
	endpoint  string // format for token and method
	userAgent string
	maxBody   int64
	redact    redactor
	log       zerolog.Logger

	// Polls have a pool of their own, so that Reset drops no send.
	polls, calls *http.Client
}

// NewClient makes a Client without any request. The errors name what is wrong
// with an option and show neither token nor address.
func NewClient(o ClientOptions) (*Client, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	_, secretPart, err := splitToken(o.Token)
	if err != nil {
		return nil, err
	}
	endpoint, err := endpointFormat(o.APIURL)
	if err != nil {
		return nil, err
	}
	return &Client{
		token:     o.Token,
		endpoint:  endpoint,
		userAgent: o.UserAgent,
		maxBody:   o.MaxBody,
		redact:    newRedactor(o.Token, secretPart),
		log:       o.Logger,
		polls:     newHTTPClient(),
		calls:     newHTTPClient(),
	}, nil
}

func newHTTPClient() *http.Client {
	dialer := &net.Dialer{Timeout: dialTimeout}
	return &http.Client{
		// A redirect would carry the token on, in the path and as referer.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         dialer.DialContext,
			TLSHandshakeTimeout: tlsTimeout,
			IdleConnTimeout:     idleTimeout,
			MaxIdleConnsPerHost: idleConns,
			TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{}, // no HTTP/2
		},
	}
}

// Call makes one request for any method of the Bot API and returns the result
// member of the answer. Parameters are sent as they are; lists and objects are
// JSON texts (https://core.telegram.org/bots/api#making-requests). Where the
// server put the token into the result (file paths of a local server), it is
// masked.
//
// Errors: *Error when Telegram, or a proxy before it, answered with a failure;
// *TransportError when no usable answer came; ErrMethodRefused for a name that
// no method has. There is no timeout but the context's.
func (c *Client) Call(ctx context.Context, method string, params map[string]string) (json.RawMessage, error) {
	a, err := c.request(ctx, c.calls, method, params)
	if err != nil {
		return nil, err
	}
	result, err := c.redact.decode(a)
	if err != nil {
		return nil, err
	}
	if clean := c.redact.text(string(result)); clean != string(result) {
		return json.RawMessage(clean), nil
	}
	return result, nil
}

// GetUpdates makes one getUpdates request on the pool of the polls and returns
// the updates byte for byte, oldest first, empty when there are none. They are
// told apart by quotes and brackets alone: an update may be no valid JSON, or
// nested deeper than encoding/json takes, and the others come nevertheless. A nil
// offset, a limit of 0, a timeout of 0 and a nil allowed are left out, which
// means: oldest unconfirmed, 100, answer at once, kinds as last time. An empty
// allowed that is not nil asks for Telegram's default kinds. Parts of a second
// are rounded up. The errors are those of Call. When it returns after the
// context's end, the connection is closed.
func (c *Client) GetUpdates(ctx context.Context, offset *int64, limit int, timeout time.Duration, allowed []string) ([]json.RawMessage, error) {
	const method = "getUpdates"
	params := map[string]string{}
	if offset != nil {
		params["offset"] = strconv.FormatInt(*offset, 10)
	}
	if limit != 0 {
		params["limit"] = strconv.Itoa(limit)
	}
	if timeout > 0 {
		params["timeout"] = strconv.FormatInt(int64((timeout+time.Second-1)/time.Second), 10)
	}
	if allowed != nil {
		kinds, err := json.Marshal(allowed)
		if err != nil {
			return nil, fmt.Errorf("encode kinds: %w", err)
		}
		params["allowed_updates"] = string(kinds)
	}
	a, err := c.request(ctx, c.polls, method, params)
	if err != nil {
		return nil, err
	}
	if updates, ok := a.updates(); ok {
		return updates, nil
	}
	if _, err := c.redact.decode(a); err != nil {
		return nil, err
	}
	return nil, &TransportError{Method: method, Sent: true, Err: errors.New("the result is no list")}
}

// DeleteWebhook removes the webhook and keeps the updates that wait. It
// succeeds where there is none. The errors are those of Call.
func (c *Client) DeleteWebhook(ctx context.Context) error {
	_, err := c.Call(ctx, "deleteWebhook", map[string]string{"drop_pending_updates": "false"})
	return err
}

// Bot is what getMe says of the bot.
type Bot struct {
	ID        int64  `json:"id"`
	Username  string `json:"username"`
	FirstName string `json:"first_name"`
}

// GetMe asks whose token this is. The errors are those of Call; 401 and 404
// mean that the token is not valid (401 has also been seen to pass).
func (c *Client) GetMe(ctx context.Context) (Bot, error) {
	result, err := c.Call(ctx, "getMe", nil)
	if err != nil {
		return Bot{}, err
	}
	var bot Bot
	if err := json.Unmarshal(result, &bot); err != nil || bot.ID == 0 {
		return Bot{}, &TransportError{Method: "getMe", Sent: true, Err: errors.New("the result is no bot")}
	}
	return bot, nil
}

// Reset closes the idle connections of the polls, so that the next poll dials
// anew. A poll under way is not touched; cancel its context first.
func (c *Client) Reset() { c.polls.CloseIdleConnections() }

// Close closes all idle connections. Requests under way go on; the Client can
// still be used, and closed again.
func (c *Client) Close() {
	c.polls.CloseIdleConnections()
	c.calls.CloseIdleConnections()
}

// request makes one request and returns the answer, byte for byte.
func (c *Client) request(ctx context.Context, client *http.Client, method string, params map[string]string) (answer, error) {
	if err := checkMethodName(method); err != nil {
		return answer{}, err
	}
	begin := time.Now()
	x := &exchange{ctx: ctx, client: client, userAgent: c.userAgent, maxBody: c.maxBody}
	bot := tgbotapi.BotAPI{Token: c.token.Reveal(), Client: x}
	bot.SetAPIEndpoint(c.endpoint)
	_, err := bot.MakeRequest(method, tgbotapi.Params(params))
	c.log.Debug().Str("method", method).Int("status", x.status).Dur("took", time.Since(begin)).Msg("telegram request")
	if !x.answered {
		return answer{}, &TransportError{Method: method, Sent: x.wrote.Load(), Err: c.redact.err(err)}
	}
	return answer{method: method, status: x.status, header: x.header, body: x.body, cut: x.bodyErr}, nil
}

// checkMethodName refuses what would change the path of the request.
func checkMethodName(method string) error {
	ok := method != "" && len(method) <= maxMethodLength
	for _, r := range method {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_')
	}
	if !ok {
		return fmt.Errorf("%.70q is no method's name: %w", method, ErrMethodRefused)
	}
	return nil
}
