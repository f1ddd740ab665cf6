package botapitest

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
)

// A Running is a Server that listens on an address.
type Running struct {
	// URL is what clients use as the address of the Bot API, such as
	// http://127.0.0.1:41237; Addr is the address in it, as Event.Local has it.
	URL  string
	Addr string

	http *http.Server
	done chan struct{} // closed when the listener's goroutine has ended
	conn sync.WaitGroup
}

// Start serves on a TCP address; "" means a free port of 127.0.0.1. It may be
// called again, also with the address of a Running that was closed, as when a
// server comes back. Errors are those of net.Listen, or that the server is
// closed.
func (s *Server) Start(addr string) (*Running, error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("start Bot API server: %w", err)
	}
	r := &Running{URL: "http://" + listener.Addr().String(), Addr: listener.Addr().String(), done: make(chan struct{})}
	r.http = &http.Server{
		Handler:     s,
		ErrorLog:    log.New(io.Discard, "", 0), // it would name URLs, which hold tokens
		ConnContext: s.connContext,
		ConnState:   r.countConn,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = listener.Close()
		return nil, fmt.Errorf("start Bot API server: %w", ErrClosed)
	}
	s.running = append(slices.DeleteFunc(s.running, (*Running).closed), r)
	go func() {
		defer close(r.done)
		_ = r.http.Serve(listener) // always an error: Close was called
	}()
	return r, nil
}

// Close stops listening, cuts every connection and returns when all requests
// that came by them have ended. State and ledger stay with the Server.
func (r *Running) Close() {
	_ = r.http.Close()
	<-r.done
	r.conn.Wait()
}

// closed reports whether nothing is listening any more.
func (r *Running) closed() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// countConn lets Close wait for the goroutines of connections.
func (r *Running) countConn(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		r.conn.Add(1)
	case http.StateClosed:
		r.conn.Done()
	}
}

type connKey struct{}

// connection is what a request knows of the connection that it came by.
type connection struct {
	net.Conn
	name string
}

func (s *Server) connContext(ctx context.Context, c net.Conn) context.Context {
	name := fmt.Sprintf("%s#%d", c.RemoteAddr(), s.connLast.Add(1))
	return context.WithValue(ctx, connKey{}, &connection{Conn: c, name: name})
}

// connName is the connection's name, or the client's address where requests
// do not come by a Running.
func connName(r *http.Request) string {
	if c, ok := r.Context().Value(connKey{}).(*connection); ok {
		return c.name
	}
	return r.RemoteAddr
}

// localAddr is the address that the request came to, "" where requests do not
// come by a Running.
func localAddr(r *http.Request) string {
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		return addr.String()
	}
	return ""
}

// resetConn lets the close of the request's connection be a reset (RST).
func resetConn(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*connection); ok {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	}
}
