package bus_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tgbridge/bus"
)

// FuzzDecodeMessage: any line is a message that holds to its contract, or an
// error.
func FuzzDecodeMessage(f *testing.F) {
	for _, seed := range []string{
		`{"type":"welcome","term":7,"protocol":"1","registration":"r","name":"n","verdicts":["recorded"]}`,
		`{"type":"update","term":7,"delivery":"d","attempt":1,"lane":"l","update":{"update_id":1}}`,
		`{"type":"update","delivery":"d","attempt":1,"update_base64":"ewp9"}`,
		`{"type":"update","delivery":"d","attempt":1,"update_base64":"?"}`,
		`{"type":"bye","heir":"i"}`, `null`, `[]`, ``, "\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := bus.DecodeMessage(line)
		if err != nil {
			return
		}
		if m.UpdateEncoded != nil {
			t.Error("the encoded body stays")
		}
		if m.Type == bus.MsgUpdate && (m.Delivery == "" || m.Attempt < 1 || len(m.Update) == 0) {
			t.Errorf("update without what it needs: %+v", m)
		}
	})
}

// FuzzReadLine: what is read is the text up to its first line feeds, never more
// than the limit.
func FuzzReadLine(f *testing.F) {
	f.Add([]byte("one\ntwo\n"), 10)
	f.Add([]byte("no end"), 10)
	f.Add(bytes.Repeat([]byte("x"), 100), 50)
	f.Add([]byte("\n\n"), 1)
	f.Fuzz(func(t *testing.T, text []byte, limit int) {
		limit = max(limit, 0) % 1000
		r := bufio.NewReaderSize(bytes.NewReader(text), 16)
		rest := text
		for {
			line, err := bus.ReadLine(r, limit)
			end := bytes.IndexByte(rest, '\n')
			if err != nil {
				if end >= 0 && end+1 <= limit {
					t.Fatalf("%q: %v", rest, err)
				}
				return
			}
			if end < 0 || !bytes.Equal(line, rest[:end+1]) || len(line) > limit {
				t.Fatalf("read %q of %q, limit %d", line, rest, limit)
			}
			rest = rest[end+1:]
		}
	})
}

// FuzzRequests: any body of a join or an acknowledgement is answered, with a
// refusal that says why or as what it asks for.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		`{"instance":"i-p","name":"p","concurrency":4,"settings":{},"in_hand":[{"delivery":"d","attempt":1}],"finished":[{"delivery":"d","attempt":1,"outcome":{"status":"done"}}],"calls":[{"request":"r"}]}`,
		`{"acks":[{"delivery":"d","attempt":1,"outcome":{"status":"failed","error":"x","reply":"y"}}],"calls":[{"request":"r","result":{"status":200,"body":{}}}]}`,
		`{"acks":null}`, `{`, ``, `[]`, "\xff",
	} {
		f.Add("/v1/join", []byte(seed))
		f.Add("/v1/ack", []byte(seed))
	}
	h := bus.HandlerForTest(secretText, times, 7)
	f.Cleanup(h.Close)
	f.Fuzz(func(t *testing.T, url string, body []byte) {
		if url != "/v1/join" {
			url = "/v1/ack"
		}
		r := httptest.NewRequest(http.MethodPost, "http://bus"+url, bytes.NewReader(body))
		for k, v := range good(bus.HeaderRegistration, "old") {
			r.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		answer, _ := io.ReadAll(w.Result().Body)
		// Nobody is registered, and settings of the fuzzer's never agree.
		if w.Code != 400 && w.Code != 409 || !strings.Contains(string(answer), `"code"`) {
			t.Errorf("%d %s", w.Code, answer)
		}
	})
}
