package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tgbridge/config"
)

const token = "111:AAHsecretsecretsecret"

// environ returns an environment with what every start needs, and more.
func environ(more ...string) []string {
	return append([]string{"HOME=/home/op", "TGBRIDGE_NAME=here"}, more...)
}

// faults returns the error's problems, a line each.
func faults(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var all *config.Error
	if !errors.As(err, &all) {
		t.Fatalf("error is a %T: %v", err, err)
	}
	lines := make([]string, len(all.Problems))
	for i, p := range all.Problems {
		lines[i] = p.String()
	}
	return lines
}

func TestDefaults(t *testing.T) {
	c, err := config.Load(config.Options{Environ: environ("TELEGRAM_BOT_TOKEN=" + token), Member: true})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%+v", c)
	want := "{Token:[secret] TokenFile: APIURL:https://api.telegram.org" +
		" StateDir:" + abs(t, "/home/op/.local/state/tgbridge") + " Name:here" +
		" Route:sticky AllowedUsers:[] AllowAll:false" +
		" AllowedUpdates:[message edited_message channel_post edited_channel_post business_connection" +
		" business_message edited_business_message deleted_business_messages guest_message message_reaction" +
		" message_reaction_count inline_query chosen_inline_result callback_query shipping_query" +
		" pre_checkout_query purchased_paid_media poll poll_answer my_chat_member chat_member" +
		" chat_join_request chat_boost removed_chat_boost managed_bot subscription stopped_message_generation]" +
		" Concurrency:16 Pace:telegram HandlerTimeout:10m0s Attempts:3" +
		" Heartbeat:1s StaleAfter:5s OwnershipCheck:1s PollTimeout:50s RedeliverAfter:30s" +
		" Webhook:keep LogLevel:info LogFormat:auto BotID:111" +
		" Sources:[{Variable:TELEGRAM_BOT_TOKEN Source:environment} {Variable:TGBRIDGE_NAME Source:environment}]" +
		" Warnings:[nobody may use the bot: set TGBRIDGE_ALLOWED_USERS to numeric user ids, or TGBRIDGE_ALLOW_ALL=true for a public bot]" +
		" passedOn:[]}"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if c.Token.Reveal() != token || c.APIHost() != "api.telegram.org" {
		t.Errorf("token or API host %q is wrong", c.APIHost())
	}
}

// TestBots holds F24: each bot has a folder of its own, also under a new
// secret.
func TestBots(t *testing.T) {
	dirs := map[string]string{"111:AAA": "111", "222:BBB": "222", "111:CCC": "111", "0111:CCC": "111"}
	for text, want := range dirs {
		c, err := config.Load(config.Options{Environ: environ("TELEGRAM_BOT_TOKEN="+text, "TGBRIDGE_STATE_DIR=/state")})
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(abs(t, "/state"), want); c.BotDir() != want {
			t.Errorf("BotDir() of %s is %s, want %s", text, c.BotDir(), want)
		}
	}
}

func TestValues(t *testing.T) {
	day := 24 * time.Hour
	tests := []struct {
		setting string
		got     func(config.Config) any
		want    any
	}{
		{"TGBRIDGE_ALLOWED_USERS=2, 1,2 ,", func(c config.Config) any { return c.AllowedUsers }, []int64{1, 2}},
		{"TGBRIDGE_ALLOWED_USERS=9223372036854775807", func(c config.Config) any { return c.AllowedUsers }, []int64{9223372036854775807}},
		{"TGBRIDGE_ALLOWED_UPDATES=poll, message,poll", func(c config.Config) any { return c.AllowedUpdates }, []string{"poll", "message"}},
		{"TGBRIDGE_ALLOW_ALL=1", func(c config.Config) any { return c.AllowAll }, true},
		{"TGBRIDGE_ALLOW_ALL=", func(c config.Config) any { return c.AllowAll }, false},
		{"TGBRIDGE_CONCURRENCY= 1000 ", func(c config.Config) any { return c.Concurrency }, 1000},
		{"TGBRIDGE_ROUTE=leader", func(c config.Config) any { return c.Route }, config.RouteLeader},
		{"TGBRIDGE_PACE=off", func(c config.Config) any { return c.Pace }, config.PaceOff},
		{"TGBRIDGE_WEBHOOK=delete", func(c config.Config) any { return c.Webhook }, config.WebhookDelete},
		{"TGBRIDGE_HANDLER_TIMEOUT=24h", func(c config.Config) any { return c.HandlerTimeout }, day},
		{"TELEGRAM_API_URL=http://[::1]:8081/path/", func(c config.Config) any { return c.APIURL }, "http://[::1]:8081/path"},
		{"TELEGRAM_API_URL=http://proxy/botapi", func(c config.Config) any { return c.APIURL }, "http://proxy/botapi"},
		{"TGBRIDGE_NAME= zwölf und mehr ", func(c config.Config) any { return c.Name }, "zwölf und mehr"},
	}
	for _, tt := range tests {
		t.Run(tt.setting, func(t *testing.T) {
			c, err := config.Load(config.Options{Environ: environ(tt.setting)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, tt.got(c)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	tests := []struct {
		name    string
		environ []string
		want    string // the only problem's text between variable and example; empty: none
	}{
		{"token without colon", []string{"TELEGRAM_BOT_TOKEN=AAHsecretsecretsecret"}, "not a token: it has no colon; the form is digits:text"},
		{"F9 token with a line feed", []string{"TELEGRAM_BOT_TOKEN=" + token + "\n"}, "not a token: it has a blank or a line end in it"},
		{"token in quotes", []string{`TELEGRAM_BOT_TOKEN="` + token + `"`}, "not a token: it has quotes in it"},
		{"token with a slash", []string{"TELEGRAM_BOT_TOKEN=" + token + "/x"}, "not a token: the form is digits:text, the text of letters, digits, _ and -"},
		{"token with per cent", []string{"TELEGRAM_BOT_TOKEN=" + token + "%20"}, "not a token: the form is digits:text, the text of letters, digits, _ and -"},
		{"token of bot 0", []string{"TELEGRAM_BOT_TOKEN=0:AAHsecretsecretsecret"}, "not a token: the number before the colon is no bot's"},
		{"token of a huge bot", []string{"TELEGRAM_BOT_TOKEN=9223372036854775808:AAHsecretsecretsecret"}, "not a token: the number before the colon is no bot's"},

		{"URL without scheme", []string{"TELEGRAM_API_URL=localhost:8081"}, `"localhost:8081" is not an http or https URL with a host`},
		{"URL without host", []string{"TELEGRAM_API_URL=https://"}, `"https:" is not an http or https URL with a host`},
		{"URL of a file", []string{"TELEGRAM_API_URL=ftp://host"}, `"ftp://host" is not an http or https URL with a host`},
		{"URL broken", []string{"TELEGRAM_API_URL=http://ho st"}, "not a URL"},
		{"URL with password", []string{"TELEGRAM_API_URL=http://op:password@host"}, "it has a user name or password in it, which a Bot API server does not take"},
		{"URL with query", []string{"TELEGRAM_API_URL=http://host/?a=b"}, `"http://host/?a=b" may have no ?, # or %`},
		{"URL with escape", []string{"TELEGRAM_API_URL=http://host/%41"}, `"http://host/%41" may have no ?, # or %`},
		{"URL with a token", []string{"TELEGRAM_API_URL=https://host/bot" + token}, `"https://host/bot[secret]" must end before /bot and the token, which are added`},
		{"URL with /bot", []string{"TELEGRAM_API_URL=https://host/bot/"}, `"https://host/bot" must end before /bot and the token, which are added`},

		{"state directory of a shell", []string{"TGBRIDGE_STATE_DIR=~/state"}, `"~/state" begins with ~, which only a shell replaces: write the whole path`},
		{"name with a line feed", []string{"TGBRIDGE_NAME=a\nb"}, `"a\nb" has characters that cannot be printed`},
		{"name that is not UTF-8", []string{"TGBRIDGE_NAME=a\xff"}, `"a\xff" has characters that cannot be printed`},
		{"name of 64 characters", []string{"TGBRIDGE_NAME=" + strings.Repeat("ö", 64)}, ""},
		{"name of 65 characters", []string{"TGBRIDGE_NAME=" + strings.Repeat("n", 65)}, `"` + strings.Repeat("n", 65) + `" is longer than 64 characters`},

		{"route", []string{"TGBRIDGE_ROUTE=Sticky"}, `"Sticky" is none of sticky, leader`},
		{"pace", []string{"TGBRIDGE_PACE=on"}, `"on" is none of telegram, off`},
		{"webhook", []string{"TGBRIDGE_WEBHOOK=drop"}, `"drop" is none of keep, delete`},
		{"log level", []string{"TGBRIDGE_LOG_LEVEL=verbose"}, `"verbose" is none of debug, info, warn, error`},
		{"log format", []string{"TGBRIDGE_LOG_FORMAT=text"}, `"text" is none of auto, console, json`},

		{"F62 user by name", []string{"TGBRIDGE_ALLOWED_USERS=1,@ann"}, `"@ann" is a user name, which can pass to somebody else: give the numeric id (status shows the ids of denied senders)`},
		{"user that is a group", []string{"TGBRIDGE_ALLOWED_USERS=-1001557912345"}, `"-1001557912345" is not a user id: these are above 0, groups and channels are below`},
		{"user 0", []string{"TGBRIDGE_ALLOWED_USERS=0"}, `"0" is not a user id: these are above 0, groups and channels are below`},
		{"users with blanks between", []string{"TGBRIDGE_ALLOWED_USERS=1 2"}, `"1 2" is not a numeric user id`},
		{"user above 64 bits", []string{"TGBRIDGE_ALLOWED_USERS=9223372036854775808"}, `"9223372036854775808" is not a numeric user id`},
		{"several users", []string{"TGBRIDGE_ALLOWED_USERS=x,1,y"}, `"x" is not a numeric user id, "y" is not a numeric user id`},
		{"user that is a token", []string{"TGBRIDGE_ALLOWED_USERS=123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"}, `"[secret]" is not a numeric user id`},
		{"allow all", []string{"TGBRIDGE_ALLOW_ALL=yes"}, `"yes" is neither true nor false`},
		{"update kinds", []string{"TGBRIDGE_ALLOWED_UPDATES=message;poll"}, `"message;poll" is not a kind of update`},

		{"concurrency 0", []string{"TGBRIDGE_CONCURRENCY=0"}, "0 is not between 1 and 1000"},
		{"concurrency 1001", []string{"TGBRIDGE_CONCURRENCY=1001"}, "1001 is not between 1 and 1000"},
		{"concurrency in words", []string{"TGBRIDGE_CONCURRENCY=many"}, `"many" is not a whole number`},
		{"attempts", []string{"TGBRIDGE_ATTEMPTS=0"}, "0 is less than 1"},

		{"duration without unit", []string{"TGBRIDGE_HANDLER_TIMEOUT=600"}, `"600" has no unit; write 600s for seconds`},
		{"duration in words", []string{"TGBRIDGE_HANDLER_TIMEOUT=long"}, `"long" is not a duration`},
		{"duration below 0", []string{"TGBRIDGE_HANDLER_TIMEOUT=-1s"}, "-1s is shorter than 10ms"},
		{"heartbeat of nothing", []string{"TGBRIDGE_HEARTBEAT=0s"}, "0s is shorter than 10ms"},
		{"heartbeat at its limit", []string{"TGBRIDGE_HEARTBEAT=2s", "TGBRIDGE_STALE_AFTER=10s"}, ""},
		{"heartbeat above", []string{"TGBRIDGE_HEARTBEAT=2001ms", "TGBRIDGE_STALE_AFTER=10s"}, "2.001s is more than a fifth of TGBRIDGE_STALE_AFTER (10s)"},
		{"ownership check at its limit", []string{"TGBRIDGE_OWNERSHIP_CHECK=2s"}, ""},
		{"ownership check above", []string{"TGBRIDGE_OWNERSHIP_CHECK=2001ms"}, "2.001s is more than 2s or than half of TGBRIDGE_STALE_AFTER (5s)"},
		{"ownership check above the half", []string{"TGBRIDGE_OWNERSHIP_CHECK=501ms", "TGBRIDGE_STALE_AFTER=1s", "TGBRIDGE_HEARTBEAT=100ms"}, "501ms is more than 2s or than half of TGBRIDGE_STALE_AFTER (1s)"},
		{"redelivery at its limit", []string{"TGBRIDGE_REDELIVER_AFTER=10s"}, ""},
		{"redelivery below", []string{"TGBRIDGE_REDELIVER_AFTER=9999ms"}, "9.999s is less than twice TGBRIDGE_STALE_AFTER (5s)"},
		{"poll of nothing", []string{"TGBRIDGE_POLL_TIMEOUT=0s"}, "0s is not between 1s and 50s"},
		{"poll at its limit", []string{"TGBRIDGE_POLL_TIMEOUT=1s"}, ""},
		{"poll above", []string{"TGBRIDGE_POLL_TIMEOUT=51s"}, "51s is not between 1s and 50s"},
		{"poll of a fraction", []string{"TGBRIDGE_POLL_TIMEOUT=1500ms"}, "1.5s is not a number of whole seconds"},
		{"nothing follows from a value that cannot be read", []string{"TGBRIDGE_STALE_AFTER=soon"}, `"soon" is not a duration`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Load(config.Options{Environ: environ(tt.environ...)})
			got := faults(t, err)
			if tt.want == "" {
				if len(got) > 0 {
					t.Errorf("faults %q, want none", got)
				}
				return
			}
			variable, _, _ := strings.Cut(tt.environ[0], "=")
			want := []string{variable + ": " + tt.want + "; for example " + variable + "=" + example(t, variable)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestExamplesAreValid makes sure that what errors advise is accepted.
func TestExamplesAreValid(t *testing.T) {
	for _, v := range config.Variables() {
		if v.Name == "TELEGRAM_BOT_TOKEN_FILE" {
			continue // needs the file
		}
		if _, err := config.Load(config.Options{Environ: environ(v.Name + "=" + v.Example)}); err != nil {
			t.Errorf("%s=%s: %v", v.Name, v.Example, err)
		}
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	_, err := config.Load(config.Options{
		Environ: []string{
			"TGBRIDGE_ALLOWED_USERS=@ann",
			"TGBRIDGE_HEARTBEAT=5",
			"TGBRIDGE_POLL_TIMEOUT=2m",
		},
		Flags:  map[string]string{"TGBRIDGE_CONCURRENCY": "0"},
		Member: true,
	})
	if err == nil {
		t.Fatal("no error")
	}
	want := `the configuration has 6 faults:
  TELEGRAM_BOT_TOKEN: not set: give the token that @BotFather shows for the bot, or its file's path in TELEGRAM_BOT_TOKEN_FILE; for example TELEGRAM_BOT_TOKEN=123456789:AAExampleOfATokenFromBotFather
  TGBRIDGE_STATE_DIR: not set, and neither XDG_STATE_HOME nor HOME says where to keep state; for example TGBRIDGE_STATE_DIR=/var/lib/tgbridge
  TGBRIDGE_ALLOWED_USERS: "@ann" is a user name, which can pass to somebody else: give the numeric id (status shows the ids of denied senders); for example TGBRIDGE_ALLOWED_USERS=111111111,222222222
  TGBRIDGE_CONCURRENCY (given as --concurrency): 0 is not between 1 and 1000; for example TGBRIDGE_CONCURRENCY=4
  TGBRIDGE_HEARTBEAT: "5" has no unit; write 5s for seconds; for example TGBRIDGE_HEARTBEAT=1s
  TGBRIDGE_POLL_TIMEOUT: 2m0s is not between 1s and 50s; for example TGBRIDGE_POLL_TIMEOUT=50s`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestNoErrorShowsTheToken puts the token, also a short one, where it does not
// belong (G8).
func TestNoErrorShowsTheToken(t *testing.T) {
	for _, text := range []string{token, "111:private"} {
		_, private, _ := strings.Cut(text, ":")
		for _, v := range config.Variables() {
			for _, set := range []string{text, private, "http://host/bot" + text, text + "\n"} {
				c, err := config.Load(config.Options{
					Environ: environ("TELEGRAM_BOT_TOKEN="+text, v.Name+"="+set),
					EnvFile: text,
				})
				shown := fmt.Sprintf("%v %q %q %+v %#v", err, c.Sources, c.Warnings, c.Token, c.Token)
				if strings.Contains(shown, private) {
					t.Errorf("%s=%q: %s", v.Name, set, shown)
				}
			}
		}
	}
}

func TestLayers(t *testing.T) {
	dir := t.TempDir()
	envFile := write(t, dir, "env", "TGBRIDGE_NAME=file\nTGBRIDGE_ROUTE=leader\nTGBRIDGE_ATTEMPTS=5\nTGBRIDGE_PACE=telegram\nTELEGRAM_BOT_TOKEN=111:fromfile\n")
	c, err := config.Load(config.Options{
		Environ: []string{"HOME=" + dir, "TGBRIDGE_NAME=env", "TGBRIDGE_ATTEMPTS=4", "TGBRIDGE_ROUTE=", "TGBRIDGE_CONCURRENCY=7", "TGBRIDGE_ALLOW_ALL=true"},
		Flags:   map[string]string{"TGBRIDGE_NAME": "flag", "TGBRIDGE_CONCURRENCY": ""},
		EnvFile: envFile,
	})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(c.Name, " ", c.Route, " ", c.Attempts, " ", c.Concurrency, " ", c.Token.Reveal(), " ", c.Sources)
	want := "flag leader 4 16 111:fromfile " +
		"[{TELEGRAM_BOT_TOKEN env file} {TGBRIDGE_NAME flag} {TGBRIDGE_ROUTE env file} {TGBRIDGE_ALLOW_ALL environment} {TGBRIDGE_ATTEMPTS environment}]"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestNoEnvFileIsReadUnasked(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, ".env", "TGBRIDGE_ATTEMPTS=5\n")
	t.Chdir(dir)
	c, err := config.Load(config.Options{Environ: environ()})
	if err != nil || c.Attempts != 3 {
		t.Errorf("attempts %d, error %v; want 3, none", c.Attempts, err)
	}
}

func TestTokenFile(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "token", token+"\r\n")
	tests := []struct {
		name    string
		environ []string
		flags   map[string]string
		want    string // the problem without its example; empty: the token was read
	}{
		{name: "environment", environ: []string{"TELEGRAM_BOT_TOKEN_FILE=" + path}},
		{name: "empty token beside", environ: []string{"TELEGRAM_BOT_TOKEN_FILE=" + path, "TELEGRAM_BOT_TOKEN="}},
		{name: "flag before a token", environ: []string{"TELEGRAM_BOT_TOKEN=222:other"}, flags: map[string]string{"TELEGRAM_BOT_TOKEN_FILE": path}},
		{name: "both", environ: []string{"TELEGRAM_BOT_TOKEN_FILE=" + path, "TELEGRAM_BOT_TOKEN=" + token},
			want: "TELEGRAM_BOT_TOKEN: set (environment) beside TELEGRAM_BOT_TOKEN_FILE (environment): remove one of them"},
		{name: "missing", environ: []string{"TELEGRAM_BOT_TOKEN_FILE=/nowhere/token"},
			want: `TELEGRAM_BOT_TOKEN_FILE: cannot read "/nowhere/token": no such file or directory`},
		{name: "empty", environ: []string{"TELEGRAM_BOT_TOKEN_FILE=" + write(t, dir, "empty", "\n")},
			want: `TELEGRAM_BOT_TOKEN_FILE: cannot read "` + filepath.Join(dir, "empty") + `": it is empty`},
		{name: "long", environ: []string{"TELEGRAM_BOT_TOKEN_FILE=" + write(t, dir, "long", strings.Repeat("x", 5000))},
			want: `TELEGRAM_BOT_TOKEN_FILE: cannot read "` + filepath.Join(dir, "long") + `": it is longer than 4096 bytes`},
		{name: "two line ends", environ: []string{"TELEGRAM_BOT_TOKEN_FILE=" + write(t, dir, "two", token+"\n\n")},
			want: "TELEGRAM_BOT_TOKEN: not a token: it has a blank or a line end in it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := config.Load(config.Options{Environ: environ(tt.environ...), Flags: tt.flags, Member: true})
			got := faults(t, err)
			if tt.want == "" {
				if err != nil || c.Token.Reveal() != token || c.TokenFile != path {
					t.Errorf("token file %q, faults %q; want the token", c.TokenFile, got)
				}
				return
			}
			if len(got) != 1 || !strings.HasPrefix(got[0], tt.want+"; for example ") {
				t.Errorf("faults %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	tests := []struct {
		name    string
		environ []string
		want    []string
	}{
		{"allowed", []string{"TGBRIDGE_ALLOWED_USERS=1"}, nil},
		{"allowed all", []string{"TGBRIDGE_ALLOW_ALL=true"}, nil},
		{"both", []string{"TGBRIDGE_ALLOW_ALL=true", "TGBRIDGE_ALLOWED_USERS=1"},
			[]string{"TGBRIDGE_ALLOW_ALL=true: everybody may use the bot, TGBRIDGE_ALLOWED_USERS has no effect"}},
		{"unknown variables", []string{"TGBRIDGE_ALLOW_ALL=true", "TGBRIDGE_STALEAFTER=5s", "TGBRIDGE_ALLOWED_USER=1", "TGBRIDGE_SOMETHING_ELSE_AGAIN=1"},
			[]string{"unknown variables have no effect: TGBRIDGE_ALLOWED_USER (meant TGBRIDGE_ALLOWED_USERS?), TGBRIDGE_SOMETHING_ELSE_AGAIN, TGBRIDGE_STALEAFTER (meant TGBRIDGE_STALE_AFTER?)"}},
		{"F66 in the environment of a command", []string{"TGBRIDGE_ALLOW_ALL=true", "TGBRIDGE_DELIVERY=d", "TGBRIDGE_ATTEMPT=1"}, nil},
		{"kinds", []string{"TGBRIDGE_ALLOW_ALL=true", "TGBRIDGE_ALLOWED_UPDATES=mesage,quantum"},
			[]string{
				`TGBRIDGE_ALLOWED_UPDATES: "mesage" is no kind of update that this version knows (meant message?)`,
				`TGBRIDGE_ALLOWED_UPDATES: "quantum" is no kind of update that this version knows`,
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := config.Load(config.Options{Environ: environ(append(tt.environ, "TELEGRAM_BOT_TOKEN="+token)...), Member: true})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, c.Warnings); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestChildEnv holds G8 and F66.
func TestChildEnv(t *testing.T) {
	in := environ("TELEGRAM_BOT_TOKEN="+token, "COPY=x"+token, "HALF=AAHsecretsecretsecret",
		"TELEGRAM_BOT_TOKEN_FILE=/run/token", "TGBRIDGE_STATE_DIR=elsewhere", "TGBRIDGE_ROUTE=sticky", "EMPTY=")
	load := environ("TELEGRAM_BOT_TOKEN="+token, "TGBRIDGE_STATE_DIR="+abs(t, "/state"))
	c, err := config.Load(config.Options{Environ: load, Flags: map[string]string{"TGBRIDGE_ROUTE": "leader"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"HOME=/home/op", "TGBRIDGE_NAME=here", "TELEGRAM_BOT_TOKEN_FILE=/run/token", "EMPTY=",
		"TGBRIDGE_ROUTE=leader", "TGBRIDGE_STATE_DIR=" + abs(t, "/state")}
	if diff := cmp.Diff(want, c.ChildEnv(in)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func example(t *testing.T, variable string) string {
	t.Helper()
	for _, v := range config.Variables() {
		if v.Name == variable {
			return v.Example
		}
	}
	t.Fatalf("no variable %s", variable)
	return ""
}

func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func abs(t *testing.T, path string) string {
	t.Helper()
	absolute, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return absolute
}
