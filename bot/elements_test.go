package bot_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"tgbridge/bot"
	"tgbridge/internal/botapitest"
)

// TestOneElementBlocksNoOther: whatever an element of an answer is, as long as
// quotes and brackets show where it ends, the others are handled and all are
// confirmed, also when it comes alone; it is a dead letter with a reason.
func TestOneElementBlocksNoOther(t *testing.T) {
	deep := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	const message = `"message":{"message_id":1,"from":{"id":42},"chat":{"id":42,"type":"private"},"text":"t","x":`
	tests := []struct{ name, body, reason string }{
		{"F10 deeper than encoding/json takes", `{"update_id":ID,` + message + deep(10_000) + `}}`, "nested"},
		{"F10 as deep, the id last", `{` + message + deep(10_000) + `},"update_id":ID}`, "nested"},
		{"F10 far deeper", `{"update_id":ID,` + message + deep(1_000_000) + `}}`, "nested"},
		{"F10 a control character in a string", `{"update_id":ID,` + message + "\"\x01\"}}", "no JSON"},
		{"F10 no escape", `{"update_id":ID,` + message + `"\x41"}}`, "no JSON"},
		{"F10 no number", `{"update_id":ID,` + message + `NaN}}`, "no JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, server := newFleet(t)
			inject := func() {
				id := server.NextUpdateID()
				if err := server.InjectAs(id, []byte(strings.Replace(tt.body, "ID", fmt.Sprint(id), 1))); err != nil {
					t.Fatal(err)
				}
			}
			settled := func(dead int) {
				eventually(t, 10*time.Second, func() string {
					if s := f.status(); s.DeadLetters != dead || server.Pending() > 0 || s.Pending > 0 {
						return fmt.Sprintf("%d dead letters, want %d; %d not confirmed", s.DeadLetters, dead, server.Pending())
					}
					return ""
				})
			}
			say(t, server, 42, "before")
			inject()
			say(t, server, 42, "after")
			m := f.run(f.options("m1"), echo("m"))
			waitSent(t, server, 20*time.Second, "m before", "m after")
			settled(1)
			inject()
			settled(2)
			if n := f.warnings(tt.reason); n == 0 {
				t.Errorf("the log does not say %q", tt.reason)
			}
			m.end(t)
			f.run(f.options("m2"), echo("m")) // reads what was written
			settled(2)
			say(t, server, 42, "at last")
			waitSent(t, server, 10*time.Second, "m at last")
		})
	}
}

// TestDeepUpdateArrives: what encoding/json takes alone is handled, although it
// stands deeper in a line of the journal and of the bus.
func TestDeepUpdateArrives(t *testing.T) {
	f, server := newFleet(t)
	id := say(t, server, 42, "first") + 1
	raw := fmt.Sprintf(`{"update_id":%d,"message":{"message_id":1,"from":{"id":42},"chat":{"id":42,"type":"private"},"text":"deep","x":%s%s}}`,
		id, strings.Repeat("[", 9_998), strings.Repeat("]", 9_998))
	if err := server.InjectAs(id, []byte(raw)); err != nil {
		t.Fatal(err)
	}
	var c collector
	f.run(f.options("m1"), &c)
	eventually(t, 10*time.Second, func() string {
		if ids, _ := c.ids(); len(ids) < 2 {
			return "nothing came"
		}
		return ""
	})
	if string(c.got[id]) != raw {
		t.Error("it came with other bytes")
	}
}

// TestHugeUpdateBlocksNoOther: an update longer than is taken, which no server of
// Telegram's hands out, is a dead letter.
func TestHugeUpdateBlocksNoOther(t *testing.T) {
	f, server := newFleet(t)
	const message = `{"update_id":%d,"message":{"message_id":1,"from":{"id":42},"chat":{"id":42,"type":"private"},"text":%q}}`
	id := say(t, server, 42, "first") + 1
	body := fmt.Sprintf(`{"ok":true,"result":[`+message+`,`+message+`,`+message+`]}`,
		id, "before", id+1, strings.Repeat("x", 9<<20), id+2, "after")
	if _, err := server.AddFault(botapitest.Fault{Method: "getUpdates", Skip: 1, Times: 1, Act: botapitest.FaultAnswer, Answer: &botapitest.Answer{Body: []byte(body)}}); err != nil {
		t.Fatal(err)
	}
	f.run(f.options("m"), echo("m"))
	waitSent(t, server, 20*time.Second, "m first", "m before", "m after")
	if n := f.status().DeadLetters; n != 1 || f.warnings("at most 8388608 are taken") != 1 {
		t.Errorf("%d dead letters, %d warnings", n, f.warnings("at most 8388608 are taken"))
	}
}

// TestG3ConfirmedComesAgain: what a poll confirmed is handled no second time though
// a proxy answers polls with it again and again.
func TestG3ConfirmedComesAgain(t *testing.T) {
	f, server := newFleet(t)
	o := f.options("m")
	o.PollTimeout = time.Second
	raws := make(chan string, 10)
	f.run(o, bot.HandlerFunc(func(_ context.Context, u *bot.Update) (bot.Reply, error) {
		raws <- string(u.Raw())
		return bot.Reply{Text: "m " + u.Text()}, nil
	}))
	say(t, server, 42, "first")
	waitSent(t, server, 20*time.Second, "m first")
	body := []byte(`{"ok":true,"result":[` + <-raws + `]}`)
	if _, err := server.AddFault(botapitest.Fault{Method: "getUpdates", Times: 3, Act: botapitest.FaultAnswer, Answer: &botapitest.Answer{Body: body}}); err != nil {
		t.Fatal(err)
	}
	polls, _ := count(server, "getUpdates", 0)
	waitCount(t, server, "getUpdates", polls+4)
	say(t, server, 42, "second")
	waitSent(t, server, 20*time.Second, "m second")
	if got := sentTo(server, 42); len(got) != 2 {
		t.Errorf("sent %q", got)
	}
}
