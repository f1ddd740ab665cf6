package bus

import (
	"bufio"
	"context"
	"net/http"
	"sync"

	"tgbridge/internal/secret"
)

// DecodeMessage is the decoder of the stream's lines, for fuzzing.
func DecodeMessage(line []byte) (Message, error) { return decodeMessage(line) }

// ReadLine reads a line of the stream, for fuzzing.
func ReadLine(r *bufio.Reader, limit int) ([]byte, error) { return readLine(r, limit) }

// Handler is what serves a leader's requests, without a socket.
type Handler struct {
	http.Handler
	Close func()
}

// HandlerForTest returns the handler of a leader that admits members with those
// settings.
func HandlerForTest(text string, s Settings, term uint64) Handler {
	calls := NewCalls(context.Background(), "i-leader", nil)
	h := NewHub(HubOptions{Term: term, Settings: s, Calls: calls, HigherTerm: func(uint64) {}})
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { _ = h.Run(ctx) })
	_ = h.Begin(nil, nil)
	server := &Server{o: ServerOptions{Secret: secret.New(text)}}
	server.Lead(h)
	return Handler{server.authenticated(server.routes()), func() {
		cancel()
		run.Wait()
	}}
}
