package telegram_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"tgbridge/internal/secret"
	"tgbridge/internal/telegram"
)

const (
	botNumber  = "8112046593"
	secretPart = "AAHq-Zr7bVnT3xW2LsyMjY0Kd_9pQ"
	token      = botNumber + ":" + secretPart
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newClient returns a client of a server at address.
func newClient(t testing.TB, address string) *telegram.Client {
	t.Helper()
	client, err := telegram.NewClient(telegram.ClientOptions{Token: secret.New(token), APIURL: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// serve returns a client of a server that runs handler.
func serve(t testing.TB, handler http.HandlerFunc) *telegram.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return newClient(t, server.URL)
}

// lines returns the lines of a file in testdata.
func lines(t testing.TB, name string) []string {
	t.Helper()
	file, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []string
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		all = append(all, scanner.Text())
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// response is a line of responses.jsonl.
type response struct {
	Method     string            `json:"method"`
	Status     int               `json:"status"`
	Headers    map[string]string `json:"headers"`
	Body       string            `json:"body"`
	BodyBase64 string            `json:"body_base64"`
	When       string            `json:"when"`
}

// responses returns the lines of responses.jsonl, with the test token's secret
// part where a file has TOKEN.
func responses(t testing.TB) []response {
	t.Helper()
	var all []response
	for _, line := range lines(t, "responses.jsonl") {
		var r response
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		r.Body = strings.ReplaceAll(r.Body, ":TOKEN", ":"+secretPart)
		for name, value := range r.Headers {
			r.Headers[name] = strings.ReplaceAll(value, ":TOKEN", ":"+secretPart)
		}
		if r.BodyBase64 != "" {
			body, err := base64.StdEncoding.DecodeString(r.BodyBase64)
			if err != nil {
				t.Fatal(err)
			}
			r.Body = string(body)
		}
		all = append(all, r)
	}
	return all
}

// write answers a request with the response.
func (r response) write(w http.ResponseWriter) {
	for name, value := range r.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write([]byte(r.Body))
}

// noSecret fails the test if text shows the token's secret part.
func noSecret(t testing.TB, text string) {
	t.Helper()
	if strings.Contains(text, secretPart) {
		t.Errorf("shows the token: %s", text)
	}
}
