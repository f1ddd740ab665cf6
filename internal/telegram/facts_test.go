package telegram_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tgbridge/internal/telegram"
)

// mira is the one user who is allowed in these tests.
const mira = 5018594437

var access = telegram.Access{Users: map[int64]struct{}{mira: {}}}

// TestUpdates checks facts, lane and verdict of every line of updates.jsonl
// against testdata/facts.txt, whose lines were checked one by one (F14, F21,
// F60, F62, G9).
func TestUpdates(t *testing.T) {
	updates, want := lines(t, "updates.jsonl"), lines(t, "facts.txt")
	if len(updates) != len(want) {
		t.Fatalf("%d updates, %d lines of facts", len(updates), len(want))
	}
	for i, update := range updates {
		facts, err := telegram.Inspect([]byte(update))
		if err != nil {
			t.Errorf("%s: %v", want[i], err)
			continue
		}
		if got := render(facts); got != want[i] {
			t.Errorf("got  %s\nwant %s", got, want[i])
		}
		if !(telegram.Access{All: true}).Allows(facts) {
			t.Errorf("%s: denied although all are allowed", want[i])
		}
		if (telegram.Access{}).Allows(facts) {
			t.Errorf("%s: allowed although nobody is", want[i])
		}
	}
}

// render prints the numbers of facts, lane and verdict in one line.
func render(f telegram.Facts) string {
	words := []string{strconv.FormatInt(f.UpdateID, 10), f.Kind}
	if f.Kind == "" {
		words[1] = "-"
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"user", f.UserID}, {"sender_chat", f.SenderChatID}, {"chat", f.ChatID}, {"thread", f.ThreadID}, {"message", f.MessageID}} {
		if n.value != 0 {
			words = append(words, fmt.Sprintf("%s=%d", n.name, n.value))
		}
	}
	verdict := "denied"
	if access.Allows(f) {
		verdict = "ALLOWED"
	}
	return strings.Join(append(words, f.Lane, verdict), " ")
}

// TestInspect checks facts that no line of updates.jsonl shows, and shapes
// that Telegram does not send.
func TestInspect(t *testing.T) {
	const from = `"from":{"id":5018594437,"username":"mira_okon"}`
	user := telegram.Facts{UpdateID: 7, Kind: "message", UserID: mira, Username: "mira_okon"}
	with := func(change func(f *telegram.Facts)) telegram.Facts {
		f := user
		change(&f)
		return f
	}
	tests := []struct {
		name, raw string
		want      telegram.Facts
	}{
		{
			"text before caption", `{"update_id":7,"message":{` + from + `,"chat":{"id":1},"caption":"c","text":"t\n\ud83d\udea2"}}`,
			with(func(f *telegram.Facts) { f.ChatID, f.Text, f.Lane = 1, "t\n🚢", "chat:1" }),
		},
		{
			"caption", `{"update_id":7,"message":{` + from + `,"chat":{"id":1},"caption":"c"}}`,
			with(func(f *telegram.Facts) { f.ChatID, f.Text, f.Lane = 1, "c", "chat:1" }),
		},
		{
			"text that is not UTF-8", "{\"update_id\":7,\"message\":{" + from + ",\"chat\":{\"id\":1},\"text\":\"a\xffb\"}}",
			with(func(f *telegram.Facts) { f.ChatID, f.Text, f.Lane = 1, "a\uFFFDb", "chat:1" }),
		},
		{
			"text of another type", `{"update_id":7,"message":{` + from + `,"chat":{"id":1},"text":5}}`,
			with(func(f *telegram.Facts) { f.ChatID, f.Lane = 1, "chat:1" }),
		},
		{
			"F21 the largest numbers", `{"update_id":9223372036854775806,"message":{"message_id":9223372036854775807,"from":{"id":9223372036854775807},"chat":{"id":-9223372036854775808}}}`,
			telegram.Facts{
				UpdateID: 9223372036854775806, Kind: "message", UserID: 9223372036854775807,
				ChatID: -9223372036854775808, MessageID: 9223372036854775807, Lane: "chat:-9223372036854775808",
			},
		},
		{
			"repeated members: the last counts", `{"update_id":6,"message":{"from":{"id":1}},"update_id":7,"message":{"chat":{"id":1,"id":2},"chat":{"id":3},` + from + `}}`,
			with(func(f *telegram.Facts) { f.ChatID, f.Lane = 3, "chat:3" }),
		},
		{
			"names with escapes", `{"update\u005fid":7,"m\u0065ssage":{"\u0066rom":{"\u0069d":5018594437,"username":"mira_okon"}}}`,
			with(func(f *telegram.Facts) { f.Kind, f.Lane = "message", "user:5018594437" }),
		},
		{
			"blanks and unknown members", " {\n\"a\":[1,{\"b\":\"]}\\\"\"}], \"update_id\" :\t7 ,\"message\": { " + from + " , \"n\":-25000000000.0e+9,\"chat\" : { \"id\" : 1 } } }\r\n",
			with(func(f *telegram.Facts) { f.ChatID, f.Lane = 1, "chat:1" }),
		},
		{
			"null is absent", `{"update_id":7,"edited_message":null,"message":{` + from + `,"sender_chat":null,"chat":{"id":1},"message_id":null,"message_thread_id":null,"is_topic_message":null}}`,
			with(func(f *telegram.Facts) { f.ChatID, f.Lane = 1, "chat:1" }),
		},
		{
			"F60 General by its number", `{"update_id":7,"message":{` + from + `,"chat":{"id":-100,"type":"supergroup"},"message_thread_id":1,"is_topic_message":true}}`,
			with(func(f *telegram.Facts) { f.ChatID, f.Lane = -100, "chat:-100" }),
		},
		{
			"F60 private topic 12", `{"update_id":7,"message":{` + from + `,"chat":{"id":5018594437,"type":"private"},"message_thread_id":12,"is_topic_message":true}}`,
			with(func(f *telegram.Facts) { f.ChatID, f.ThreadID, f.Lane = mira, 12, "chat:5018594437/12" }),
		},
		{
			"F60 no topic", `{"update_id":7,"message":{` + from + `,"chat":{"id":-100,"type":"supergroup"},"message_thread_id":77,"is_topic_message":false}}`,
			with(func(f *telegram.Facts) { f.ChatID, f.Lane = -100, "chat:-100" }),
		},
		{
			"F14 button in a topic", `{"update_id":7,"callback_query":{` + from + `,"message":{"message_id":5,"chat":{"id":-100,"type":"supergroup"},"message_thread_id":77,"is_topic_message":true,"text":"no text of the user's"}}}`,
			with(func(f *telegram.Facts) {
				f.Kind, f.ChatID, f.ThreadID, f.MessageID, f.Lane = "callback_query", -100, 77, 5, "chat:-100/77"
			}),
		},
		{
			"button of a business message", `{"update_id":7,"callback_query":{` + from + `,"message":{"message_id":5,"business_connection_id":"c/1","chat":{"id":9}}}}`,
			with(func(f *telegram.Facts) {
				f.Kind, f.ChatID, f.MessageID, f.BusinessConnection, f.Lane = "callback_query", 9, 5, "c/1", "business:c/1/9"
			}),
		},
		{
			"direct messages of a channel", `{"update_id":7,"message":{` + from + `,"chat":{"id":-100},"direct_messages_topic":{"topic_id":5018594437}}}`,
			with(func(f *telegram.Facts) {
				f.ChatID, f.DirectTopicID, f.Lane = -100, mira, "chat:-100/direct/5018594437"
			}),
		},
		{
			"sent by a bot in the name of a business", `{"update_id":7,"business_message":{` + from + `,"sender_business_bot":{"id":8112046593},"chat":{"id":9},"business_connection_id":"c"}}`,
			telegram.Facts{UpdateID: 7, Kind: "business_message", UserID: 8112046593, ChatID: 9, BusinessConnection: "c", Lane: "business:c/9"},
		},
		{
			"vote in a channel's name", `{"update_id":7,"poll_answer":{"poll_id":"1","voter_chat":{"id":-100},"user":{"id":136817688}}}`,
			telegram.Facts{UpdateID: 7, Kind: "poll_answer", UserID: 136817688, SenderChatID: -100, Lane: "update:7"},
		},
		{
			"boost without a user", `{"update_id":7,"chat_boost":{"chat":{"id":-100},"boost":{"source":{"source":"giveaway"}}}}`,
			telegram.Facts{UpdateID: 7, Kind: "chat_boost", ChatID: -100, Lane: "chat:-100"},
		},
		{
			"generation stopped in a group", `{"update_id":7,"stopped_message_generation":{"chat":{"id":-100,"type":"supergroup"},"message_thread_id":77}}`,
			telegram.Facts{UpdateID: 7, Kind: "stopped_message_generation", ChatID: -100, Lane: "chat:-100"},
		},
		{
			"unknown kind with a user", `{"update_id":7,"later":{"user":{"id":5018594437},"chat":"x","message_id":"y"}}`,
			telegram.Facts{UpdateID: 7, Kind: "later", UserID: mira, Lane: "user:5018594437"},
		},
		{
			"unknown kind, the sender's chat cannot be read", `{"update_id":7,"later":{"sender_chat":"x",` + from + `}}`,
			telegram.Facts{UpdateID: 7, Kind: "later", Lane: "update:7"},
		},
		{
			"known kind beside unknown members", `{"extra":{"from":{"id":1}},"update_id":7,"message":{` + from + `},"seq":9007199254740993}`,
			with(func(f *telegram.Facts) { f.Lane = "user:5018594437" }),
		},
		{"id alone", `{"update_id":0}`, telegram.Facts{Lane: "update:0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := telegram.Inspect([]byte(tt.raw))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnreadable is F10: what makes an update a dead letter.
func TestUnreadable(t *testing.T) {
	const rest = `"from":{"id":1},"chat":{"id":1}`
	tests := []struct {
		name, raw string
		hasID     bool
		reason    string
	}{
		{"F10 message id is a string", `{"update_id":7,"message":{"message_id":"x",` + rest + `}}`, true, "message.message_id is a string, want an integer of 64 bits"},
		{"message id is a fraction", `{"update_id":7,"message":{"message_id":1.5,` + rest + `}}`, true, "message.message_id is a number"},
		{"message id has an exponent", `{"update_id":7,"message":{"message_id":1e3,` + rest + `}}`, true, "message.message_id is a number"},
		{"message id is too large", `{"update_id":7,"message":{"message_id":9223372036854775808,` + rest + `}}`, true, "message.message_id is a number"},
		{"message id is an object", `{"update_id":7,"message":{"message_id":{},` + rest + `}}`, true, "message.message_id is an object"},
		{"F10 kind is a string", `{"update_id":7,"message":"x"}`, true, "message is a string, want an object"},
		{"kind is a list", `{"update_id":7,"poll":[]}`, true, "poll is a list"},
		{"two kinds", `{"update_id":7,"message":{` + rest + `},"edited_message":{` + rest + `}}`, true, "two kinds"},
		{"F10 sender is a number", `{"update_id":7,"message":{"from":5,"chat":{"id":1}}}`, true, "message.sender is a number, want an object"},
		{"sender has no id", `{"update_id":7,"message":{"from":{},"chat":{"id":1}}}`, true, "message.sender.id is nothing, want an id"},
		{"sender's id is a string", `{"update_id":7,"callback_query":{"from":{"id":"5018594437"}}}`, true, "callback_query.sender.id is a string"},
		{"sender's id is null", `{"update_id":7,"inline_query":{"from":{"id":null}}}`, true, "inline_query.sender.id is nothing"},
		{"sender's id is 0", `{"update_id":7,"inline_query":{"from":{"id":0}}}`, true, "inline_query.sender.id is a number"},
		{"voter is a list", `{"update_id":7,"poll_answer":{"user":[1]}}`, true, "poll_answer.sender is a list"},
		{"sender's chat is a string", `{"update_id":7,"message":{"sender_chat":"x",` + rest + `}}`, true, "message.sender_chat is a string"},
		{"sender's chat without an id", `{"update_id":7,"message":{"sender_chat":{},` + rest + `}}`, true, "message.sender_chat.id is nothing"},
		{"F10 chat is a boolean", `{"update_id":7,"message":{"chat":true}}`, true, "message.chat is a boolean"},
		{"chat's id is a string", `{"update_id":7,"message":{"chat":{"id":"-100"}}}`, true, "message.chat.id is a string"},
		{"F10 thread is a string", `{"update_id":7,"message":{"message_thread_id":"77",` + rest + `}}`, true, "message.message_thread_id is a string"},
		{"topic flag is a string", `{"update_id":7,"message":{"message_thread_id":77,"is_topic_message":"yes",` + rest + `}}`, true, "message.is_topic_message is a string, want a boolean"},
		{"direct topic is a number", `{"update_id":7,"message":{"direct_messages_topic":5,` + rest + `}}`, true, "message.direct_messages_topic is a number"},
		{"message of a button is a string", `{"update_id":7,"callback_query":{"from":{"id":1},"message":"x"}}`, true, "callback_query.message is a string"},
		{"message id of a button", `{"update_id":7,"callback_query":{"from":{"id":1},"message":{"message_id":[]}}}`, true, "callback_query.message.message_id is a list"},
		{"no id", `{"message":{` + rest + `}}`, false, "update_id is nothing, want an id"},
		{"id is a string", `{"update_id":"7","message":{` + rest + `}}`, false, "update_id is a string"},
		{"id is negative", `{"update_id":-7}`, false, "update_id is a number"},
		{"id has no successor", `{"update_id":9223372036854775807}`, false, "update_id is a number"},
		{"id over 64 bits", `{"update_id":99999999999999999999}`, false, "update_id is a number"},
		{"no object", `[7]`, false, "not a JSON object"},
		{"nothing", ``, false, "not a JSON object"},
		{"cut", `{"update_id":7,"message":{`, false, "not a JSON object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			facts, err := telegram.Inspect([]byte(tt.raw))
			var unreadable *telegram.UnreadableError
			if !errors.As(err, &unreadable) {
				t.Fatalf("error %v, want *UnreadableError", err)
			}
			if unreadable.HasID != tt.hasID || tt.hasID && (unreadable.ID != 7 || facts.UpdateID != 7) {
				t.Errorf("id %d, has id %v", unreadable.ID, unreadable.HasID)
			}
			if !strings.Contains(unreadable.Reason, tt.reason) {
				t.Errorf("reason %q, want %q in it", unreadable.Reason, tt.reason)
			}
			if !strings.Contains(err.Error(), unreadable.Reason) {
				t.Errorf("error %q", err)
			}
		})
	}
}

// TestAccess checks the verdicts that facts.txt does not show (F62, G9).
func TestAccess(t *testing.T) {
	const anonymousAdmin, channelBot, service = 1087968824, 136817688, 777000
	listed := telegram.Access{Users: map[int64]struct{}{mira: {}, anonymousAdmin: {}, channelBot: {}, service: {}, 0: {}}}
	tests := []struct {
		name  string
		facts telegram.Facts
		want  bool
	}{
		{"listed", telegram.Facts{UserID: mira}, true},
		{"F62 username like a listed one", telegram.Facts{UserID: 1, Username: "mira_okon"}, false},
		{"F62 in an allowed user's chat", telegram.Facts{UserID: 1, ChatID: mira}, false},
		{"F62 sender chat beside a listed user", telegram.Facts{UserID: mira, SenderChatID: -100}, false},
		{"anonymous administrator, listed", telegram.Facts{UserID: anonymousAdmin}, false},
		{"channel, listed", telegram.Facts{UserID: channelBot}, false},
		{"Telegram, listed", telegram.Facts{UserID: service}, false},
		{"nobody, listed", telegram.Facts{}, false},
		{"negative of a listed one", telegram.Facts{UserID: -mira}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := listed.Allows(tt.facts); got != tt.want {
				t.Errorf("Allows() = %v, want %v", got, tt.want)
			}
		})
	}
}

// FuzzInspect compares with encoding/json where the bytes are JSON, and checks
// that nothing else panics.
func FuzzInspect(f *testing.F) {
	for _, line := range lines(f, "updates.jsonl") {
		f.Add([]byte(line))
	}
	for _, seed := range []string{`{"update_id":7,"message":{"message_id":"x"}}`, `{"update_id":7,"callback_query":{"message":{"chat":{"id":-1}}}}`, `{"`, `{"a":"\`, `{"a":[}`, `{"update_id":`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		facts, err := telegram.Inspect(raw)
		if !bytes.Equal(raw, before) {
			t.Fatal("the update was changed")
		}
		access.Allows(facts)
		if err != nil {
			return
		}
		if !json.Valid(raw) {
			t.Fatal("accepted what is no JSON")
		}
		if facts.Lane == "" {
			t.Fatal("no lane")
		}
		update := object(raw)
		if want := number(t, update["update_id"]); facts.UpdateID != want {
			t.Fatalf("update id %d, want %d", facts.UpdateID, want)
		}
		if facts.Kind != "message" {
			return
		}
		message := object(update["message"])
		if want := number(t, message["message_id"]); facts.MessageID != want {
			t.Fatalf("message id %d, want %d", facts.MessageID, want)
		}
		if want := number(t, object(message["chat"])["id"]); facts.ChatID != want {
			t.Fatalf("chat id %d, want %d", facts.ChatID, want)
		}
		if chat := object(message["sender_chat"]); chat != nil {
			if want := number(t, chat["id"]); facts.SenderChatID != want {
				t.Fatalf("sender chat %d, want %d", facts.SenderChatID, want)
			}
		}
		if object(message["sender_business_bot"]) == nil {
			if want := number(t, object(message["from"])["id"]); facts.UserID != want {
				t.Fatalf("user id %d, want %d", facts.UserID, want)
			}
		}
	})
}

// object decodes an object, nil for anything else.
func object(raw []byte) map[string]json.RawMessage {
	var o map[string]json.RawMessage
	if json.Unmarshal(raw, &o) != nil {
		return nil
	}
	return o
}

// number decodes an integer, 0 for nothing.
func number(t *testing.T, raw []byte) int64 {
	t.Helper()
	if len(raw) == 0 {
		return 0
	}
	var n int64
	if err := json.Unmarshal(raw, &n); err != nil {
		t.Fatalf("accepted %s as a number", raw)
	}
	return n
}

func BenchmarkInspect(b *testing.B) {
	all := lines(b, "updates.jsonl")
	for _, tt := range []struct {
		name string
		line int
	}{{"message", 0}, {"topic", 15}, {"callback", 25}} {
		b.Run(tt.name, func(b *testing.B) {
			raw := []byte(all[tt.line])
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := telegram.Inspect(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
