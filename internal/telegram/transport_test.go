package telegram_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tgbridge/internal/secret"
	"tgbridge/internal/telegram"
)

// rawServer accepts connections one by one and runs serve with each and its
// number, from 1; the connection is closed when serve returns. It returns the
// address as an API URL.
func rawServer(t *testing.T, serve func(n int, conn *net.TCPConn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = listener.Close(); <-done })
	go func() {
		defer close(done)
		for n := 1; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serve(n, conn.(*net.TCPConn))
			_ = conn.Close()
		}
	}()
	return "http://" + listener.Addr().String()
}

// readRequest reads one request whole and reports whether there was one.
func readRequest(conn net.Conn) bool {
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

const answered = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 25\r\n\r\n{\"ok\":true,\"result\":true}"

// TestTransportFailures checks for each way in which a request can fail
// whether it may have reached Telegram, and that the error and the log show no
// token (F9, F32).
func TestTransportFailures(t *testing.T) {
	refused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusedAddress := "http://" + refused.Addr().String()
	_ = refused.Close()
	notTLS := rawServer(t, func(_ int, conn *net.TCPConn) { _, _ = io.WriteString(conn, "HTTP/1.0 400 Bad Request\r\n\r\n") })
	tests := []struct {
		name     string
		address  string
		noEffect bool
		is       error // found by errors.Is, nil if any
	}{
		{"F32 connection refused", refusedAddress, true, syscall.ECONNREFUSED},
		{"F9 no such host", "http://nobody.invalid", true, nil},
		{"F9 bad port", "http://127.0.0.1:99999", true, nil},
		{"no TLS at the other end", "https" + notTLS[len("http"):], true, nil},
		{"F32 stored, then closed", rawServer(t, func(_ int, conn *net.TCPConn) { readRequest(conn) }), false, io.EOF},
		{"F9 stored, then reset", rawServer(t, func(_ int, conn *net.TCPConn) {
			readRequest(conn)
			_ = conn.SetLinger(0)
		}), false, nil},
		{"cut in the header", rawServer(t, func(_ int, conn *net.TCPConn) {
			readRequest(conn)
			_, _ = io.WriteString(conn, answered[:30])
		}), false, io.ErrUnexpectedEOF},
		{"cut in the body", rawServer(t, func(_ int, conn *net.TCPConn) {
			readRequest(conn)
			_, _ = io.WriteString(conn, answered[:len(answered)-10])
		}), false, io.ErrUnexpectedEOF},
		{"no HTTP", rawServer(t, func(_ int, conn *net.TCPConn) {
			readRequest(conn)
			_, _ = io.WriteString(conn, "SSH-2.0-x "+token+"\r\n")
		}), false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			client, err := telegram.NewClient(telegram.ClientOptions{
				Token: secret.New(token), APIURL: tt.address, Logger: zerolog.New(&log),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, callErr := client.Call(ctx, "sendMessage", map[string]string{"text": "x"})
			_, pollErr := client.GetUpdates(ctx, nil, 0, 0, nil)
			if ctx.Err() != nil {
				t.Fatalf("ran into the test's timeout: %v, %v", callErr, pollErr)
			}
			var transport *telegram.TransportError
			if !errors.As(callErr, &transport) || transport.Method != "sendMessage" {
				t.Fatalf("error: %v, want a *TransportError", callErr)
			}
			if got := telegram.SurelyNoEffect(callErr); got != tt.noEffect {
				t.Errorf("SurelyNoEffect(%v) = %v, want %v", callErr, got, tt.noEffect)
			}
			if tt.is != nil && !errors.Is(callErr, tt.is) {
				t.Errorf("error %v is not %v", callErr, tt.is)
			}
			for err := callErr; err != nil; err = errors.Unwrap(err) {
				noSecret(t, err.Error())
			}
			noSecret(t, pollErr.Error())
			noSecret(t, log.String())
			if log.Len() == 0 {
				t.Error("nothing was logged")
			}
		})
	}
}

// TestTimeouts checks the context's end before and after the request was
// written (F19).
func TestTimeouts(t *testing.T) {
	silent := rawServer(t, func(_ int, conn *net.TCPConn) {
		readRequest(conn)
		_, _ = io.Copy(io.Discard, conn) // until the client gives up
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := newClient(t, silent).Call(ctx, "sendMessage", map[string]string{"text": "x"})
	if !errors.Is(err, context.DeadlineExceeded) || telegram.SurelyNoEffect(err) {
		t.Errorf("no answer: %v, SurelyNoEffect %v", err, telegram.SurelyNoEffect(err))
	}

	// TLS that is never answered: nothing of the request is written.
	mute := rawServer(t, func(_ int, conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) })
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = newClient(t, "https"+mute[len("http"):]).Call(ctx, "sendMessage", map[string]string{"text": "x"})
	if !errors.Is(err, context.DeadlineExceeded) || !telegram.SurelyNoEffect(err) {
		t.Errorf("no handshake: %v, SurelyNoEffect %v", err, telegram.SurelyNoEffect(err))
	}
}

// TestReusedConnection checks a kept connection that the server closes while
// it is idle: the next request is made anew where net/http knows that nothing
// was written, and never twice otherwise.
func TestReusedConnection(t *testing.T) {
	t.Run("closed before the request", func(t *testing.T) {
		var received atomic.Int32
		address := rawServer(t, func(_ int, conn *net.TCPConn) {
			if readRequest(conn) {
				received.Add(1)
				_, _ = io.WriteString(conn, answered)
			}
		})
		client := newClient(t, address)
		const calls = 50
		var succeeded, noEffect int32
		for range calls {
			_, err := client.Call(t.Context(), "sendMessage", map[string]string{"text": "x"})
			switch {
			case err == nil:
				succeeded++
			case telegram.SurelyNoEffect(err):
				noEffect++
			}
		}
		// The close may come between any two steps of the client's; what it
		// must not do is to claim what it cannot know, or to send twice.
		if n := received.Load(); n < succeeded || n > calls-noEffect {
			t.Errorf("%d calls, %d succeeded, %d surely without effect, but %d requests", calls, succeeded, noEffect, n)
		}
	})
	t.Run("closed after the request", func(t *testing.T) {
		var requests atomic.Int32
		address := rawServer(t, func(_ int, conn *net.TCPConn) {
			for range 2 {
				if !readRequest(conn) {
					return
				}
				if requests.Add(1) == 1 {
					_, _ = io.WriteString(conn, answered)
				}
			}
		})
		client := newClient(t, address)
		if _, err := client.Call(t.Context(), "sendMessage", map[string]string{"text": "x"}); err != nil {
			t.Fatal(err)
		}
		_, err := client.Call(t.Context(), "sendMessage", map[string]string{"text": "x"})
		if err == nil || telegram.SurelyNoEffect(err) {
			t.Errorf("error: %v, want one of unknown outcome", err)
		}
		if n := requests.Load(); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
	})
	t.Run("gone before the request", func(t *testing.T) {
		// All connections are closed and the server is down: what remains is
		// a refused dial.
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"ok":true,"result":true}`)
		}))
		client := newClient(t, server.URL)
		if _, err := client.Call(t.Context(), "sendMessage", nil); err != nil {
			t.Fatal(err)
		}
		server.Close()
		if _, err := client.Call(t.Context(), "sendMessage", nil); err == nil {
			t.Error("no error from a server that is down")
		}
		if _, err := client.Call(t.Context(), "sendMessage", nil); !telegram.SurelyNoEffect(err) {
			t.Errorf("error: %v, want one surely without effect", err)
		}
	})
}
