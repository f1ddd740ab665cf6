package botapitest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"tgbridge/internal/botapitest"
)

func controlCall(s *botapitest.Server, method, path, body string) string {
	w := do(s, httptest.NewRequest(method, path, strings.NewReader(body)))
	return strings.TrimSpace(got(w))
}

func TestControls(t *testing.T) {
	const done = `200 {"ok":true}`
	update := `{"update_id":700, "message":{"message_id":5,"from":{"id":9},"chat":{"id":9,"type":"private"},"date":1,"text":"x"}}`
	tests := []struct{ name, method, path, body, want string }{
		{"raw update", "POST", "/control/update", update, `200 {"ok":true,"update_ids":[700]}`},
		{"raw updates", "POST", "/control/updates", "{\"update_id\":701}\n\n{\"update_id\":702}\n", `200 {"ok":true,"update_ids":[701,702]}`},
		{"lower id", "POST", "/control/update", `{"update_id":600}`, `400 {"error":"inject update 600 while 702 waits: update id does not rise","ok":false}`},
		{"no update", "POST", "/control/update", `{}`, `400 {"error":"inject update: read update: no update_id that is a number","ok":false}`},
		{"anything under an id", "POST", "/control/update?id=703", `{"update_id":"x"}`, `200 {"ok":true,"update_ids":[703]}`},
		{"message", "POST", "/control/message", `{"user":9,"text":"hi"}`, `200 {"ok":true,"update_ids":[704]}`},
		{"messages", "POST", "/control/messages", `[{"user":9,"text":"a"},{"chat":-8,"user":9,"thread":3,"text":"b"}]`, `200 {"ok":true,"update_ids":[705,706]}`},
		{"unknown field", "POST", "/control/message", `{"usr":9}`, `400 {"error":"read request: json: unknown field \"usr\"","ok":false}`},
		{"chat", "POST", "/control/chat", `{"id":-100777,"title":"T","is_forum":true}`, done},
		{"topic", "POST", "/control/topic", `{"chat":-100777,"thread":4,"name":"N"}`, done},
		{"fault", "POST", "/control/fault", `{"id":"f","method":"getMe","act":"answer","for":"1m","answer":{"status":502,"body":"<html>"}}`, `200 {"id":"f","ok":true}`},
		{"wrong fault", "POST", "/control/fault", `{"act":"answer"}`, `400 {"error":"add fault: fault \"answer\" needs an answer","ok":false}`},
		{"wrong time", "POST", "/control/fault", `{"act":"stall","for":"soon"}`, `400 {"error":"read for: time: invalid duration \"soon\"","ok":false}`},
		{"the fault works", "POST", "/bot" + botapitest.DefaultToken + "/getMe", "", `502 <html>`},
		{"remove it", "DELETE", "/control/fault?id=f", "", done},
		{"it is gone", "DELETE", "/control/fault?id=f", "", `400 {"error":"no fault \"f\"","ok":false}`},
		{"remove all", "DELETE", "/control/fault", "", done},
		{"limits off", "POST", "/control/limits", `{"on":false}`, done},
		{"webhook", "POST", "/control/webhook", `{"url":"https://example.org"}`, done},
		{"webhook is set", "POST", "/bot" + botapitest.DefaultToken + "/getUpdates", "", hookActive},
		{"no webhook", "POST", "/control/webhook", `{"url":""}`, done},
		{"ids", "POST", "/control/ids", `{"first":10}`, `400 {"error":"choose update ids anew: 7 updates are waiting","ok":false}`},
		{"end polls", "POST", "/control/end_polls", `{"status":500,"body":"x"}`, done},
		{"another bot", "POST", "/control/message?bot=5", `{}`, `400 {"error":"no bot \"5\"","ok":false}`},
		{"no such control", "POST", "/control/nothing", ``, `404 {"ok":false,"error":"no such control"}`},
	}
	s := newServer(t, botapitest.Options{})
	for _, tt := range tests {
		wantEqual(t, tt.name, controlCall(s, tt.method, tt.path, tt.body), tt.want)
	}
	if answer := post(s, "getUpdates", ""); !strings.Contains(answer, update+`,{"update_id":701},{"update_id":702},{"update_id":"x"},{"update_id":704,`) {
		t.Errorf("updates: %s", answer)
	}
	if state := controlCall(s, "GET", "/control/state", ""); !strings.Contains(state, `"next_update_id":707`) {
		t.Errorf("state: %s", state)
	}
}

// A line of the test data is an answer that /control/fault takes as it is.
func TestControlTakesResponsesAsTheyAre(t *testing.T) {
	s := newServer(t, botapitest.Options{})
	for _, line := range lines(t, "testdata/responses.jsonl") {
		body := fmt.Sprintf(`{"act":"answer","times":1,"answer":%s}`, line)
		if answer := controlCall(s, "POST", "/control/fault", body); !strings.HasPrefix(answer, "200 ") {
			t.Errorf("%s: %s", line, answer)
		}
	}
}

func TestControlLedger(t *testing.T) {
	s := newServer(t, botapitest.Options{})
	say(t, s, "a", "b", "c")
	decode := func(path string) (all []botapitest.Event) {
		w := do(s, httptest.NewRequest("GET", path, nil))
		for d := json.NewDecoder(w.Body); d.More(); {
			var e botapitest.Event
			if err := d.Decode(&e); err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
		return all
	}
	if all := decode("/control/ledger?since=1"); len(all) != 2 || all[0].Seq != 2 || all[1].Updates[0] != 102 {
		t.Errorf("since 1: %+v", all)
	}
	if all := decode("/control/ledger?since=3&wait=10ms"); len(all) != 0 {
		t.Errorf("nothing new: %+v", all)
	}
	wantEqual(t, "forget", controlCall(s, "DELETE", "/control/ledger?upto=2", ""), `200 {"ok":true}`)
	if all := decode("/control/ledger"); len(all) != 1 {
		t.Errorf("after forgetting: %+v", all)
	}
}

func TestControlTakesTheTestData(t *testing.T) {
	raw, err := os.ReadFile("testdata/updates.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, botapitest.Options{})
	w := do(s, httptest.NewRequest("POST", "/control/updates", bytes.NewReader(raw)))
	if w.Code != 200 || s.Pending() != 112 { // four are of kinds that a bot must ask for
		t.Errorf("%d %s: %d wait", w.Code, w.Body, s.Pending())
	}
}
