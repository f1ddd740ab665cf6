package bus

import (
	"log"
	"net"
	"sync"

	"github.com/rs/zerolog"
)

// limitListener accepts at most n connections at a time. Further ones are closed
// at once, so that a flood of idle connections keeps nobody waiting for long.
func limitListener(l net.Listener, n int) net.Listener {
	return &limitedListener{Listener: l, slots: make(chan struct{}, n)}
}

type limitedListener struct {
	net.Listener
	slots chan struct{}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &countedConn{Conn: conn, release: sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			_ = conn.Close()
		}
	}
}

// countedConn gives its slot back when it is closed.
type countedConn struct {
	net.Conn
	release func()
}

func (c *countedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// quietLog sends what net/http has to say to the debug log.
func quietLog(logger zerolog.Logger) *log.Logger {
	return log.New(logWriter{logger}, "", 0)
}

type logWriter struct{ logger zerolog.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.logger.Debug().Str("text", string(p)).Msg("bus server")
	return len(p), nil
}
