package botapitest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"tgbridge/internal/botapitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const chat = 5018594437

// newServer makes a server whose update ids begin at 100, without limits
// unless options say so.
func newServer(t *testing.T, o botapitest.Options) *botapitest.Server {
	t.Helper()
	if o.Bots == nil {
		o.Bots = []botapitest.BotOptions{{Token: botapitest.DefaultToken, FirstUpdateID: 100}}
	}
	s, err := botapitest.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// got is an answer as "status body".
func got(w *httptest.ResponseRecorder) string {
	return fmt.Sprintf("%d %s", w.Code, w.Body)
}

// post calls a method of the default bot without a network: arguments are
// written as in a query.
func post(s http.Handler, method, arguments string) string {
	return got(do(s, request(method, arguments)))
}

func request(method, arguments string) *http.Request {
	r := httptest.NewRequest("POST", "/bot"+botapitest.DefaultToken+"/"+method, strings.NewReader(arguments))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func do(s http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func say(t *testing.T, s *botapitest.Server, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if _, err := s.Say(botapitest.Message{Chat: chat, Text: text}); err != nil {
			t.Fatal(err)
		}
	}
}

func form(pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v.Encode()
}

func wantEqual(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %.1500s\nwant %.1500s", what, got, want)
	}
}
