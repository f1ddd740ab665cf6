package botapitest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tgbridge/internal/botapitest"
)

// start serves s on a free port; the client has connections of its own.
func start(t *testing.T, s *botapitest.Server) (string, *http.Client) {
	t.Helper()
	running, err := s.Start("")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return running.URL + "/bot" + botapitest.DefaultToken + "/", client
}

func addFault(t *testing.T, s *botapitest.Server, f botapitest.Fault) string {
	t.Helper()
	id, err := s.AddFault(f)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func lines(t testing.TB, path string) [][]byte {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all [][]byte
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		all = append(all, append([]byte(nil), scanner.Bytes()...))
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestEveryResponseIsPlayedExactly(t *testing.T) {
	s := newServer(t, botapitest.Options{})
	url, client := start(t, s)
	for i, line := range lines(t, "testdata/responses.jsonl") {
		var want struct {
			Method     string
			Status     int
			Headers    map[string]string
			Body, When string
			BodyBase64 []byte `json:"body_base64"`
		}
		if err := json.Unmarshal(line, &want); err != nil {
			t.Fatal(err)
		}
		var answer botapitest.Answer
		if err := json.Unmarshal(line, &answer); err != nil {
			t.Fatal(err)
		}
		addFault(t, s, botapitest.Fault{Method: want.Method, Times: 1, Act: botapitest.FaultAnswer, Answer: &answer})
		response, err := client.Get(url + want.Method)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if want.BodyBase64 != nil {
			want.Body = string(want.BodyBase64)
		}
		if response.StatusCode != want.Status || string(body) != want.Body {
			t.Errorf("line %d (%s): got %d %q, want %d %q", i+1, want.When, response.StatusCode, body, want.Status, want.Body)
		}
		for name, value := range want.Headers {
			if response.Header.Get(name) != value {
				t.Errorf("line %d: header %s is %q, want %q", i+1, name, response.Header.Get(name), value)
			}
		}
	}
}

func TestEveryUpdateIsServedExactly(t *testing.T) {
	s := newServer(t, botapitest.Options{NoLimits: true})
	post(s, "getUpdates", `allowed_updates=`+everyKind(t))
	raws := lines(t, "testdata/updates.jsonl")
	injected, err := s.InjectAll(raws)
	if err != nil || len(injected) != len(raws)-1 { // 900000176 is of a kind nobody can ask for
		t.Fatalf("%d injected, error %v", len(injected), err)
	}
	var want []string
	for _, raw := range raws {
		if !strings.Contains(string(raw), "900000176") {
			want = append(want, string(raw))
		}
	}
	first := post(s, "getUpdates", "offset=1")
	wantEqual(t, "first hundred", first, `200 {"ok":true,"result":[`+strings.Join(want[:100], ",")+"]}")
	wantEqual(t, "the rest", post(s, "getUpdates", "offset=900000160"),
		`200 {"ok":true,"result":[`+strings.Join(want[100:], ",")+"]}")
}

// everyKind is the kinds of the test data as allowed_updates.
func everyKind(t *testing.T) string {
	seen := map[string]bool{}
	for _, raw := range lines(t, "testdata/updates.jsonl") {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil {
			t.Fatal(err)
		}
		for name := range members {
			seen[name] = true
		}
	}
	var names []string
	for name := range seen {
		names = append(names, name)
	}
	list, _ := json.Marshal(names)
	return string(list)
}

func TestConnectionFaults(t *testing.T) {
	const sent = `{"ok":true,"result":{"message_id":`
	tests := []struct {
		name   string
		fault  botapitest.Fault
		err    error // what the client gets; nil if all of the answer
		status int   // 0 if no head of an answer comes
		stored bool
	}{
		{"cut before the effect", botapitest.Fault{Act: botapitest.FaultCut}, io.EOF, 0, false},
		{"F32 cut after the effect", botapitest.Fault{Act: botapitest.FaultCut, Effect: true}, io.EOF, 0, true},
		{"F9 reset", botapitest.Fault{Act: botapitest.FaultCut, Reset: true}, syscall.ECONNRESET, 0, false},
		{"cut in the body", botapitest.Fault{Act: botapitest.FaultCutBody}, io.ErrUnexpectedEOF, 200, true},
		{"slow body", botapitest.Fault{Act: botapitest.FaultSlowBody, Every: 10 * time.Microsecond}, nil, 200, true},
		{"delay", botapitest.Fault{Act: botapitest.FaultDelay, Latency: time.Millisecond}, nil, 200, true},
		{"answer after the effect", botapitest.Fault{Act: botapitest.FaultAnswer, Effect: true, Answer: &botapitest.Answer{Status: 502}}, nil, 502, true},
		{"answer without the effect", botapitest.Fault{Act: botapitest.FaultAnswer, Answer: &botapitest.Answer{Status: 502}}, nil, 502, false},
		{"stall", botapitest.Fault{Act: botapitest.FaultStall}, context.DeadlineExceeded, 0, false},
		{"stall after the effect", botapitest.Fault{Act: botapitest.FaultStall, Effect: true}, context.DeadlineExceeded, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newWorld(t)
			url, client := start(t, s)
			client.Timeout = 5 * time.Second
			if tt.fault.Act == botapitest.FaultStall {
				client.Timeout = 50 * time.Millisecond
			}
			tt.fault.Times, tt.fault.ID = 1, "it"
			addFault(t, s, tt.fault)
			seq := lastSeq(t, s)
			response, err := client.PostForm(url+"sendMessage", map[string][]string{"chat_id": {"5018594437"}, "text": {"a"}})
			status, body := 0, []byte(nil)
			if err == nil {
				status = response.StatusCode
				body, err = io.ReadAll(response.Body)
				response.Body.Close()
			}
			if !errors.Is(err, tt.err) || status != tt.status {
				t.Errorf("got status %d, error %v; want %d, %v", status, err, tt.status, tt.err)
			}
			if status == 200 && !strings.HasPrefix(string(body), sent) {
				t.Errorf("body %s", body)
			}
			checkStored(t, s, seq, tt.stored)

			// The next request is whole again.
			response, err = client.Get(url + "getMe")
			if err != nil || response.StatusCode != 200 {
				t.Fatalf("after the fault: %v, %v", response, err)
			}
			response.Body.Close()
		})
	}
}

func checkStored(t *testing.T, s *botapitest.Server, after uint64, want bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	end, err := s.WaitEvent(ctx, after, func(e botapitest.Event) bool { return e.Kind == botapitest.EventEnd })
	if err != nil {
		t.Fatal(err)
	}
	if end.Fault != "it" {
		t.Errorf("ended by fault %q", end.Fault)
	}
	events, _ := s.Ledger(after)
	stored := false
	for _, e := range events {
		stored = stored || e.Kind == botapitest.EventSent
	}
	if stored != want {
		t.Errorf("stored is %v, want %v", stored, want)
	}
}

func lastSeq(t *testing.T, s *botapitest.Server) uint64 {
	t.Helper()
	events, err := s.Ledger(0)
	if err != nil {
		t.Fatal(err)
	}
	return events[len(events)-1].Seq
}

func TestWhichRequestsFaultsSpoil(t *testing.T) {
	spoiled := &botapitest.Answer{Status: 500, Body: []byte{}}
	tests := []struct {
		name  string
		fault botapitest.Fault
		want  string // of five getMe a second apart: x spoiled, . whole
	}{
		{"all", botapitest.Fault{}, "xxxxx"},
		{"another method", botapitest.Fault{Method: "sendMessage"}, "....."},
		{"method in any case", botapitest.Fault{Method: "GETME"}, "xxxxx"},
		{"twice", botapitest.Fault{Times: 2}, "xx..."},
		{"the second", botapitest.Fault{Skip: 1, Times: 1}, ".x..."},
		{"for three seconds", botapitest.Fault{For: 3 * time.Second}, "xxx.."},
		{"another bot", botapitest.Fault{Bot: 5}, "....."},
		{"a chat", botapitest.Fault{Chat: 5}, "....."},
		{"after a disconnection", botapitest.Fault{AfterDisconnect: true}, "....."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, botapitest.Options{})
				tt.fault.Act, tt.fault.Answer = botapitest.FaultAnswer, spoiled
				addFault(t, s, tt.fault)
				var result string
				for range 5 {
					if strings.HasPrefix(post(s, "getMe", ""), "500") {
						result += "x"
					} else {
						result += "."
					}
					time.Sleep(time.Second)
				}
				wantEqual(t, "spoiled", result, tt.want)
			})
		})
	}
}

func TestProbability(t *testing.T) {
	s := newServer(t, botapitest.Options{})
	addFault(t, s, botapitest.Fault{Probability: 0.5, Act: botapitest.FaultAnswer, Answer: &botapitest.Answer{Status: 500}})
	spoiled := 0
	for range 1000 {
		if strings.HasPrefix(post(s, "getMe", ""), "500") {
			spoiled++
		}
	}
	if spoiled < 350 || spoiled > 650 {
		t.Errorf("%d of 1000 spoiled", spoiled)
	}
}

func TestFaultsAreRemoved(t *testing.T) {
	s := newServer(t, botapitest.Options{})
	whole := post(s, "getMe", "")
	id := addFault(t, s, botapitest.Fault{Act: botapitest.FaultAnswer, Answer: &botapitest.Answer{Status: 500}})
	addFault(t, s, botapitest.Fault{Act: botapitest.FaultAnswer, Answer: &botapitest.Answer{Status: 501}})
	if !s.RemoveFault(id) || s.RemoveFault(id) {
		t.Error("RemoveFault did not remove once")
	}
	wantEqual(t, "the other", post(s, "getMe", ""), "501 ")
	s.ClearFaults()
	wantEqual(t, "none", post(s, "getMe", ""), whole)
	for _, f := range []botapitest.Fault{{}, {Act: "x"}, {Act: botapitest.FaultAnswer}, {Act: botapitest.FaultCut, Probability: 2}, {Act: botapitest.FaultCut, Times: -1}} {
		if _, err := s.AddFault(f); err == nil {
			t.Errorf("%+v was taken", f)
		}
	}
}

// F1: the slot stays taken after the process that polled died.
func TestSlotIsTakenAfterDisconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, botapitest.Options{NoLimits: true})
		addFault(t, s, botapitest.Fault{
			Method: "getUpdates", Act: botapitest.FaultConflict, AfterDisconnect: true, For: 55 * time.Second,
		})
		ctx, crash := context.WithCancel(t.Context())
		gone := make(chan any)
		go func() {
			defer func() { gone <- recover() }()
			do(s, request("getUpdates", "timeout=50").WithContext(ctx))
		}()
		time.Sleep(time.Second)
		crash()
		<-gone
		begin := time.Now()
		wantEqual(t, "at once", post(s, "getUpdates", "timeout=1"), conflict)
		wantEqual(t, "soon after", post(s, "getUpdates", "timeout=1"), conflict)
		if late := time.Since(begin); late != 3*time.Second {
			t.Errorf("answered after %v, want 3s", late)
		}
		time.Sleep(51 * time.Second)
		wantEqual(t, "at the end", post(s, "getUpdates", "timeout=1"), conflict)
		time.Sleep(time.Second)
		wantEqual(t, "when it is over", post(s, "getUpdates", "timeout=1"), empty)
	})
}

func TestEndPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, botapitest.Options{})
		answer := make(chan string, 1)
		go func() { answer <- post(s, "getUpdates", "timeout=50") }()
		synctest.Wait()
		restart := `{"ok":false,"error_code":500,"description":"Internal Server Error: restart"}`
		s.EndPolls(botapitest.Answer{Status: 500, Body: []byte(restart)})
		wantEqual(t, "poll", <-answer, "500 "+restart)
		s.EndPolls(botapitest.Answer{}) // nobody waits
	})
}

func TestCloseEndsEverything(t *testing.T) {
	s := newServer(t, botapitest.Options{})
	url, client := start(t, s)
	addFault(t, s, botapitest.Fault{Method: "getMe", Act: botapitest.FaultStall})
	errs := make(chan error, 2)
	for _, path := range []string{"getMe", "getUpdates?timeout=50"} {
		go func() {
			_, err := client.Get(url + path)
			errs <- err
		}()
	}
	for i := range 2 {
		if _, err := s.WaitEvent(t.Context(), uint64(i), func(e botapitest.Event) bool { return e.Kind == botapitest.EventBegin }); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	s.Close()
	for range 2 {
		if err := <-errs; err == nil {
			t.Error("a request was answered")
		}
	}
	if _, err := s.Start(""); !errors.Is(err, botapitest.ErrClosed) {
		t.Errorf("start after close: %v", err)
	}
}

// F32: the server is away, and comes back at the same address.
func TestRestartAtTheSameAddress(t *testing.T) {
	s := newServer(t, botapitest.Options{NoLimits: true})
	say(t, s, "a")
	running, err := s.Start("")
	if err != nil {
		t.Fatal(err)
	}
	running.Close()
	url, client := running.URL+"/bot"+botapitest.DefaultToken+"/getUpdates", &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if _, err := client.Get(url); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("while away: %v", err)
	}
	if _, err := s.Start(strings.TrimPrefix(running.URL, "http://")); err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(response.Body)
	response.Body.Close()
	wantEqual(t, "updates", ids(t, "200 "+string(body)), "100")
}
