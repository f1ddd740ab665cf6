package bus_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tgbridge/bus"
	"tgbridge/internal/secret"
)

// dial connects to a member's socket.
func dial(t *testing.T, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ask sends a request as it stands and returns status and body.
func ask(t *testing.T, path, method, url string, header map[string]string, body io.Reader) (int, string) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://bus"+url, body)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// good are the headers of a request that is let through.
func good(change ...string) map[string]string {
	h := map[string]string{
		"Authorization": "Bearer " + secretText, bus.HeaderProtocol: bus.Protocol,
		bus.HeaderTerm: "7", bus.HeaderInstance: "i-p",
	}
	for i := 0; i < len(change); i += 2 {
		h[change[i]] = change[i+1]
	}
	return h
}

// TestEveryRequestIsChecked: G5, G8, S6, S11.
func TestEveryRequestIsChecked(t *testing.T) {
	b := newBench(t)
	a := b.member("a")
	a.lead(7)
	old := newPeer(t, a, "i-p", 7)
	old.join(t, bus.JoinRequest{Name: "p"})
	now := newPeer(t, a, "i-p", 7)
	now.join(t, bus.JoinRequest{Name: "p"})
	b.send(a, b.items("lane", 1, `{}`))
	m := now.next(t, bus.MsgUpdate)

	routes := []struct{ method, url, body string }{
		{"POST", "/v1/join", `{}`},
		{"POST", "/v1/ack", `{}`},
		{"POST", "/v1/telegram/getMe", `{}`},
		{"POST", "/v1/handover", `{}`},
		{"GET", "/v1/status", ``},
		{"POST", "/v1/nothing", ``},
	}
	auth := []struct {
		name   string
		header map[string]string
		status int
		code   string
	}{
		{"no secret", good("Authorization", ""), 401, bus.CodeSecret},
		{"not a bearer", good("Authorization", secretText), 401, bus.CodeSecret},
		{"empty secret", good("Authorization", "Bearer "), 401, bus.CodeSecret},
		{"old secret", good("Authorization", "Bearer bus-secret-of-an-earlier-lease"), 401, bus.CodeSecret},
		{"truncated secret", good("Authorization", "Bearer "+secretText[:20]), 401, bus.CodeSecret},
		{"longer secret", good("Authorization", "Bearer "+secretText+"x"), 401, bus.CodeSecret},
		{"no protocol", good(bus.HeaderProtocol, ""), 426, bus.CodeProtocol},
		{"S11 other protocol", good(bus.HeaderProtocol, "2"), 426, bus.CodeProtocol},
	}
	for _, route := range routes {
		for _, tt := range auth {
			t.Run(route.url+" "+tt.name, func(t *testing.T) {
				status, body := ask(t, a.server.Path(), route.method, route.url, tt.header, strings.NewReader(route.body))
				wantRefusal(t, status, body, tt.status, tt.code)
			})
		}
	}
	registered := func(registration string) map[string]string {
		return good(bus.HeaderRegistration, registration, bus.HeaderRequest, "r1", bus.HeaderDelivery, m.Delivery, bus.HeaderAttempt, "1")
	}
	const joinBody = `{"instance":"i-p","name":"p","concurrency":4}`
	for _, tt := range []struct {
		name, method, url string
		header            map[string]string
		body              string
		status            int
		code              string
	}{
		{"G5 older term", "POST", "/v1/ack", good(bus.HeaderTerm, "6"), `{}`, 409, bus.CodeTerm},
		{"G5 newer term", "POST", "/v1/join", good(bus.HeaderTerm, "8"), `{}`, 409, bus.CodeTerm},
		{"no term", "POST", "/v1/telegram/getMe", good(bus.HeaderTerm, ""), `{}`, 409, bus.CodeTerm},
		{"S6 ack of an old registration", "POST", "/v1/ack", registered(old.registration), `{"acks":[{"delivery":"` + m.Delivery + `","attempt":1,"outcome":{"status":"done"}}]}`, 409, bus.CodeRegistration},
		{"S6 call of an old registration", "POST", "/v1/telegram/getMe", registered(old.registration), `{}`, 409, bus.CodeRegistration},
		{"S6 results of an old registration", "POST", "/v1/ack", registered(old.registration), `{"calls":[{"request":"r","result":{"status":200,"body":{}}}]}`, 409, bus.CodeRegistration},
		{"ack without registration", "POST", "/v1/ack", good(), `{"acks":[]}`, 409, bus.CodeRegistration},
		{"call of another attempt", "POST", "/v1/telegram/getMe", good(bus.HeaderRegistration, now.registration, bus.HeaderRequest, "r1", bus.HeaderDelivery, m.Delivery, bus.HeaderAttempt, "2"), `{}`, 409, bus.CodeSuperseded},
		{"call of no number", "POST", "/v1/telegram/getMe", good(bus.HeaderRequest, "r1", bus.HeaderDelivery, "d", bus.HeaderAttempt, "x"), `{}`, 400, bus.CodeBody},
		{"call without id", "POST", "/v1/telegram/getMe", good(), `{}`, 400, bus.CodeBody},
		{"call with a long id", "POST", "/v1/telegram/getMe", good(bus.HeaderRequest, strings.Repeat("x", 201)), `{}`, 400, bus.CodeBody},
		{"call with an odd id", "POST", "/v1/telegram/getMe", good(bus.HeaderRequest, "\xff"), `{}`, 400, bus.CodeBody},
		{"garbage join", "POST", "/v1/join", good(), "\x00\x01{", 400, bus.CodeBody},
		{"empty join", "POST", "/v1/join", good(), ``, 400, bus.CodeBody},
		{"two values", "POST", "/v1/join", good(), joinBody + `{}`, 400, bus.CodeBody},
		{"join of another instance", "POST", "/v1/join", good(), `{"instance":"i-q","name":"p","concurrency":4}`, 400, bus.CodeBody},
		{"join without a name", "POST", "/v1/join", good(), `{"instance":"i-p","concurrency":4}`, 400, bus.CodeBody},
		{"join with a line feed in its name", "POST", "/v1/join", good(), `{"instance":"i-p","name":"p\n","concurrency":4}`, 400, bus.CodeBody},
		{"join without slots", "POST", "/v1/join", good(), `{"instance":"i-p","name":"p"}`, 400, bus.CodeBody},
		{"join with other times", "POST", "/v1/join", good(), joinBody, 409, bus.CodeSettings},
		{"join with a higher term", "POST", "/v1/join", good(), `{"instance":"i-p","name":"p","concurrency":4,"highest_term":8}`, 409, bus.CodeTerm},
		{"ack of an unknown status", "POST", "/v1/ack", good(), `{"acks":[{"delivery":"d","attempt":1,"outcome":{"status":"splendid"}}]}`, 400, bus.CodeBody},
		{"ack with a long reply", "POST", "/v1/ack", good(), `{"acks":[{"delivery":"d","attempt":1,"outcome":{"status":"done","reply":"` + strings.Repeat("x", bus.MaxReply) + `"}}]}`, 400, bus.CodeBody},
		{"ack of no attempt", "POST", "/v1/ack", good(), `{"acks":[{"delivery":"d","outcome":{"status":"done"}}]}`, 400, bus.CodeBody},
		{"long call", "POST", "/v1/telegram/getMe", good(bus.HeaderRequest, "r1"), strings.Repeat("x", bus.MaxCall+1), 413, bus.CodeBody},
		{"long ack", "POST", "/v1/ack", good(), `"` + strings.Repeat("x", bus.MaxAck) + `"`, 413, bus.CodeBody},
		{"long handover", "POST", "/v1/handover", good(), `"` + strings.Repeat("x", bus.MaxHeader) + `"`, 413, bus.CodeBody},
		{"wrong method", "GET", "/v1/join", good(), ``, 405, ""},
		{"no such path", "POST", "/v1/nothing", good(), ``, 404, ""},
		{"header of 1 MB", "POST", "/v1/ack", good("X-Long", strings.Repeat("x", 1<<20)), `{}`, 431, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, body := ask(t, a.server.Path(), tt.method, tt.url, tt.header, strings.NewReader(tt.body))
			if tt.status == 431 && status == 0 {
				return // the connection was closed before all was sent
			}
			wantRefusal(t, status, body, tt.status, tt.code)
		})
	}
	// Through all of this the member was not touched.
	answer, err := now.client.Ack(t.Context(), now.registration, bus.AckRequest{Acks: []bus.Ack{{Delivery: m.Delivery, Attempt: 1, Outcome: done}}})
	if err != nil || answer.Verdicts[0] != bus.Recorded {
		t.Errorf("ack: %v, %v", answer, err)
	}
}

func wantRefusal(t *testing.T, status int, body string, wantStatus int, code string) {
	t.Helper()
	if status != wantStatus {
		t.Fatalf("status %d, want %d: %s", status, wantStatus, body)
	}
	var answer bus.ErrorAnswer
	if err := json.Unmarshal([]byte(body), &answer); code != "" && (err != nil || answer.Code != code || answer.Error == "") {
		t.Errorf("body %s, want code %s", body, code)
	}
	if strings.Contains(body, "bus-secret") {
		t.Errorf("the answer shows a secret: %s", body)
	}
}

func TestNotTheLeader(t *testing.T) {
	b := newBench(t)
	a := b.member("a")
	for _, url := range []string{"/v1/join", "/v1/ack", "/v1/telegram/getMe", "/v1/handover"} {
		status, body := ask(t, a.server.Path(), "POST", url, good(), strings.NewReader(`{}`))
		wantRefusal(t, status, body, 503, bus.CodeNotLeader)
		if !strings.Contains(body, "not the leader") {
			t.Errorf("body: %s", body)
		}
	}
	var status map[string]string
	if err := bus.NewClient(a.target(0), "i-x").Status(t.Context(), &status); err != nil || status["name"] != "a" {
		t.Errorf("status: %v, %v", status, err)
	}
}

// working has a member that handles deliveries while the test does its worst.
func working(t *testing.T) (b *bench, a *member, check func(when string)) {
	b = newBench(t)
	a = b.member("a")
	a.lead(7)
	a.follow(a, 7)
	return b, a, func(when string) {
		t.Helper()
		begun := time.Now()
		items := b.items("lane", 1, `{}`)
		b.send(a, items)
		eventually(t, when, func() bool { return b.disk.isFinished(items[0].ID) })
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("%s: a delivery took %v", when, took)
		}
	}
}

// TestS18FloodBeforeAuthentication: 16 MiB without an end are refused at the
// cap, in the header and in the body, and nobody notices.
func TestS18FloodBeforeAuthentication(t *testing.T) {
	_, a, check := working(t)
	for name, begin := range map[string]string{
		"no line end": "",
		"a header":    "POST /v1/join HTTP/1.1\r\nHost: bus\r\nX-Long: ",
		"a body":      "POST /v1/join HTTP/1.1\r\nHost: bus\r\nContent-Length: 999999999\r\n\r\n",
		"chunks":      "POST /v1/join HTTP/1.1\r\nHost: bus\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, a.server.Path())
			_ = conn.SetDeadline(time.Now().Add(patience))
			sent, _ := io.WriteString(conn, begin)
			chunk := bytes.Repeat([]byte("x"), 64<<10)
			var err error
			for sent < 16<<20 && err == nil {
				var n int
				n, err = conn.Write(chunk)
				sent += n
			}
			if err == nil {
				t.Errorf("%d bytes were taken", sent)
			}
			check("while flooded")
		})
	}
}

// TestSlowSenders: one byte at a time keeps no connection for ever, and no one
// else waiting.
func TestSlowSenders(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as the header time-out")
	}
	_, a, check := working(t)
	ended := map[string]chan struct{}{}
	for name, begin := range map[string]string{
		"silent":       "",
		"header":       "POST /v1/join HTTP/1.1\r\nHost: bus\r\nX-Slow: ",
		"refused body": "POST /v1/join HTTP/1.1\r\nHost: bus\r\nContent-Length: 1000\r\n\r\n",
	} {
		conn, gone := dial(t, a.server.Path()), make(chan struct{})
		ended[name] = gone
		_, _ = io.WriteString(conn, begin)
		go func() {
			defer close(gone)
			_, _ = io.Copy(io.Discard, conn)
		}()
		go func() {
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				select {
				case <-gone:
					return
				case <-tick.C:
					if begin != "" {
						_, _ = io.WriteString(conn, "x")
					}
				}
			}
		}()
	}
	check("with slow senders")
	timeout := time.After(patience)
	for name, gone := range ended {
		select {
		case <-gone:
		case <-timeout:
			t.Fatalf("%s: the connection is still open after %v", name, patience)
		}
	}
}

// TestIdleConnections: 1,000 of them leave the member unaffected.
func TestIdleConnections(t *testing.T) {
	_, a, check := working(t)
	for range 1000 {
		dial(t, a.server.Path())
	}
	check("with 1,000 idle connections")
}

// TestG8SecretIsNowhere: no error and no log of either side shows it.
func TestG8SecretIsNowhere(t *testing.T) {
	var logs bytes.Buffer
	logger := zerolog.New(zerolog.SyncWriter(&logs)).Level(zerolog.TraceLevel)
	path := filepath.Join(t.TempDir(), "s.sock")
	o := bus.ServerOptions{Path: path, Secret: secret.New(secretText), Status: func(context.Context) any { return make(chan int) }, Logger: logger}
	s, err := bus.Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	outputs := []string{fmt.Sprintf("%+v %#v", o, o)}
	target := bus.Target{Socket: path, Secret: secret.New(secretText), Term: 1}
	outputs = append(outputs, fmt.Sprintf("%+v", target))
	client := bus.NewClient(target, "i-x")
	note := func(err error) {
		if err == nil {
			t.Error("no error")
			return
		}
		outputs = append(outputs, err.Error(), fmt.Sprintf("%+v", err))
	}
	note(client.Handover(t.Context(), "x"))
	note(client.Status(t.Context(), &struct{}{}))
	wrong := bus.NewClient(bus.Target{Socket: path, Secret: secret.New(secretText + "-other")}, "i-x")
	note(wrong.Handover(t.Context(), "x"))
	broken := bus.NewClient(bus.Target{Socket: path, Secret: secret.New(secretText + "\n")}, "i-x")
	note(broken.Handover(t.Context(), "x"))
	client.Close()
	wrong.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	note(client.Handover(t.Context(), "x"))
	_, err = s.Check()
	note(err)
	for _, out := range append(outputs, logs.String()) {
		if strings.Contains(out, "0123456789abcdef") {
			t.Errorf("shows the secret: %s", out)
		}
	}
}

func TestSocketFile(t *testing.T) {
	listen := func(path string) (*bus.Server, error) {
		return bus.Listen(bus.ServerOptions{Path: path, Secret: secret.New(secretText), Status: func(context.Context) any { return 1 }})
	}
	t.Run("modes", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "sockets", "s.sock")
		s, err := listen(path)
		if err != nil {
			t.Fatal(err)
		}
		for file, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v, %v; want %o", file, info.Mode(), err, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("the socket stays: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("closed twice: %v", err)
		}
	})
	for name, put := range map[string]func(path string) error{
		"F47 plain file": func(path string) error { return os.WriteFile(path, []byte("precious"), 0o600) },
		"F47 symlink":    func(path string) error { return os.Symlink("/nowhere", path) },
		"F47 directory":  func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.sock")
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.Lstat(path)
			if _, err := listen(path); err == nil || !strings.Contains(err.Error(), path) {
				t.Fatalf("Listen: %v", err)
			}
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
				t.Errorf("it was touched: %v", err)
			}
		})
	}
	t.Run("one that is served is not replaced", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s.sock")
		s, err := listen(path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		if _, err := listen(path); err == nil {
			t.Fatal("bound twice")
		}
	})
	t.Run("F49 another's socket stays", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s.sock")
		old, err := listen(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		next, err := listen(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := old.Close(); err != nil {
			t.Error(err)
		}
		if status, _ := ask(t, path, "GET", "/v1/status", good(), nil); status != 200 {
			t.Errorf("status %d", status)
		}
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("F46 path of 150 bytes", func(t *testing.T) {
		path := longPath(t, 150)
		s, err := listen(path)
		if !longPathsWork {
			if err == nil || !strings.Contains(err.Error(), "103") {
				t.Errorf("Listen: %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		client := bus.NewClient(bus.Target{Socket: path, Secret: secret.New(secretText)}, "i-x")
		defer client.Close()
		var answer int
		if err := client.Status(t.Context(), &answer); err != nil || answer != 1 {
			t.Errorf("status: %v, %v", answer, err)
		}
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
		if anew, err := s.Check(); !anew || err != nil {
			t.Errorf("Check: %v, %v", anew, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// longPath returns the path of a socket that has n bytes.
func longPath(t *testing.T, n int) string {
	dir := t.TempDir()
	for len(dir) < n-len("/s.sock")-1 {
		dir = filepath.Join(dir, strings.Repeat("d", min(40, n-len("/s.sock")-1-len(dir))))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "s.sock")
}

// TestS4SocketDeleted: it is made anew, and streams that stand go on.
func TestS4SocketDeleted(t *testing.T) {
	b, a, check := working(t)
	p := newPeer(t, a, "i-p", 7)
	p.join(t, bus.JoinRequest{Name: "p"})
	for range 3 {
		if err := os.Remove(a.server.Path()); err != nil {
			t.Fatal(err)
		}
		if anew, err := a.server.Check(); !anew || err != nil {
			t.Fatalf("Check: %v, %v", anew, err)
		}
		if anew, err := a.server.Check(); anew || err != nil {
			t.Fatalf("Check again: %v, %v", anew, err)
		}
	}
	p.next(t, bus.MsgPing)
	q := newPeer(t, a, "i-q", 7)
	q.join(t, bus.JoinRequest{Name: "q"})
	p.sub.Close()
	q.sub.Close()
	check("after the socket was deleted")

	if err := os.Remove(a.server.Path()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.server.Path(), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if anew, err := a.server.Check(); anew || err == nil || !strings.Contains(err.Error(), a.server.Path()) {
		t.Errorf("Check with a plain file in its place: %v, %v", anew, err)
	}
	if err := os.RemoveAll(b.dir); err != nil { // the whole directory
		t.Fatal(err)
	}
	if anew, err := a.server.Check(); !anew || err != nil {
		t.Errorf("Check without its directory: %v, %v", anew, err)
	}
}

// TestEndOfStreamIsNoticed: also when the join's body had no length.
func TestEndOfStreamIsNoticed(t *testing.T) {
	b := newBench(t)
	a := b.member("a")
	a.leadWith(7, func(o *bus.HubOptions) { o.PingEvery = time.Hour }) // no ping would show it
	body, err := json.Marshal(bus.JoinRequest{Instance: "i-p", Name: "p", Concurrency: 1, Settings: times})
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, a.server.Path())
	_, _ = fmt.Fprintf(conn, "POST /v1/join HTTP/1.1\r\nHost: bus\r\nAuthorization: Bearer %s\r\n%s: 1\r\n%s: 7\r\n%s: i-p\r\n"+
		"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n1\r\n\n\r\n0\r\n\r\n",
		secretText, bus.HeaderProtocol, bus.HeaderTerm, bus.HeaderInstance, len(body), body)
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(line, "200") {
		t.Fatalf("answer: %q, %v", line, err)
	}
	eventually(t, "joined", func() bool { c, _ := a.hub.Counts(); return c["i-p"].Joined })
	_ = conn.Close()
	eventually(t, "gone", func() bool { c, _ := a.hub.Counts(); return !c["i-p"].Joined })
}
