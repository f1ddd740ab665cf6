package bus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
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
	headerTimeout = 5 * time.Second  // for the header, and for the rest of a refused request
	bodyTimeout   = 30 * time.Second // for a request body, from the end of its header
	lineTimeout   = 60 * time.Second // for an answer, or a line of the stream, to be taken
)

// ServerOptions make a Server.
type ServerOptions struct {
	Path   string        // of the socket
	Secret secret.Secret // that every request must carry
	// Status answers GET /v1/status, whether this member leads or not, with
	// something that encodes as JSON. It should end when its context does.
	Status func(ctx context.Context) any
	Logger zerolog.Logger
}

// Server is a member's socket. It serves from the start of the member to its
// end; requests other than status are refused with "not the leader" while no
// hub is set. All methods are safe for concurrent use.
//
// Goroutines: one for each listener, and net/http's for each connection. Close
// waits for them.
type Server struct {
	o    ServerOptions
	hub  atomic.Pointer[Hub]
	http *http.Server
	sock *socket

	upkeep sync.Mutex // held while the socket is made or removed; before mu
	mu     sync.Mutex // guards closed, and tasks against growing after it
	closed bool
	tasks  sync.WaitGroup // listeners and requests
}

// ErrServerClosed says that a Server was closed.
var ErrServerClosed = errors.New("the bus socket is closed")

// Listen binds the socket, with mode 0600, in a directory that is made with mode
// 0700 if need be, and serves it. A socket that a dead process left in its place
// is replaced; any other file there is an error that names it, and stays
// untouched. Outside Linux a path of more than 103 bytes is an error.
func Listen(o ServerOptions) (*Server, error) {
	sock, err := bind(o.Path)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, sock: sock}
	s.http = &http.Server{
		Handler:           s.authenticated(s.routes()),
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
	s.tasks.Go(func() { _ = s.http.Serve(limitListener(l, maxConns)) })
}

// Lead sets the hub to which requests go; nil: this member does not lead.
func (s *Server) Lead(h *Hub) { s.hub.Store(h) }

// Path returns where the socket is.
func (s *Server) Path() string { return s.o.Path }

// Check makes the socket anew if its file is gone, or is another by now;
// connections that stand are not touched. It returns whether it had to. After an
// error, which is one of Listen's or ErrServerClosed, it may be called again.
func (s *Server) Check() (bool, error) {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	if s.isClosed() {
		return false, ErrServerClosed
	}
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

// Close ends all connections, waits for the requests that were under way, and
// removes the socket if it is still the one that was bound. Closing twice is
// safe.
func (s *Server) Close() error {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	if s.isClosed() {
		return nil
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	err := s.http.Close()
	if errors.Is(err, net.ErrClosed) { // a listener that Check has just replaced
		err = nil
	}
	s.tasks.Wait()
	return errors.Join(err, s.sock.remove())
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// begin counts a request until end is called; false once the server is closed.
func (s *Server) begin() (end func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	s.tasks.Add(1)
	return s.tasks.Done, true
}

// authenticated lets through what carries the secret, comes from our user and
// speaks our protocol. Bodies are not read before, and what of a refused one is
// on its way has to arrive soon.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		end, ok := s.begin()
		if !ok {
			return
		}
		defer end()
		control := http.NewResponseController(w)
		_ = control.SetWriteDeadline(time.Time{}) // of the connection's last answer
		_ = control.SetReadDeadline(time.Now().Add(headerTimeout))
		if err := s.authenticate(r); err != nil {
			w.Header().Set("Connection", "close")
			writeError(w, err)
			return
		}
		_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
		next.ServeHTTP(w, r)
	})
}

func (s *Server) authenticate(r *http.Request) error {
	if uid, ok := peerUID(r.Context()); ok && uid != 0 && uid != os.Geteuid() {
		return refuse(http.StatusForbidden, CodeUser,
			fmt.Sprintf("user %d may not use the bus of user %d; run all members as one user", uid, os.Geteuid()))
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
