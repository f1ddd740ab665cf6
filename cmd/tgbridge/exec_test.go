//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"tgbridge/internal/botapitest"
)

// sorry is the one line that a user gets about a message that was given up.
const sorry = "Sorry, this message could not be handled."

// TestExecReplies is F65 and what commands print. The command is a shell: it
// runs the message's text. Whatever that does, the next message of its chat is
// handled.
func TestExecReplies(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script string
		want         []string
		attempts     int
	}{
		{"output", "echo hello", []string{"hello"}, 1},
		{"line ends at the end go", `printf 'a\n\n b\n\r\n\n'`, []string{"a\n\n b"}, 1},
		{"silence", "true", nil, 1},
		{"blank is silence", `printf '  \n\t \n'`, nil, 1},
		{"stderr is not shown", "echo out; echo err >&2", []string{"out"}, 1},
		{"stdin closed", "exec 0<&-; echo closed", []string{"closed"}, 1},
		{"not UTF-8", `printf 'a\377\376b'`, []string{"a\uFFFDb"}, 1},
		{"exit 1", "echo half; exit 1", []string{sorry}, 2},
		{"silent exit 3", "exit 3", []string{sorry}, 2},
		{"killed", "kill -KILL $$", []string{sorry}, 2},
		{"second attempt", "test $TGBRIDGE_ATTEMPT = 2 && echo attempt $TGBRIDGE_ATTEMPT", []string{"attempt 2"}, 2},
	}
	log := filepath.Join(t.TempDir(), "log")
	f := newFleet(t, "TGBRIDGE_ATTEMPTS=2", "LOG="+log)
	f.led(1, "exec", "--", "sh", "-c", `echo "$TELEGRAM_CHAT_ID $TGBRIDGE_ATTEMPT $TGBRIDGE_DELIVERY" >>"$LOG"; exec sh`)
	for i, tt := range tests {
		f.say(int64(100+i), tt.script)
		f.say(int64(100+i), "echo next")
	}
	for i, tt := range tests {
		f.wantSent(int64(100+i), append(tt.want, "next")...)
	}
	begun := map[string]int{} // by delivery
	attempts := map[int]int{} // at the first message of a chat, the second one has but one
	for _, line := range waitFile(t, log, 2*len(tests)) {
		var chat, attempt int
		var delivery string
		if _, err := fmt.Sscan(line, &chat, &attempt, &delivery); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if begun[delivery]++; begun[delivery] != attempt {
			t.Errorf("attempt %d begins as the %d. of %s", attempt, begun[delivery], delivery)
		}
		attempts[chat] = max(attempts[chat], attempt)
	}
	for i, tt := range tests {
		if n := attempts[100+i]; n != tt.attempts {
			t.Errorf("%s: %d attempts, want %d", tt.name, n, tt.attempts)
		}
	}
	if s := f.status(0); s.DeadLetters != 3 || s.Pending != 0 {
		t.Errorf("%d dead letters, %d pending; want 3, 0", s.DeadLetters, s.Pending)
	}
}

// TestExecNotStarted: while the command's file is gone nothing of it runs, so no
// attempt is used up.
func TestExecNotStarted(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "TGBRIDGE_ATTEMPTS=1")
	dir := t.TempDir()
	path, aside := filepath.Join(dir, "handler"), filepath.Join(dir, "aside")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho attempt $TGBRIDGE_ATTEMPT\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p, _ := f.led(1, "exec", "--", path)
	if err := os.Rename(path, aside); err != nil {
		t.Fatal(err)
	}
	f.say(42, "x")
	eventually(t, 20*time.Second, func() string {
		if n := strings.Count(p.said.String(), `"the command was not started; trying again"`); n < 2 {
			return fmt.Sprintf("the log says %d times that it was not started", n)
		}
		return ""
	})
	if err := os.Rename(aside, path); err != nil {
		t.Fatal(err)
	}
	f.wantSent(42, "attempt 1")
	if s := f.status(0); s.DeadLetters != 0 {
		t.Errorf("%d dead letters", s.DeadLetters)
	}
}

// TestExecTimesOut: a command that never ends is ended, and the lane goes on.
func TestExecTimesOut(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "TGBRIDGE_ATTEMPTS=2", "TGBRIDGE_HANDLER_TIMEOUT=1s")
	p, _ := f.led(1, "exec", "--", "sh", "-c", `read -r text; test "$text" = next && exit 0; eval "$text"`)
	for chat, script := range map[int64]string{100: "sleep 1000", 101: "trap '' TERM; while :; do sleep 0.1; done"} {
		f.say(chat, script)
		f.say(chat, "next")
	}
	for _, chat := range []int64{100, 101} {
		f.wantSent(chat, sorry)
	}
	eventually(t, 20*time.Second, func() string {
		if s := f.status(0); s.Pending != 0 {
			return fmt.Sprint(s.Pending, " are pending")
		}
		return ""
	})
	if !strings.Contains(p.said.String(), "stopped: the handler's time of 1s is over") {
		t.Error("the log does not say why the command was ended")
	}
}

// TestExecFailureIsExplained: the log has the end of what a command that failed
// wrote to stderr.
func TestExecFailureIsExplained(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "TGBRIDGE_ATTEMPTS=1")
	p, _ := f.led(1, "exec", "--", "sh", "-c", `yes noise | head -n 400 >&2; echo no such table >&2; exit 3`)
	f.say(42, "x")
	f.wantSent(42, sorry)
	line := regexp.MustCompile(`.*"stderr":"(.*?)".*`).FindStringSubmatch(p.said.String())
	if len(line) == 0 || !strings.HasSuffix(line[1], `\nno such table`) || !strings.HasPrefix(line[1], "... ") ||
		len(line[1]) > 2*stderrShown || !strings.Contains(line[0], `"warn"`) {
		t.Errorf("%q", line)
	}
}

// TestExecLongOutput: what does not fit into one message comes in parts, cut at
// line ends; of more than 64 KiB comes the first part and a notice.
func TestExecLongOutput(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.led(1, "exec", "--", "sh")
	var lines strings.Builder
	for i := 1; i <= 2000; i++ {
		fmt.Fprintf(&lines, "%d\n", i)
	}
	emoji := strings.Repeat("😀", 3000)
	overflowing := map[int64]string{
		102: "yes 0123456789 | head -c 10485760",
		103: `yes '""""""""' | head -c 60000`, // fits, but not as JSON
		104: `yes '☃' | head -c 65537`,        // cut inside of a character
	}
	f.say(100, "seq 2000")
	f.say(101, "printf '%3000s' | sed 's/ /😀/g'")
	for chat, script := range overflowing {
		f.say(chat, script)
	}
	parts := f.waitSent(100, 3)
	if got := strings.Join(parts, "\n") + "\n"; got != lines.String() {
		t.Errorf("the lines came as %q", parts)
	}
	if got := strings.Join(f.waitSent(101, 2), ""); got != emoji {
		t.Errorf("%d bytes of emoji, want %d", len(got), len(emoji))
	}
	for chat := range overflowing {
		got := f.waitSent(chat, 1)[0]
		first, ok := strings.CutSuffix(got, "\n[this is the beginning of the output, which was too long to be sent whole]")
		if !ok || len(utf16.Encode([]rune(first))) < 3900 || strings.Contains(got, "\uFFFD") {
			t.Errorf("chat %d got %.20q...%q", chat, got, got[max(0, len(got)-100):])
		}
	}
	for chat := int64(100); chat <= 104; chat++ {
		for _, text := range f.sent(chat) {
			if n := len(utf16.Encode([]rune(text))); n > 4096 {
				t.Errorf("chat %d: a part has %d units", chat, n)
			}
		}
	}
}

// corpus are updates of every kind, as they are served.
func corpus(t *testing.T) map[int64][]byte {
	t.Helper()
	file, err := os.Open("../../internal/botapitest/testdata/updates.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	updates := map[int64][]byte{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var u struct {
			ID int64 `json:"update_id"`
		}
		if err := json.Unmarshal(lines.Bytes(), &u); err != nil {
			t.Fatal(err)
		}
		updates[u.ID] = bytes.Clone(lines.Bytes())
	}
	return updates
}

// hasText reports whether an update is a message or a channel post with a text
// or caption, and returns that.
func hasText(t *testing.T, raw []byte) (string, bool) {
	t.Helper()
	type message struct{ Text, Caption string }
	var u struct {
		Message *message
		Post    *message `json:"channel_post"`
	}
	if err := json.Unmarshal(raw, &u); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*message{u.Message, u.Post} {
		if m != nil && m.Text+m.Caption != "" {
			return m.Text + m.Caption, true
		}
	}
	return "", false
}

// TestExecInput serves updates of every kind: as JSON each comes byte for byte,
// as text only messages and channel posts come.
func TestExecInput(t *testing.T) {
	t.Parallel()
	updates := corpus(t)
	for _, input := range []string{inputJSON, inputText} {
		t.Run(input, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			f := newFleet(t, "DIR="+dir)
			want := map[int64]string{}
			ids := make([]int64, 0, len(updates))
			for id := range updates {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			for _, id := range ids {
				if err := f.server.InjectAs(id, updates[id]); err != nil {
					t.Fatal(err)
				}
				if input == inputJSON {
					want[id] = string(updates[id])
				} else if text, ok := hasText(t, updates[id]); ok {
					want[id] = text
				}
			}
			f.led(1, "exec", "--input", input, "--", "sh", "-c", `cat >"$DIR/$TELEGRAM_UPDATE_ID"`)
			eventually(t, 20*time.Second, func() string {
				if n := f.server.Pending(); n > 0 {
					return fmt.Sprint(n, " updates are not confirmed")
				}
				if s := f.status(0); s.Pending > 0 {
					return fmt.Sprint(s.Pending, " are pending")
				}
				return ""
			})
			got := map[int64]string{}
			for _, id := range ids {
				if text, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(id))); err == nil {
					got[id] = string(text)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestExecEnvironment: the variables tell what is known of the update and are
// unset where it is absent, also if the member itself was started by a command
// of another member. F66: no token, wherever the member had it from.
func TestExecEnvironment(t *testing.T) {
	t.Parallel()
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(botapitest.DefaultToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, raw string
		want      []string
	}{
		{"topic", `{"update_id":700,"message":{"message_id":8,"message_thread_id":77,"is_topic_message":true,` +
			`"from":{"id":5018594437,"is_bot":false,"first_name":"A","username":"ann"},` +
			`"chat":{"id":-1001557912345,"type":"supergroup","title":"G","is_forum":true},"date":1,"text":"x"}}`,
			[]string{
				"TELEGRAM_CHAT_ID=-1001557912345", "TELEGRAM_MESSAGE_ID=8", "TELEGRAM_THREAD_ID=77",
				"TELEGRAM_UPDATE_ID=700", "TELEGRAM_USERNAME=ann", "TELEGRAM_USER_ID=5018594437", "TGBRIDGE_ATTEMPT=1",
			}},
		{"private, no name", `{"update_id":701,"message":{"message_id":9,"from":{"id":42,"is_bot":false,"first_name":"B"},` +
			`"chat":{"id":42,"type":"private","first_name":"B"},"date":1,"text":"x"}}`,
			[]string{"TELEGRAM_CHAT_ID=42", "TELEGRAM_MESSAGE_ID=9", "TELEGRAM_UPDATE_ID=701", "TELEGRAM_USER_ID=42", "TGBRIDGE_ATTEMPT=1"}},
		{"channel post", `{"update_id":702,"channel_post":{"message_id":10,"sender_chat":{"id":-1005,"type":"channel","title":"C"},` +
			`"chat":{"id":-1005,"type":"channel","title":"C"},"date":1,"text":"x"}}`,
			[]string{"TELEGRAM_CHAT_ID=-1005", "TELEGRAM_MESSAGE_ID=10", "TELEGRAM_UPDATE_ID=702", "TGBRIDGE_ATTEMPT=1"}},
	}
	dir := t.TempDir()
	f := newFleet(t, "TELEGRAM_BOT_TOKEN=", "TELEGRAM_BOT_TOKEN_FILE="+tokenFile, "DIR="+dir,
		"COPY=x"+botapitest.DefaultToken, "TELEGRAM_THREAD_ID=1", "TELEGRAM_USERNAME=outer", "TELEGRAM_USER_ID=2", "TGBRIDGE_DELIVERY=3")
	for _, tt := range tests {
		if _, err := f.server.Inject([]byte(tt.raw)); err != nil {
			t.Fatal(err)
		}
	}
	f.led(1, "exec", "--", "sh", "-c", `env >"$DIR/$TELEGRAM_UPDATE_ID.new"; mv "$DIR/$TELEGRAM_UPDATE_ID.new" "$DIR/$TELEGRAM_UPDATE_ID"`)
	for i, tt := range tests {
		var got []string
		delivery, file := "", ""
		env := waitFile(t, filepath.Join(dir, fmt.Sprint(700+i)), 1)
		for _, entry := range env {
			name, value, _ := strings.Cut(entry, "=")
			switch {
			case strings.Contains(value, "AAbotapitest"):
				t.Errorf("%s: the token is in %s", tt.name, name)
			case name == "TGBRIDGE_DELIVERY":
				delivery = value
			case name == "TELEGRAM_BOT_TOKEN_FILE":
				file = value
			case strings.HasPrefix(name, "TELEGRAM_") && name != "TELEGRAM_API_URL", name == "TGBRIDGE_ATTEMPT":
				got = append(got, entry)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tt.name, diff)
		}
		if delivery == "" || delivery == "3" || file != tokenFile {
			t.Errorf("%s: delivery %q, token file %q", tt.name, delivery, file)
		}
	}
}

// TestF66Nested: a command starts tgbridge itself. Without a token that is told
// why it cannot; given the token's file it joins as a follower.
func TestF66Nested(t *testing.T) {
	t.Parallel()
	t.Run("without token", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t)
		f.led(1, "exec", "--", "sh")
		f.say(42, "tgbridge echo 2>&1; echo code $?")
		got := f.waitSent(42, 1)[0]
		if !strings.Contains(got, "TELEGRAM_BOT_TOKEN: not set: give the token") || !strings.HasSuffix(got, "\ncode 2") {
			t.Errorf("replied %q", got)
		}
		f.server.SetChat(botapitest.Chat{ID: 43})
		f.say(42, "tgbridge send --chat 43 'from inside'") // needs none
		f.wantSent(43, "from inside")
	})
	t.Run("with the token's file", func(t *testing.T) {
		t.Parallel()
		tokenFile := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(tokenFile, []byte(botapitest.DefaultToken), 0o600); err != nil {
			t.Fatal(err)
		}
		f := newFleet(t, "TELEGRAM_BOT_TOKEN=", "TELEGRAM_BOT_TOKEN_FILE="+tokenFile)
		outer, _ := f.led(1, "exec", "--", "sh")
		f.say(42, "exec tgbridge echo")
		if e := f.waitMembers(2); e.PID != outer.pid() {
			t.Errorf("pid %d leads, want %d", e.PID, outer.pid())
		}
		if s := f.status(0); len(s.Members) != 2 || s.Members[1].Name != "m1-2" || s.Members[1].Role != "follower" {
			t.Errorf("members %+v", s.Members)
		}
	})
}

// TestExecStops: a member that is told to stop lets a command end by itself
// within 2.5 s, then asks it to end, and makes it end after 2 s more. What was
// not ended is handled anew, as the same attempt.
func TestExecStops(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script string
		answered     bool
		least, most  time.Duration
	}{
		{"ends in time", "sleep 1; echo done", true, 0, 3 * time.Second},
		{"ends when it is asked to", `trap 'echo "term" >>"$LOG"; exit 0' TERM; sleep 1000 & wait`, false, 2 * time.Second, 4 * time.Second},
		{"has to be killed", `trap 'echo "term" >>"$LOG"' TERM; while :; do sleep 0.1; done`, false, 4 * time.Second, 6 * time.Second},
	}
	for _, tt := range tests {
		for _, others := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, %d others", tt.name, others), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				log := filepath.Join(dir, "log")
				f := newFleet(t, "LOG="+log)
				const shell = `echo "$PPID $TGBRIDGE_ATTEMPT" >>"$LOG"; test "$TGBRIDGE_NAME" = later && exec cat >/dev/null; exec sh`
				leader, _ := f.led(1, "exec", "--", "sh", "-c", shell)
				f.say(42, tt.script)
				waitFile(t, log, 1)
				if others > 0 {
					f.start("later", "exec", "--", "sh", "-c", shell)
					f.waitMembers(2)
				}
				began := time.Now()
				leader.signal(t, syscall.SIGTERM)
				if code := leader.wait(t, 20*time.Second); code != 0 {
					t.Errorf("exit code %d", code)
				}
				took := time.Since(began)
				if took < tt.least || took > 2*tt.most {
					t.Errorf("took %v, want %v to %v", took, tt.least, tt.most)
				}
				if tt.answered {
					f.wantSent(42, "done")
					return
				}
				if others == 0 {
					f.start("later", "exec", "--", "sh", "-c", shell)
				}
				lines := waitFile(t, log, 3)
				if got := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return l != "term" }); len(got) != 1 {
					t.Errorf("the command was asked to end %d times: %q", len(got), lines)
				}
				first, last := lines[0], lines[len(lines)-1]
				// The attempt counts if the member had no time left to give it back.
				same := strings.HasSuffix(last, " 1") || took > 5*time.Second
				if !strings.HasSuffix(first, " 1") || !same || first == last {
					t.Errorf("attempts %q", lines)
				}
			})
		}
	}
}

// TestExecNeedsItsCommand: what can never run is wrong usage, told before
// anything is joined.
func TestExecNeedsItsCommand(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"none", nil, "a command is needed"},
		{"not found", []string{"--", "no-such-command"}, `"no-such-command": executable file not found in $PATH`},
		{"no such file", []string{"--", "/no/such/file"}, "/no/such/file"},
		{"not executable", []string{"--", plain}, "permission denied"},
		{"input", []string{"--input", "yaml", "--", "cat"}, `--input: "yaml" is neither text nor json`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f.run(append([]string{"exec"}, tt.args...)...).wants(t, 2, tt.want, "See 'tgbridge exec --help'.")
		})
	}
	if _, err := os.Stat(f.state); err == nil {
		t.Error("the state directory was made")
	}
}
