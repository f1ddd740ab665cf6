package bus

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"tgbridge/internal/rawjson"
	"tgbridge/internal/secret"
)

// A Target is a leader as its lease names it.
type Target struct {
	Socket string // path
	Secret secret.Secret
	Term   uint64
}

// Refused is the answer of a member that does not do what was asked.
type Refused struct {
	Status int
	ErrorAnswer
}

func (r *Refused) Error() string { return r.ErrorAnswer.Error }

// IsRefused reports whether err is a refusal with one of the codes.
func IsRefused(err error, codes ...string) bool {
	var r *Refused
	if !errors.As(err, &r) {
		return false
	}
	return slices.Contains(codes, r.Code)
}

// Client makes requests to one leader. It is safe for concurrent use.
type Client struct {
	target   Target
	instance string
	http     *http.Client
}

// idleTimeout bounds how long a connection outlives a client that was used once
// more after Close.
const idleTimeout = 30 * time.Second

// NewClient returns a client that says it is instance. It does no I/O.
func NewClient(t Target, instance string) *Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialSocket(ctx, t.Socket)
		},
		MaxIdleConnsPerHost: 32,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true,
	}
	return &Client{target: t, instance: instance, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close drops idle connections, and those in use when they become idle.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// request makes a request with the headers that every one has.
func (c *Client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://bus"+path, body)
	if err != nil {
		return nil, fmt.Errorf("bus request: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+c.target.Secret.Reveal())
	r.Header.Set(HeaderProtocol, Protocol)
	r.Header.Set(HeaderTerm, strconv.FormatUint(c.target.Term, 10))
	r.Header.Set(HeaderInstance, c.instance)
	return r, nil
}

// do sends a request and returns a successful response, or the refusal.
func (c *Client) do(r *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("bus %s: %w", r.URL.Path, err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	refused := &Refused{Status: resp.StatusCode}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&refused.ErrorAnswer); err != nil || refused.Code == "" {
		refused.ErrorAnswer = ErrorAnswer{Error: "the bus answered " + resp.Status, Code: CodeBusy}
	}
	return nil, refused
}

// post posts a JSON body and decodes the JSON answer.
func (c *Client) post(ctx context.Context, path, registration string, body, answer any) error {
	encoded, err := encodeJSON(body)
	if err != nil {
		return fmt.Errorf("encode bus request: %w", err)
	}
	r, err := c.request(ctx, http.MethodPost, path, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if registration != "" {
		r.Header.Set(HeaderRegistration, registration)
	}
	return c.fetch(r, answer)
}

// fetch sends a request and decodes the JSON answer.
func (c *Client) fetch(r *http.Request, answer any) error {
	resp, err := c.do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(io.LimitReader(resp.Body, MaxLine)).Decode(answer); err != nil {
		return fmt.Errorf("decode answer to bus %s: %w", r.URL.Path, err)
	}
	return nil
}

// Ack sends acknowledgements and results of calls. When it returns nil the
// leader has them, and the member may forget them; the answer has a verdict for
// each. Otherwise they are sent again: to this leader after CodeBusy, else by the
// next join. Every acknowledgement has to keep to the limits of the wire.
func (c *Client) Ack(ctx context.Context, registration string, a AckRequest) (AckAnswer, error) {
	var answer AckAnswer
	err := c.post(ctx, "/v1/ack", registration, a, &answer)
	if err == nil && len(answer.Verdicts) != len(a.Acks) {
		err = fmt.Errorf("bus ack: %d verdicts for %d acknowledgements", len(answer.Verdicts), len(a.Acks))
	}
	return answer, err
}

// Handover asks the leader to hand over to the member with that name, or to any.
// It returns when the leader has begun to; a *Refused with CodeNobody says that
// there is no such member.
func (c *Client) Handover(ctx context.Context, to string) error {
	return c.post(ctx, "/v1/handover", "", HandoverRequest{To: to}, &struct{}{})
}

// Status decodes what the member says of the bridge into a value.
func (c *Client) Status(ctx context.Context, into any) error {
	r, err := c.request(ctx, http.MethodGet, "/v1/status", nil)
	if err != nil {
		return err
	}
	return c.fetch(r, into)
}

// Call makes one attempt of a call, of which Method has to be escaped as a
// segment of a path, and returns the body of a successful answer. Of is the
// delivery whose handler makes it, zero if none does. A *Refused says what did
// not succeed; after any other error the call may have had its effect, and is
// to be repeated under the same request id.
func (c *Client) Call(ctx context.Context, registration string, call Call, of Held) (json.RawMessage, error) {
	r, err := c.request(ctx, http.MethodPost, "/v1/telegram/"+call.Method, bytes.NewReader(call.Body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", call.ContentType)
	r.Header.Set(HeaderRequest, call.Request)
	if of.Delivery != "" {
		r.Header.Set(HeaderRegistration, registration)
		r.Header.Set(HeaderDelivery, of.Delivery)
		r.Header.Set(HeaderAttempt, strconv.Itoa(of.Attempt))
	}
	resp, err := c.do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxLine))
	if err != nil {
		return nil, fmt.Errorf("read answer to call: %w", err)
	}
	return body, nil
}

// A Subscription is a joined stream.
type Subscription struct {
	Welcome Message
	term    uint64
	body    io.ReadCloser
	lines   *bufio.Reader
	cancel  context.CancelFunc
}

// Join registers with the leader and waits for its welcome, which the leader
// gives once its journal is read. The subscription lasts until Close, the end of
// ctx, or the leader's. A *Refused says why the leader does not admit the member.
func (c *Client) Join(ctx context.Context, j JoinRequest) (*Subscription, error) {
	encoded, err := encodeJSON(j)
	if err != nil {
		return nil, fmt.Errorf("encode join: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	r, err := c.request(ctx, http.MethodPost, "/v1/join", bytes.NewReader(encoded))
	if err != nil {
		cancel()
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.do(r)
	if err != nil {
		cancel()
		return nil, err
	}
	s := &Subscription{term: c.target.Term, body: resp.Body, lines: bufio.NewReaderSize(resp.Body, 64<<10), cancel: cancel}
	s.Welcome, err = s.Next()
	if err == nil && (s.Welcome.Type != MsgWelcome || s.Welcome.Protocol != Protocol) {
		err = fmt.Errorf("join: expected a welcome of protocol %s, got %q of protocol %q",
			Protocol, s.Welcome.Type, s.Welcome.Protocol)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the subscription; Next returns an error from then on.
func (s *Subscription) Close() {
	s.cancel()
	_ = s.body.Close()
}

// Next returns the next line. The end of the stream is io.EOF or another error
// of the connection; a line that is no message of the leader's term is an error
// too. It is called by one goroutine at a time.
func (s *Subscription) Next() (Message, error) {
	line, err := readLine(s.lines, MaxLine)
	if err != nil {
		return Message{}, err
	}
	m, err := decodeMessage(line)
	if err == nil && m.Term != s.term {
		err = fmt.Errorf("line of the stream: %s of term %d, the leader's is %d", m.Type, m.Term, s.term)
	}
	return m, err
}

// NextLot is Next, with the lines that came in together with the next one. There
// may be some beside an error: what came before it.
func (s *Subscription) NextLot() ([]Message, error) {
	var lot []Message
	for {
		m, err := s.Next()
		if err != nil {
			return lot, err
		}
		lot = append(lot, m)
		if came, _ := s.lines.Peek(s.lines.Buffered()); bytes.IndexByte(came, '\n') < 0 {
			return lot, nil
		}
	}
}

func decodeMessage(line []byte) (Message, error) {
	var m Message
	if err := json.Unmarshal(line, &m); err != nil {
		return Message{}, fmt.Errorf("decode line of the stream: %w", err)
	}
	raw, err := rawjson.Bytes(m.Update, m.UpdateEncoded)
	if err != nil {
		return Message{}, err
	}
	m.Update, m.UpdateEncoded = raw, nil
	if m.Type == MsgUpdate && (m.Delivery == "" || m.Attempt < 1 || len(m.Update) == 0) {
		return Message{}, errors.New("decode line of the stream: update without delivery, attempt or body")
	}
	return m, nil
}

// readLine reads up to a line feed, at most limit bytes.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, fmt.Errorf("line of the stream has more than %d bytes", limit)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
