package botapitest_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tgbridge/internal/botapitest"
)

const (
	group     = -4019283746
	forum     = -1002040506078
	migrated  = -4019283747
	blocked   = 412907733
	newGroup  = -1001557912345
	lastTopic = 77
)

// newWorld makes a server whose bot knows a private chat with topic 12, a
// group, a forum with topics 77 and 78 (closed) and message 82 in General, a
// group that migrated and a user who blocked the bot.
func newWorld(t *testing.T) *botapitest.Server {
	s := newServer(t, botapitest.Options{NoLimits: true})
	s.SetChat(botapitest.Chat{ID: chat, FirstName: "Mira"})
	s.AddTopic(chat, 12, "Private")
	s.SetChat(botapitest.Chat{ID: group, Title: "Bench crew"})
	s.SetChat(botapitest.Chat{ID: forum, Title: "Workshop", IsForum: true})
	s.AddTopic(forum, 77, "Bearings")
	s.AddTopic(forum, 78, "Closed")
	wantEqual(t, "close", post(s, "closeForumTopic", form("chat_id", fmt.Sprint(forum), "message_thread_id", "78")), `200 {"ok":true,"result":true}`)
	if _, err := s.Inject([]byte(`{"update_id":50,"message":{"message_id":82,"from":{"id":5},"chat":{"id":-1002040506078,"type":"supergroup","is_forum":true},"date":1,"text":"in General"}}`)); err != nil {
		t.Fatal(err)
	}
	s.SetChat(botapitest.Chat{ID: migrated, Title: "Old", MigratedTo: newGroup})
	s.SetChat(botapitest.Chat{ID: blocked, Forbidden: "Forbidden: bot was blocked by the user"})
	return s
}

func bad(description string) string {
	b, _ := json.Marshal(description)
	return `400 {"ok":false,"error_code":400,"description":` + string(b) + `}`
}

func TestSendMessageRefusals(t *testing.T) {
	tests := []struct{ name, arguments, want string }{
		{"no chat", "text=a", bad("Bad Request: chat_id is empty")},
		{"unknown chat", "chat_id=99&text=a", bad("Bad Request: chat not found")},
		{"no number", "chat_id=abc&text=a", bad("Bad Request: chat not found")},
		{"unknown name", "chat_id=@nobody&text=a", bad("Bad Request: chat not found")},
		{"F21 migrated", "chat_id=-4019283747&text=a", `400 {"ok":false,"error_code":400,"description":"Bad Request: group chat was upgraded to a supergroup chat","parameters":{"migrate_to_chat_id":-1001557912345}}`},
		{"blocked", "chat_id=412907733&text=a", `403 {"ok":false,"error_code":403,"description":"Forbidden: bot was blocked by the user"}`},
		{"no text", "chat_id=5018594437", bad("Bad Request: message text is empty")},
		{"blanks", "chat_id=5018594437&text=+%0a+", bad("Bad Request: text must be non-empty")},
		{"4097 units", "chat_id=5018594437&text=" + strings.Repeat("a", 4097), bad("Bad Request: message is too long")},
		{"2049 emoji are 4098 units", "chat_id=5018594437&text=" + strings.Repeat("%F0%9F%9A%A2", 2049), bad("Bad Request: message is too long")},
		{"F60 deleted topic", "chat_id=-1002040506078&text=a&message_thread_id=79", bad("Bad Request: message thread not found")},
		{"F60 General as 1", "chat_id=-1002040506078&text=a&message_thread_id=1", bad("Bad Request: message thread not found")},
		{"F60 reply thread", "chat_id=-1002040506078&text=a&message_thread_id=82", bad("Bad Request: message thread not found")},
		{"F60 no private topic", "chat_id=5018594437&text=a&message_thread_id=13", bad("Bad Request: message thread not found")},
		{"no topics in groups", "chat_id=-4019283746&text=a&message_thread_id=7", bad("Bad Request: message thread not found")},
		{"closed topic", "chat_id=-1002040506078&text=a&message_thread_id=78", bad("Bad Request: TOPIC_CLOSED")},
		{"reply to nothing", "chat_id=5018594437&text=a&reply_to_message_id=400", bad("Bad Request: message to be replied not found")},
		{"reply parameters to nothing", `chat_id=5018594437&text=a&reply_parameters={"message_id":400}`, bad("Bad Request: message to be replied not found")},
		{"reply parameters are no object", "chat_id=5018594437&text=a&reply_parameters=7", bad("Bad Request: can't parse reply parameters JSON object")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantEqual(t, "answer", post(newWorld(t), "sendMessage", tt.arguments), tt.want)
		})
	}
}

func TestSendMessagePrint(t *testing.T) {
	const (
		bot      = `"from":{"id":8112046593,"is_bot":true,"first_name":"Lantern","username":"lantern_bridge_bot"}`
		private  = `"chat":{"id":5018594437,"first_name":"Mira","type":"private"}`
		workshop = `"chat":{"id":-1002040506078,"title":"Workshop","is_forum":true,"type":"supergroup"}`
		// synctest begins at midnight of 2000-01-01.
		date  = `"date":946684800`
		begin = `200 {"ok":true,"result":{`
	)
	tests := []struct{ name, arguments, want string }{
		{"escapes", "chat_id=5018594437&text=" + "%D0%9F+%F0%9F%9A%A2+%3C%22/%5C%09%7F%01%3E",
			begin + `"message_id":1,` + bot + `,` + private + `,` + date + `,"text":"\u041f \ud83d\udea2 <\"/\\\t` + "\x7f" + `\u0001>"}}`},
		{"blanks around go", "chat_id=5018594437&text=++a+b%0a", begin + `"message_id":1,` + bot + `,` + private + `,` + date + `,"text":"a b"}}`},
		{"F14 in a topic", "chat_id=-1002040506078&text=a&message_thread_id=77",
			begin + `"message_id":83,` + bot + `,` + workshop + `,` + date + `,"message_thread_id":77,"reply_to_message":{"message_id":77,` + workshop + `,` + date + `,"message_thread_id":77,"forum_topic_created":{"name":"Bearings","icon_color":7322096},"is_topic_message":true},"text":"a","is_topic_message":true}}`},
		{"F60 General", "chat_id=-1002040506078&text=a", begin + `"message_id":83,` + bot + `,` + workshop + `,` + date + `,"text":"a"}}`},
		{"a reply", "chat_id=-1002040506078&text=a&reply_to_message_id=82",
			begin + `"message_id":83,` + bot + `,` + workshop + `,` + date + `,"reply_to_message":{"message_id":82,` + workshop + `,"date":1,"text":"in General"},"text":"a"}}`},
		{"a reply to nothing, allowed", `chat_id=5018594437&text=a&reply_parameters={"message_id":400,"allow_sending_without_reply":true}`,
			begin + `"message_id":1,` + bot + `,` + private + `,` + date + `,"text":"a"}}`},
		{"F60 private topic", "chat_id=5018594437&text=a&message_thread_id=12",
			begin + `"message_id":1,` + bot + `,` + private + `,` + date + `,"message_thread_id":12,"reply_to_message":{"message_id":12,` + private + `,` + date + `,"message_thread_id":12,"forum_topic_created":{"name":"Private","icon_color":7322096},"is_topic_message":true},"text":"a","is_topic_message":true}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wantEqual(t, "answer", post(newWorld(t), "sendMessage", tt.arguments), tt.want)
			})
		})
	}
}

func TestLongestTextPasses(t *testing.T) {
	s := newWorld(t)
	for name, text := range map[string]string{"ASCII": strings.Repeat("a", 4096), "emoji": strings.Repeat("🚢", 2048)} {
		if answer := post(s, "sendMessage", form("chat_id", fmt.Sprint(chat), "text", text)); !strings.HasPrefix(answer, "200 ") {
			t.Errorf("%s: %s", name, answer)
		}
	}
}

// Each row does its calls in order on one server; message 1 is the bot's, 82
// in the forum a user's.
func TestOtherMethods(t *testing.T) {
	const ok = `200 {"ok":true,"result":true}`
	tests := []struct {
		name  string
		calls []string // "method arguments -> answer"
	}{
		{"edit", []string{
			"editMessageText chat_id=5018594437&message_id=1&text=b -> 200 *",
			"editMessageText chat_id=5018594437&message_id=1&text=b -> " + bad("Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message"),
			"editMessageText chat_id=5018594437&message_id=9&text=b -> " + bad("Bad Request: message to edit not found"),
			"editMessageText chat_id=-1002040506078&message_id=82&text=b -> " + bad("Bad Request: message can't be edited"),
			"editMessageText chat_id=5018594437&message_id=1&text=" + strings.Repeat("a", 4097) + " -> " + bad("Bad Request: MESSAGE_TOO_LONG"),
			"editMessageText inline_message_id=x&text=b -> " + ok,
		}},
		{"delete", []string{
			"deleteMessage chat_id=5018594437&message_id=1 -> " + ok,
			"deleteMessage chat_id=5018594437&message_id=1 -> " + bad("Bad Request: message to delete not found"),
			"deleteMessage chat_id=-1002040506078&message_id=82 -> " + bad("Bad Request: message can't be deleted for everyone"),
			"editMessageText chat_id=5018594437&message_id=1&text=b -> " + bad("Bad Request: message to edit not found"),
		}},
		{"chat action", []string{
			"sendChatAction chat_id=5018594437&action=typing -> " + ok,
			"sendChatAction chat_id=-1002040506078&action=typing&message_thread_id=77 -> " + ok,
			"sendChatAction chat_id=-1002040506078&action=typing&message_thread_id=79 -> " + bad("Bad Request: message thread not found"),
			"sendChatAction chat_id=99&action=typing -> " + bad("Bad Request: chat not found"),
			"sendChatAction chat_id=5018594437&action=dancing -> " + bad("Bad Request: wrong parameter action in request"),
		}},
		{"topics", []string{
			`createForumTopic chat_id=-1002040506078&name=New -> 200 {"ok":true,"result":{"message_thread_id":83,"name":"New","icon_color":7322096}}`,
			"sendMessage chat_id=-1002040506078&message_thread_id=83&text=a -> 200 *",
			"closeForumTopic chat_id=-1002040506078&message_thread_id=83 -> " + ok,
			"closeForumTopic chat_id=-1002040506078&message_thread_id=83 -> " + bad("Bad Request: TOPIC_NOT_MODIFIED"),
			"sendMessage chat_id=-1002040506078&message_thread_id=83&text=a -> " + bad("Bad Request: TOPIC_CLOSED"),
			"reopenForumTopic chat_id=-1002040506078&message_thread_id=83 -> " + ok,
			"closeForumTopic chat_id=-1002040506078&message_thread_id=4 -> " + bad("Bad Request: message thread not found"),
			"createForumTopic chat_id=-4019283746&name=New -> " + bad("Bad Request: the chat is not a forum"),
			`createForumTopic chat_id=5018594437&name=Mine -> 200 *`,
			"createForumTopic chat_id=-1002040506078&name= -> " + bad("Bad Request: TOPIC_TITLE_INVALID"),
			"createForumTopic chat_id=-1002040506078&name=" + strings.Repeat("n", 129) + " -> " + bad("Bad Request: TOPIC_TITLE_INVALID"),
		}},
		{"unknown methods", []string{
			`sendMessageDraft chat_id=5018594437 -> 404 {"ok":false,"error_code":404,"description":"Not Found: method not found"}`,
			`GETME  -> 200 *`,
		}},
		{"webhook", []string{
			`getWebhookInfo  -> 200 {"ok":true,"result":{"url":"","has_custom_certificate":false,"pending_update_count":1}}`,
			`deleteWebhook  -> 200 {"ok":true,"result":true,"description":"Webhook is already deleted"}`,
			`setWebhook url=http://example.org -> ` + bad("Bad Request: bad webhook: An HTTPS URL must be provided for webhook"),
			`setWebhook url=https://example.org/h&allowed_updates=["poll"] -> 200 {"ok":true,"result":true,"description":"Webhook was set"}`,
			`setWebhook url=https://example.org/h -> 200 {"ok":true,"result":true,"description":"Webhook is already set"}`,
			`getWebhookInfo  -> 200 {"ok":true,"result":{"url":"https://example.org/h","has_custom_certificate":false,"pending_update_count":1,"max_connections":40,"allowed_updates":["poll"]}}`,
			`getUpdates  -> ` + hookActive,
			`deleteWebhook drop_pending_updates=true -> 200 {"ok":true,"result":true,"description":"Webhook was deleted"}`,
			`getUpdates  -> ` + empty,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newWorld(t)
			post(s, "sendMessage", "chat_id=5018594437&text=a")
			for _, line := range tt.calls {
				called, want, _ := strings.Cut(line, " -> ")
				method, arguments, _ := strings.Cut(called, " ")
				answer := post(s, method, arguments)
				if want == "200 *" {
					answer = answer[:min(4, len(answer))] + "*"
				}
				wantEqual(t, called, answer, want)
			}
		})
	}
}

func TestSendDocument(t *testing.T) {
	const (
		begin = `200 {"ok":true,"result":{"message_id":1,"from":{"id":8112046593,"is_bot":true,"first_name":"Lantern","username":"lantern_bridge_bot"},"chat":{"id":5018594437,"first_name":"Mira","type":"private"},"date":946684800,"document":`
		file  = `{"file_name":"a.txt","mime_type":"text/plain","file_id":"BQACAgIAAxkDAAbotapitest000000000005","file_unique_id":"AgADbotapitest000005","file_size":5}`
	)
	part := func(head, content string) string {
		return "--b\r\nContent-Disposition: form-data; " + head + "\r\n\r\n" + content + "\r\n"
	}
	chatPart := part(`name="chat_id"`, "5018594437")
	attached := part(`name="document"; filename="a.txt"`, "hello")
	tests := []struct{ name, body, want string }{
		{"a file", attached, begin + file + "}}"},
		{"with a caption", attached + part(`name="caption"`, "look"), begin + file + `,"caption":"look"}}`},
		{"by attach://", part(`name="document"`, "attach://f") + part(`name="f"; filename="a.txt"`, "hello"), begin + file + "}}"},
		{"nothing", "", bad("Bad Request: there is no document in the request")},
		{"an id", part(`name="document"`, "BQAC"), bad("Bad Request: wrong file identifier/HTTP URL specified")},
		{"no bytes", part(`name="document"; filename="a.txt"`, ""), bad("Bad Request: file must be non-empty")},
		{"a long caption", attached + part(`name="caption"`, strings.Repeat("a", 1025)), bad("Bad Request: message caption is too long")},
		{"over 50 MB", part(`name="document"; filename="a.txt"`, strings.Repeat("a", 50<<20+1)), `413 {"ok":false,"error_code":413,"description":"Request Entity Too Large"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newWorld(t)
				r := httptest.NewRequest("POST", "/bot"+botapitest.DefaultToken+"/sendDocument", strings.NewReader(chatPart+tt.body+"--b--\r\n"))
				r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
				wantEqual(t, "answer", got(do(s, r)), tt.want)
			})
		})
	}
}

func TestAnswerCallbackQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const query = `{"update_id":%d,"callback_query":{"id":"%s","from":{"id":5},"message":{"message_id":4,"chat":{"id":5,"type":"private"},"date":1}}}`
		tooOld := bad("Bad Request: query is too old and response timeout expired or query ID is invalid")
		s := newServer(t, botapitest.Options{})
		for i, id := range []string{"in time", "late"} {
			if _, err := s.Inject(fmt.Appendf(nil, query, 100+i, id)); err != nil {
				t.Fatal(err)
			}
		}
		wantEqual(t, "unknown", post(s, "answerCallbackQuery", "callback_query_id=x"), tooOld)
		wantEqual(t, "in time", post(s, "answerCallbackQuery", "callback_query_id=in+time"), `200 {"ok":true,"result":true}`)
		wantEqual(t, "again", post(s, "answerCallbackQuery", "callback_query_id=in+time"), tooOld)
		time.Sleep(61 * time.Second)
		wantEqual(t, "late", post(s, "answerCallbackQuery", "callback_query_id=late"), tooOld)
	})
}

func TestWebhookEndsPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, botapitest.Options{})
		answer := make(chan string, 1)
		go func() { answer <- post(s, "getUpdates", "timeout=50") }()
		synctest.Wait()
		post(s, "setWebhook", "url=https://example.org/h")
		wantEqual(t, "poll", <-answer, hookConflict)
		begin := time.Now()
		wantEqual(t, "next poll", post(s, "getUpdates", "timeout=50"), hookActive)
		if late := time.Since(begin); late != 3*time.Second {
			t.Errorf("answered after %v, want 3s", late)
		}
	})
}
