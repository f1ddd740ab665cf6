// Package botapitest is a Bot API server for tests, demonstrations and
// development. It behaves as Telegram's does towards polling and sending, and
// where the two could differ it is the stricter one: a client that gets along
// with it gets along with Telegram.
//
// A [Server] is an [http.Handler] that serves the Bot API under /bot<token>/
// and, for other processes, its own controls under /control/. [Server.Start]
// puts it on a TCP address. Tests in the same process use the methods of
// Server, which acts for its first bot, and of [Bot] for others.
//
// # What it does as Telegram does
//
//   - getUpdates: confirmation by offset, for ever; negative offsets; offsets
//     far from the queue mean its head; limits; sticky allowed_updates that
//     decide when an update arrives; lives of updates; who ends whose poll
//     with 409; the text and delay of each conflict.
//   - sendMessage, sendDocument, editMessageText, deleteMessage,
//     sendChatAction, answerCallbackQuery, forum topics and webhooks: which
//     arguments are refused, and with which words.
//   - Rate limits, with 429 and retry_after (Options.NoLimits, SetLimits).
//   - Every spelling of arguments that clients use, and Telegram's own
//     spelling of JSON in answers. Updates injected raw are served byte for
//     byte.
//
// # What it does on demand
//
// A [Fault] answers in place of the Bot API, delays or cuts connections,
// before or after the effect of a call. The ledger ([Server.Ledger]) tells
// what happened, in order: every request, every message, which poll was handed
// which updates and which poll confirmed them.
//
// # Controls over HTTP
//
// All take ?bot=ID, the first bot without it, and answer {"ok":true,...}, or
// {"ok":false,"error":"..."} with status 400.
//
//	POST   /control/update    a raw update; with ?id=N any bytes, under that id
//	POST   /control/updates   raw updates, one a line
//	POST   /control/message   a [Message]: {"user":5,"chat":-7,"thread":3,"text":"hi"}
//	POST   /control/messages  a list of them
//	POST   /control/chat      a [Chat]: {"id":-1007,"is_forum":true}
//	POST   /control/topic     {"chat":-1007,"thread":3,"name":"Topic"}
//	POST   /control/fault     a [Fault]: {"method":"sendMessage","act":"answer","times":1,
//	                          "answer":{"status":502,"headers":{},"body":"..."}}; durations
//	                          are written as "1m30s"; an answer may have body_base64
//	DELETE /control/fault     ?id=ID, or all
//	POST   /control/webhook   {"url":"https://..."}, or "" for none
//	POST   /control/limits    {"on":false}
//	POST   /control/ids       {"first":0}: update ids are chosen anew
//	POST   /control/end_polls an answer for the poll that waits
//	GET    /control/ledger    ?since=SEQ&wait=10s: events as JSON lines, see [Event]
//	DELETE /control/ledger    ?upto=SEQ: forgets them
//	GET    /control/state     pending updates, next id, the server's clock
//
// # What it does not do
//
// Webhooks are remembered but nothing is delivered to them. Anything about
// media but sendDocument, inline mode and payments is answered as by a server
// that does not know the method. State is kept in memory only.
//
// # Goroutines
//
// A Server starts none for itself. Start runs one for the listener and net/http
// one for each connection; Running.Close and Server.Close wait for them all.
// All methods may be called concurrently.
//
// The rules are those of https://core.telegram.org/bots/api and, where that is
// silent, of the open-source server (tdlib/telegram-bot-api).
package botapitest
