package botapitest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	"tgbridge/internal/botapitest"
)

func benchServer(b *testing.B) (*botapitest.Server, string, *http.Client) {
	s, err := botapitest.New(botapitest.Options{NoLimits: true, LedgerLimit: 10_000_000})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	running, err := s.Start("")
	if err != nil {
		b.Fatal(err)
	}
	transport := &http.Transport{}
	b.Cleanup(transport.CloseIdleConnections)
	return s, running.URL + "/bot" + botapitest.DefaultToken + "/", &http.Client{Transport: transport}
}

func call(b *testing.B, client *http.Client, url string, form url.Values) {
	response, err := client.PostForm(url, form)
	if err != nil {
		b.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	if response.StatusCode != 200 {
		b.Fatal(response.Status)
	}
}

func BenchmarkSend(b *testing.B) {
	s, url, client := benchServer(b)
	s.SetChat(botapitest.Chat{ID: chat})
	for b.Loop() {
		call(b, client, url+"sendMessage", map[string][]string{"chat_id": {fmt.Sprint(chat)}, "text": {"hello"}})
	}
}

// One operation is one update, polled a hundred at a time.
func BenchmarkPoll(b *testing.B) {
	s, url, client := benchServer(b)
	batch := make([]botapitest.Message, 100)
	for i := range batch {
		batch[i] = botapitest.Message{User: chat, Text: "hello"}
	}
	offset := int64(0)
	for range (b.N + 99) / 100 {
		ids, err := s.SayAll(batch)
		if err != nil {
			b.Fatal(err)
		}
		call(b, client, url+"getUpdates", map[string][]string{"offset": {fmt.Sprint(offset)}, "timeout": {"50"}})
		offset = ids[99] + 1
	}
}

// One operation is one update of the test data, a hundred at a time.
func BenchmarkInject(b *testing.B) {
	s, _, _ := benchServer(b)
	raws := make([][]byte, 100)
	for n := range (b.N + 99) / 100 {
		for i := range raws {
			raws[i] = fmt.Appendf(nil, `{"update_id":%d,"message":{"message_id":%d,"from":{"id":5018594437,"is_bot":false,"first_name":"Mira"},"chat":{"id":5018594437,"first_name":"Mira","type":"private"},"date":1764501010,"text":"pump three is back on line"}}`, n*100+i+1, i+1)
		}
		if _, err := s.InjectAll(raws); err != nil {
			b.Fatal(err)
		}
		if s.Pending() > 90_000 {
			b.StopTimer()
			post(s, "getUpdates", "offset=-1")
			b.StartTimer()
		}
	}
}
