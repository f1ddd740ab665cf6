package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"tgbridge/internal/secret"
)

// Limits of a server beside those of the wire.
const (
	maxConns      = 1024
	headerTimeout = 5 * time.Second
	bodyTimeout   = 30 * time.Second // for a request body, from its first byte
	lineTimeout   = 60 * time.Second // for a line of the stream to be taken by the member
)

// ServerOptions make a Server.
type ServerOptions struct {
	Path   string        // of the socket
	Secret secret.Secret // that every request must carry
	// Status answers GET /v1/status, whether this member leads or not.
	Status func(ctx context.Context) any
	Logger zerolog.Logger
}

// Server is a member's socket. It serves from the start of the member to its
// end; requests other than status are refused with "not the leader" while no
// hub is set. All methods are safe for concurrent use.
type Server struct {
	o    ServerOptions
	hub  atomic.Pointer[Hub]
	http *http.Server
	sock *socket
	runs sync.WaitGroup // a Serve for each listener
}

// Listen binds the socket and serves it. A socket that a dead process left in
// its place is replaced; any other file there is an error and stays untouched.
func Listen(o ServerOptions) (*Server, error) {
	sock, err := bind(o.Path)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, sock: sock}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/join", s.leading(s.join))
	mux.HandleFunc("POST /v1/ack", s.leading(s.ack))
	mux.HandleFunc("POST /v1/telegram/{method}", s.leading(s.call))
	mux.HandleFunc("POST /v1/handover", s.leading(s.handover))
	mux.HandleFunc("GET /v1/status", s.status)
	s.http = &http.Server{
		Handler:           s.authenticated(mux),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    MaxHeader,
		ConnContext:       withPeer,
		ErrorLog:          quietLog(o.Logger),
	}
	s.serve(sock.listener)
	return s, nil
}

func (s *Server) serve(l net.Listener) {
	s.runs.Go(func() { _ = s.http.Serve(limitListener(l, maxConns)) })
}

// Lead sets the hub to which requests go; nil: this member does not lead.
func (s *Server) Lead(h *Hub) { s.hub.Store(h) }

// Path returns where the socket is.
func (s *Server) Path() string { return s.o.Path }

// Check makes the socket file anew if it is gone, with the same listener's
// successor serving it; connections that stand are not touched. It returns
// whether it had to.
func (s *Server) Check() (bool, error) {
	if s.sock.inPlace() {
		return false, nil
	}
	listener, err := s.sock.rebind()
	if err != nil {
		return false, err
	}
	s.serve(listener)
	return true, nil
}

// Close ends all connections and removes the socket.
func (s *Server) Close() error {
	err := s.http.Close()
	s.runs.Wait()
	return errors.Join(err, s.sock.remove())
}

// refusal is an error that is answered as it stands.
type refusal struct {
	status int
	answer ErrorAnswer
}

func (r *refusal) Error() string { return r.answer.Error }

func refuse(status int, code, message string) error {
	return &refusal{status, ErrorAnswer{Error: message, Code: code}}
}

// authenticated lets through what carries the secret, comes from our user and
// speaks our protocol. Bodies are not read before.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.authenticate(r); err != nil {
			w.Header().Set("Connection", "close")
			writeError(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) authenticate(r *http.Request) error {
	if uid, ok := peerUID(r.Context()); ok && uid != 0 && uid != os.Getuid() {
		return refuse(http.StatusForbidden, CodeUser,
			fmt.Sprintf("user %d may not use the bus of user %d; run all members as one user", uid, os.Getuid()))
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || !s.o.Secret.Equal(given) {
		return refuse(http.StatusUnauthorized, CodeSecret,
			"wrong or missing secret; read busSecret of the lease in locks.json afresh")
	}
	if p := r.Header.Get(HeaderProtocol); p != Protocol {
		return refuse(http.StatusUpgradeRequired, CodeProtocol,
			fmt.Sprintf("this member speaks bus protocol %s, not %q; run the same version everywhere", Protocol, p))
	}
	return nil
}

// leading wraps the handlers that only a leader serves, for its own term.
func (s *Server) leading(next func(h *Hub, w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := s.hub.Load()
		if h == nil {
			writeError(w, ErrHubClosed)
			return
		}
		if term := r.Header.Get(HeaderTerm); term != strconv.FormatUint(h.Term(), 10) {
			writeError(w, &refusal{http.StatusConflict, ErrorAnswer{
				Error: fmt.Sprintf("this leader's term is %d, the request's %q; read the lease afresh", h.Term(), term),
				Code:  CodeTerm, Term: h.Term(),
			}})
			return
		}
		if err := next(h, w, r); err != nil {
			writeError(w, err)
		}
	}
}

func (s *Server) join(h *Hub, w http.ResponseWriter, r *http.Request) error {
	var j JoinRequest
	if err := readBody(w, r, MaxJoin, &j); err != nil {
		return err
	}
	if err := j.validate(r.Header.Get(HeaderInstance)); err != nil {
		return refuse(http.StatusBadRequest, CodeBody, err.Error())
	}
	if j.HighestTerm > h.Term() {
		h.o.HigherTerm(j.HighestTerm)
		return &refusal{http.StatusConflict, ErrorAnswer{
			Error: fmt.Sprintf("term %d was seen, above this leader's %d; it takes a higher one, join again", j.HighestTerm, h.Term()),
			Code:  CodeTerm, Term: h.Term(),
		}}
	}
	notices, err := h.o.Settings.compare(j.Settings)
	if err != nil {
		return refuse(http.StatusConflict, CodeSettings, err.Error())
	}
	for _, n := range notices {
		h.o.Logger.Warn().Str("name", j.Name).Msg(n)
	}
	h.o.Calls.Joined(j.Instance, j.Calls, true)
	st, err := h.join(r.Context(), j, notices)
	if err != nil {
		return err
	}
	h.serveStream(w, r, st)
	return nil
}

func (s *Server) ack(h *Hub, w http.ResponseWriter, r *http.Request) error {
	var a AckRequest
	if err := readBody(w, r, MaxAck, &a); err != nil {
		return err
	}
	instance := r.Header.Get(HeaderInstance)
	verdicts, err := h.ack(instance, r.Header.Get(HeaderRegistration), a.Acks)
	if err != nil {
		return err
	}
	h.o.Calls.Joined(instance, a.Calls, false)
	return writeJSON(w, http.StatusOK, AckAnswer{Verdicts: verdicts})
}

func (s *Server) call(h *Hub, w http.ResponseWriter, r *http.Request) error {
	call := Call{
		Request:     r.Header.Get(HeaderRequest),
		Method:      r.PathValue("method"),
		ContentType: r.Header.Get("Content-Type"),
	}
	if call.Request == "" || len(call.Request) > 200 {
		return refuse(http.StatusBadRequest, CodeRequest, "a call needs the header "+HeaderRequest+" of 1 to 200 bytes")
	}
	body, err := io.ReadAll(bounded(w, r, MaxCall))
	if err != nil {
		return bodyError(err, MaxCall)
	}
	call.Body = body
	if delivery := r.Header.Get(HeaderDelivery); delivery != "" {
		attempt, err := strconv.Atoi(r.Header.Get(HeaderAttempt))
		if err != nil {
			return refuse(http.StatusBadRequest, CodeBody, "header "+HeaderAttempt+" is not a number")
		}
		instance := r.Header.Get(HeaderInstance)
		if err := h.registered(instance, r.Header.Get(HeaderRegistration)); err != nil {
			return err
		}
		it, ok, err := h.holds(instance, Held{Delivery: delivery, Attempt: attempt})
		if err != nil {
			return err
		}
		if !ok {
			return refuse(http.StatusConflict, CodeSuperseded, "this attempt of the delivery is no longer this member's")
		}
		call.Seq, call.Lane = it.Seq, it.Lane
	}
	result, err := h.o.Calls.Do(r.Context(), call)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(result.Status)
	_, err = w.Write(result.Body)
	return ignoreWrite(err)
}

func (s *Server) handover(h *Hub, w http.ResponseWriter, r *http.Request) error {
	var req HandoverRequest
	if err := readBody(w, r, MaxHeader, &req); err != nil {
		return err
	}
	if err := h.handover(req.To); err != nil {
		return err
	}
	return writeJSON(w, http.StatusAccepted, struct{}{})
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	_ = writeJSON(w, http.StatusOK, s.o.Status(r.Context()))
}

// validate checks what a member says of itself.
func (j *JoinRequest) validate(instance string) error {
	switch {
	case j.Instance == "" || len(j.Instance) > 64:
		return errors.New("instance must have 1 to 64 bytes")
	case j.Instance != instance:
		return errors.New("instance differs from the header " + HeaderInstance)
	case j.Name == "" || len(j.Name) > 200 || strings.ContainsFunc(j.Name, isControl):
		return errors.New("name must have 1 to 200 bytes and no control characters")
	case j.Concurrency < 1 || j.Concurrency > 10_000:
		return errors.New("concurrency must be 1 to 10000")
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// bounded returns the body with a limit and a deadline.
func bounded(w http.ResponseWriter, r *http.Request, limit int64) io.Reader {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	return http.MaxBytesReader(w, r.Body, limit)
}

func readBody(w http.ResponseWriter, r *http.Request, limit int64, into any) error {
	if err := json.NewDecoder(bounded(w, r, limit)).Decode(into); err != nil {
		return bodyError(err, limit)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return nil
}

func bodyError(err error, limit int64) error {
	if big := (*http.MaxBytesError)(nil); errors.As(err, &big) {
		return refuse(http.StatusRequestEntityTooLarge, CodeBody, fmt.Sprintf("the body has more than %d bytes", limit))
	}
	return refuse(http.StatusBadRequest, CodeBody, "body: "+err.Error())
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return ignoreWrite(json.NewEncoder(w).Encode(v))
}

// ignoreWrite: who went away while being answered needs no other answer.
func ignoreWrite(error) error { return nil }

// writeError answers with a refusal; what is none of ours is "busy": the
// member tries again.
func writeError(w http.ResponseWriter, err error) {
	var r *refusal
	switch {
	case errors.As(err, &r):
	case errors.Is(err, ErrHubClosed), errors.Is(err, ErrNotBegun):
		r = &refusal{http.StatusServiceUnavailable, ErrorAnswer{
			Error: "this member is not the leader; read the lease afresh", Code: CodeNotLeader,
		}}
	case errors.Is(err, ErrOutcomeUnknown):
		r = &refusal{http.StatusBadGateway, ErrorAnswer{Error: err.Error(), Code: CodeUnknown}}
	case errors.Is(err, ErrOtherRequest):
		r = &refusal{http.StatusUnprocessableEntity, ErrorAnswer{Error: err.Error(), Code: CodeRequest}}
	default:
		r = &refusal{http.StatusServiceUnavailable, ErrorAnswer{Error: err.Error(), Code: CodeBusy}}
	}
	_ = writeJSON(w, r.status, r.answer)
}

// peerKey is the key under which a connection's context holds its peer's uid.
type peerKey struct{}

func withPeer(ctx context.Context, c net.Conn) context.Context {
	if counted, ok := c.(*countedConn); ok {
		c = counted.Conn
	}
	if uid, ok := uidOf(c); ok {
		return context.WithValue(ctx, peerKey{}, uid)
	}
	return ctx
}

func peerUID(ctx context.Context) (int, bool) {
	uid, ok := ctx.Value(peerKey{}).(int)
	return uid, ok
}
