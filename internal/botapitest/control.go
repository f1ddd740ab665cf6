package botapitest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// maxControl is the most that a control's body may hold: 100,000 updates.
const maxControl = 256 << 20

// control answers one of the paths under /control/: with an object to be
// printed as JSON, or an error for status 400.
type control func(s *Server, b *Bot, r *http.Request) (any, error)

// controls are POSTed JSON objects unless said otherwise. All take ?bot=ID;
// without it they act for the first bot.
var controls = map[string]control{
	"POST /control/update":    controlUpdate,  // one raw update
	"POST /control/updates":   controlUpdates, // raw updates, one a line
	"POST /control/message":   controlMessage, // Message
	"POST /control/messages":  controlMessages,
	"POST /control/chat":      controlChat,  // Chat
	"POST /control/topic":     controlTopic, // {chat, thread, name}
	"POST /control/fault":     controlFault, // see faultJSON
	"DELETE /control/fault":   controlNoFault,
	"POST /control/webhook":   controlWebhook, // {url}
	"POST /control/limits":    controlLimits,  // {on}
	"POST /control/ids":       controlIDs,     // {first}
	"POST /control/end_polls": controlEndPolls,
	"DELETE /control/ledger":  controlForget, // ?upto=SEQ
	"GET /control/state":      controlState,
}

func (s *Server) serveControl(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxControl)
	b, err := s.controlledBot(r)
	if err != nil {
		writeControl(w, nil, err)
		return
	}
	if r.Method == http.MethodGet && r.URL.Path == "/control/ledger" {
		s.serveLedger(w, r)
		return
	}
	do, ok := controls[r.Method+" "+r.URL.Path]
	if !ok {
		http.Error(w, `{"ok":false,"error":"no such control"}`, http.StatusNotFound)
		return
	}
	result, err := do(s, b, r)
	writeControl(w, result, err)
}

func (s *Server) controlledBot(r *http.Request) (*Bot, error) {
	text := r.URL.Query().Get("bot")
	if text == "" {
		return s.Bot, nil
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || s.bots[id] == nil {
		return nil, fmt.Errorf("no bot %q", text)
	}
	return s.bots[id], nil
}

func writeControl(w http.ResponseWriter, result any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		result = map[string]any{"ok": false, "error": err.Error()}
	} else if result == nil {
		result = map[string]any{"ok": true}
	}
	_ = json.NewEncoder(w).Encode(result)
}

func decode(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	return nil
}

func injectedIDs(ids []int64, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return map[string]any{"ok": true, "update_ids": ids}, nil
}

func controlUpdate(_ *Server, b *Bot, r *http.Request) (any, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if text := r.URL.Query().Get("id"); text != "" {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read id: %w", err)
		}
		return injectedIDs([]int64{id}, b.InjectAs(id, raw))
	}
	id, err := b.Inject(raw)
	return injectedIDs([]int64{id}, err)
}

func controlUpdates(_ *Server, b *Bot, r *http.Request) (any, error) {
	var raws [][]byte
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, maxBody)
	for lines.Scan() {
		if len(lines.Bytes()) > 0 {
			raws = append(raws, append([]byte(nil), lines.Bytes()...))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read updates: %w", err)
	}
	return injectedIDs(b.InjectAll(raws))
}

func controlMessage(_ *Server, b *Bot, r *http.Request) (any, error) {
	var m Message
	if err := decode(r, &m); err != nil {
		return nil, err
	}
	id, err := b.Say(m)
	return injectedIDs([]int64{id}, err)
}

func controlMessages(_ *Server, b *Bot, r *http.Request) (any, error) {
	var messages []Message
	if err := decode(r, &messages); err != nil {
		return nil, err
	}
	return injectedIDs(b.SayAll(messages))
}

func controlChat(_ *Server, b *Bot, r *http.Request) (any, error) {
	var c Chat
	if err := decode(r, &c); err != nil {
		return nil, err
	}
	b.SetChat(c)
	return nil, nil
}

func controlTopic(_ *Server, b *Bot, r *http.Request) (any, error) {
	var t struct {
		Chat, Thread int64
		Name         string
	}
	if err := decode(r, &t); err != nil {
		return nil, err
	}
	b.AddTopic(t.Chat, t.Thread, t.Name)
	return nil, nil
}

// faultJSON is a Fault in JSON; durations are written as in Go ("1m30s"), the
// answer as Answer.UnmarshalJSON has it.
type faultJSON struct {
	ID              string  `json:"id"`
	Method          string  `json:"method"`
	Bot             int64   `json:"bot"`
	Chat            int64   `json:"chat"`
	Skip            int     `json:"skip"`
	Times           int     `json:"times"`
	For             string  `json:"for"`
	Probability     float64 `json:"probability"`
	AfterDisconnect bool    `json:"after_disconnect"`
	Latency         string  `json:"latency"`
	Act             string  `json:"act"`
	Effect          bool    `json:"effect"`
	Answer          *Answer `json:"answer"`
	Bytes           int     `json:"bytes"`
	Every           string  `json:"every"`
	Reset           bool    `json:"reset"`
}

func controlFault(s *Server, _ *Bot, r *http.Request) (any, error) {
	var j faultJSON
	if err := decode(r, &j); err != nil {
		return nil, err
	}
	f := Fault{
		ID: j.ID, Method: j.Method, Bot: j.Bot, Chat: j.Chat, Skip: j.Skip, Times: j.Times,
		Probability: j.Probability, AfterDisconnect: j.AfterDisconnect,
		Act: FaultAct(j.Act), Effect: j.Effect, Answer: j.Answer, Bytes: j.Bytes, Reset: j.Reset,
	}
	var errs [3]error
	f.For, errs[0] = duration("for", j.For)
	f.Latency, errs[1] = duration("latency", j.Latency)
	f.Every, errs[2] = duration("every", j.Every)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	id, err := s.AddFault(f)
	return map[string]any{"ok": true, "id": id}, err
}

func duration(name, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	return d, nil
}

func controlNoFault(s *Server, _ *Bot, r *http.Request) (any, error) {
	if id := r.URL.Query().Get("id"); id == "" {
		s.ClearFaults()
	} else if !s.RemoveFault(id) {
		return nil, fmt.Errorf("no fault %q", id)
	}
	return nil, nil
}

func controlWebhook(_ *Server, b *Bot, r *http.Request) (any, error) {
	var w struct{ URL string }
	if err := decode(r, &w); err != nil {
		return nil, err
	}
	b.SetWebhook(w.URL)
	return nil, nil
}

func controlLimits(s *Server, _ *Bot, r *http.Request) (any, error) {
	var l struct{ On bool }
	if err := decode(r, &l); err != nil {
		return nil, err
	}
	s.SetLimits(l.On)
	return nil, nil
}

func controlIDs(_ *Server, b *Bot, r *http.Request) (any, error) {
	var i struct{ First int64 }
	if err := decode(r, &i); err != nil {
		return nil, err
	}
	if err := b.ChooseIDsAnew(i.First); err != nil {
		return nil, err
	}
	return map[string]any{"ok": true, "next_update_id": b.NextUpdateID()}, nil
}

func controlEndPolls(_ *Server, b *Bot, r *http.Request) (any, error) {
	var a Answer
	if err := decode(r, &a); err != nil {
		return nil, err
	}
	b.EndPolls(a)
	return nil, nil
}

func controlForget(s *Server, _ *Bot, r *http.Request) (any, error) {
	upto, err := strconv.ParseUint(r.URL.Query().Get("upto"), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read upto: %w", err)
	}
	s.ForgetLedger(upto)
	return nil, nil
}

func controlState(s *Server, b *Bot, _ *http.Request) (any, error) {
	return map[string]any{
		"ok": true, "bot": b.ID(), "pending": b.Pending(), "next_update_id": b.NextUpdateID(), "now_ns": s.Now(),
	}, nil
}

// serveLedger prints the events after ?since=SEQ as JSON lines. With
// ?wait=DURATION it waits so long for one if there is none yet. A ledger that
// is full ends with its EventFull.
func (s *Server) serveLedger(w http.ResponseWriter, r *http.Request) {
	since, _ := strconv.ParseUint(r.URL.Query().Get("since"), 10, 64)
	wait, err := duration("wait", r.URL.Query().Get("wait"))
	if err != nil {
		writeControl(w, nil, err)
		return
	}
	if wait > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), wait)
		defer cancel()
		_, _ = s.WaitEvent(ctx, since, func(Event) bool { return true })
	}
	events, _ := s.Ledger(since)
	w.Header().Set("Content-Type", "application/jsonl")
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	for i := range events {
		if lines.Encode(&events[i]) != nil {
			return
		}
	}
}
