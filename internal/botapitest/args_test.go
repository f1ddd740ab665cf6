package botapitest_test

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tgbridge/internal/botapitest"
)

// Every way in which clients write "sendMessage chat_id=5018594437 text=a&b".
func TestArgumentEncodings(t *testing.T) {
	const path = "/bot" + botapitest.DefaultToken + "/"
	multi := func(fields ...string) (string, string) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		for i := 0; i < len(fields); i += 2 {
			_ = w.WriteField(fields[i], fields[i+1])
		}
		_ = w.Close()
		return w.FormDataContentType(), b.String()
	}
	multiType, multiBody := multi("chat_id", "5018594437", "text", "a&b")
	tests := []struct{ name, method, target, kind, body string }{
		{"GET with a query", "GET", path + "sendMessage?chat_id=5018594437&text=a%26b", "", ""},
		{"POST with a query", "POST", path + "sendMessage?chat_id=5018594437&text=a%26b", "", ""},
		{"urlencoded", "POST", path + "sendMessage", "application/x-www-form-urlencoded", "chat_id=5018594437&text=a%26b"},
		{"urlencoded with charset", "POST", path + "sendMessage", "application/x-www-form-urlencoded; charset=utf-8", "chat_id=5018594437&text=a%26b"},
		{"JSON", "POST", path + "sendMessage", "application/json", `{"chat_id":5018594437,"text":"a\u0026b","reply_markup":null}`},
		{"JSON with numbers as strings", "POST", path + "sendMessage", "application/json; charset=utf-8", `{"chat_id":"5018594437","text":"a&b"}`},
		{"multipart", "POST", path + "sendMessage", multiType, multiBody},
		{"query and body together", "POST", path + "sendMessage?text=a%26b", "application/json", `{"chat_id":5018594437,"text":"other"}`},
		{"method in small letters", "GET", path + "sendmessage?chat_id=5018594437&text=a%26b", "", ""},
		{"method in capitals", "GET", path + "SENDMESSAGE?chat_id=5018594437&text=a%26b", "", ""},
		{"method as an argument", "POST", path, "application/json", `{"method":"sendMessage","chat_id":5018594437,"text":"a&b"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newWorld(t)
			r := httptest.NewRequest(tt.method, tt.target, strings.NewReader(tt.body))
			r.Header.Set("Content-Type", tt.kind)
			if answer := got(do(s, r)); !strings.HasPrefix(answer, "200 ") {
				t.Fatal(answer)
			}
			events, _ := s.Ledger(0)
			last := events[len(events)-2]
			if last.Kind != botapitest.EventSent || last.Text != "a&b" || last.Chat != chat {
				t.Errorf("stored %+v", last)
			}
		})
	}
}

// What clients send where they have nothing to say.
func TestEmptyArguments(t *testing.T) {
	tests := []struct{ name, kind, body string }{
		{"telebot: null", "application/json", "null"},
		{"JSON null members", "application/json", `{"offset":null,"allowed_updates":null}`},
		{"telegram-bot-api: the word null", "application/x-www-form-urlencoded", "allowed_updates=null&limit=5"},
		{"go-telegram: multipart, empty", "multipart/form-data; boundary=b", ""},
		{"multipart, closed at once", "multipart/form-data; boundary=b", "--b--\r\n"},
		{"gotgbot: a dummy field", "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"\"\r\n\r\n\r\n--b--\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, botapitest.Options{NoLimits: true})
			for _, method := range []string{"getMe", "getUpdates"} {
				r := httptest.NewRequest("POST", "/bot"+botapitest.DefaultToken+"/"+method, strings.NewReader(tt.body))
				r.Header.Set("Content-Type", tt.kind)
				if answer := got(do(s, r)); !strings.HasPrefix(answer, `200 {"ok":true,"result":`) {
					t.Errorf("%s: %s", method, answer)
				}
			}
		})
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	const (
		notFound     = `404 {"ok":false,"error_code":404,"description":"Not Found"}`
		unauthorized = `401 {"ok":false,"error_code":401,"description":"Unauthorized"}`
		good         = "/bot" + botapitest.DefaultToken
	)
	tests := []struct{ name, method, target, kind, body, want string }{
		{"another token", "GET", "/bot8112046593:AAother/getMe", "", "", unauthorized},
		{"another bot", "GET", "/bot777:AAother/getMe", "", "", unauthorized},
		{"token and method unknown", "GET", "/bot777:AAother/getNothing", "", "", unauthorized},
		{"no colon", "GET", "/bot8112046593/getMe", "", "", notFound},
		{"token with 0 in front", "GET", "/bot08112046593:AA/getMe", "", "", notFound},
		{"token over 80 characters", "GET", "/bot1:" + strings.Repeat("a", 79) + "/getMe", "", "", notFound},
		{"no method", "GET", good, "", "", notFound},
		{"other path", "GET", "/", "", "", notFound},
		{"unknown method", "GET", good + "/getNothing", "", "", `404 {"ok":false,"error_code":404,"description":"Not Found: method not found"}`},
		{"PUT", "PUT", good + "/getMe", "", "", "405 "},
		{"broken JSON", "POST", good + "/getMe", "application/json", `{"a":`, bad("Bad Request: can't parse JSON object")},
		{"JSON that is no object", "POST", good + "/getMe", "application/json", `[1]`, bad("Bad Request: can't parse JSON object")},
		{"broken multipart", "POST", good + "/getMe", "multipart/form-data; boundary=b", "--b\r\nContent-Disp", bad("Bad Request: can't parse multipart/form-data")},
		{"multipart without boundary", "POST", good + "/getMe", "multipart/form-data", "x", bad("Bad Request: boundary in multipart/form-data not found")},
		{"broken escapes", "POST", good + "/getMe", "application/x-www-form-urlencoded", "a=%zz", bad("Bad Request: can't parse parameters")},
		{"56 MB", "POST", good + "/getMe", "application/x-www-form-urlencoded", strings.Repeat("a", 56<<20), `413 {"ok":false,"error_code":413,"description":"Request Entity Too Large"}`},
	}
	s := newServer(t, botapitest.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, tt.target, strings.NewReader(tt.body))
			r.Header.Set("Content-Type", tt.kind)
			wantEqual(t, "answer", got(do(s, r)), tt.want)
		})
	}
}

func TestSeveralBots(t *testing.T) {
	s := newServer(t, botapitest.Options{Bots: []botapitest.BotOptions{
		{Token: "111:AAone", FirstUpdateID: 10}, {Token: "222:AAtwo", FirstUpdateID: 20, FirstName: "Two"},
	}})
	get := func(path string) string { return got(do(s, httptest.NewRequest("GET", path, http.NoBody))) }
	if s.ID() != 111 || s.BotByID(222).Token() != "222:AAtwo" || s.BotByID(3) != nil {
		t.Errorf("bots are %d, %v, %v", s.ID(), s.BotByID(222), s.BotByID(3))
	}
	for id, want := range map[int64]string{111: "10", 222: "20"} {
		if _, err := s.BotByID(id).Say(botapitest.Message{User: 5, Text: "a"}); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "updates", ids(t, get("/bot"+s.BotByID(id).Token()+"/getUpdates")), want)
	}
	wantEqual(t, "tokens do not mix", get("/bot111:AAtwo/getMe"), `401 {"ok":false,"error_code":401,"description":"Unauthorized"}`)
}

func TestOptionsThatAreRefused(t *testing.T) {
	tests := map[string]botapitest.Options{
		"no colon":        {Bots: []botapitest.BotOptions{{Token: "111"}}},
		"id taken":        {Bots: []botapitest.BotOptions{{Token: "111:a"}, {Token: "111:b"}}},
		"update id":       {Bots: []botapitest.BotOptions{{Token: "111:a", FirstUpdateID: 2_000_000_000}}},
		"negative ledger": {LedgerLimit: -1},
	}
	for name, o := range tests {
		if _, err := botapitest.New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzInject(f *testing.F) {
	for _, raw := range lines(f, "testdata/updates.jsonl") {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := botapitest.New(botapitest.Options{NoLimits: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Inject(raw); err == nil {
			wantEqual(t, "served", post(s, "getUpdates", ""), `200 {"ok":true,"result":[`+string(raw)+"]}")
		}
	})
}

func FuzzControls(f *testing.F) {
	paths := []string{"update", "updates", "message", "messages", "chat", "topic", "fault", "webhook", "limits", "ids", "end_polls"}
	for i, body := range []string{`{"update_id":1}`, "{}\n{}", `{"text":"a","user":1}`, `[{}]`, `{"id":1}`, `{"chat":1}`, `{"act":"stall","for":"1s"}`, `{"url":"a"}`, `{"on":true}`, `{"first":5}`, `{"body_base64":"eA=="}`} {
		f.Add(i, []byte(body))
	}
	f.Fuzz(func(t *testing.T, i int, body []byte) {
		s, err := botapitest.New(botapitest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		path := paths[((i%len(paths))+len(paths))%len(paths)]
		w := do(s, httptest.NewRequest("POST", "/control/"+path, bytes.NewReader(body)))
		if w.Code != 200 && w.Code != 400 || !bytes.Contains(w.Body.Bytes(), []byte(`"ok":`)) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	})
}

func FuzzArguments(f *testing.F) {
	f.Add("application/json", []byte(`{"chat_id":1,"text":"a","reply_parameters":{"message_id":1}}`))
	f.Add("application/json", []byte(`null`))
	f.Add("application/x-www-form-urlencoded", []byte("chat_id=1&text=%20"))
	f.Add("multipart/form-data; boundary=b", []byte("--b\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\na\r\n--b--\r\n"))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		s, err := botapitest.New(botapitest.Options{NoLimits: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.SetChat(botapitest.Chat{ID: 1})
		r := httptest.NewRequest("POST", "/bot"+botapitest.DefaultToken+"/sendMessage", bytes.NewReader(body))
		r.Header["Content-Type"] = []string{kind}
		if w := do(s, r); w.Code != 200 && w.Code != 400 {
			t.Error(fmt.Sprint(w.Code, " ", w.Body))
		}
	})
}
