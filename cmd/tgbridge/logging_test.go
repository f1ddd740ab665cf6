package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tgbridge/config"
	"tgbridge/internal/secret"
)

const testToken = "111:AAHsecretsecretsecret"

// testCLI returns a cli with testToken in its environment, and what it writes
// to stderr.
func testCLI(environ ...string) (*cli, *bytes.Buffer) {
	var stderr bytes.Buffer
	environ = append([]string{"HOME=/home/op", "TGBRIDGE_NAME=here", "TELEGRAM_BOT_TOKEN=" + testToken}, environ...)
	return newCLI(strings.NewReader(""), &bytes.Buffer{}, &stderr, environ, nil), &stderr
}

// TestNoLogShowsTheToken logs the token in the ways in which libraries do (F9,
// G8).
func TestNoLogShowsTheToken(t *testing.T) {
	for _, format := range []config.LogFormat{config.LogJSON, config.LogConsole} {
		c, stderr := testCLI()
		log := c.logger(config.Config{LogLevel: config.LogDebug, LogFormat: format})
		address := "https://api.telegram.org/bot" + testToken + "/getUpdates"
		parsed, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		log.Error().Err(&url.Error{Op: "Post", URL: address, Err: errors.New("refused")}).Msg("poll failed")
		log.Info().Interface("url", parsed).Str("half", "AAHsecretsecretsecret").Msg(address)
		c.hide(secret.New("222:AAHanothersecret"))
		log.Info().Msg("222:AAHanothersecret")
		if strings.Contains(stderr.String(), "AAH") || !strings.Contains(stderr.String(), "[secret]") {
			t.Errorf("%s: %s", format, stderr)
		}
	}
}

func TestRedactor(t *testing.T) {
	var out bytes.Buffer
	r := newRedactor(&out)
	r.hide(secret.New(testToken))
	r.hide(secret.Secret{})
	text := "a " + testToken + " b AAHsecretsecretsecret c\n"
	n, err := r.Write([]byte(text))
	if n != len(text) || err != nil {
		t.Errorf("Write = %d, %v; want %d, nil", n, err, len(text))
	}
	if want := "a 111:[secret] b [secret] c\n"; out.String() != want {
		t.Errorf("written %q, want %q", out.String(), want)
	}
}

func TestLogLines(t *testing.T) {
	c, stderr := testCLI("TGBRIDGE_ROUTE=leader", "TGBRIDGE_ROUT=x", "TGBRIDGE_STATE_DIR=/state")
	cmd := c.echoCmd()
	c.rootCmd(cmd)
	if err := cmd.ParseFlags([]string{"--attempts", "5"}); err != nil {
		t.Fatal(err)
	}
	cfg, err := c.loadMemberConfig(cmd)
	if err != nil {
		t.Fatal(err)
	}
	log := c.logger(cfg)
	log.Debug().Msg("not at this level")
	logStart(log, cfg)

	var got []map[string]any
	for line := range strings.Lines(stderr.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if fields["time"] == "" || fields["state_dir"] == "" {
			t.Errorf("no time in %s", line)
		}
		delete(fields, "time")
		delete(fields, "state_dir") // of a form of the platform's
		got = append(got, fields)
	}
	want := []map[string]any{
		{
			"level": "info", "message": "start", "bot": 111.0, "api_host": "api.telegram.org", "name": "here", "version": "devel",
			"settings": map[string]any{
				"TELEGRAM_BOT_TOKEN": "environment", "TGBRIDGE_STATE_DIR": "environment", "TGBRIDGE_NAME": "environment",
				"TGBRIDGE_ROUTE": "environment", "TGBRIDGE_ATTEMPTS": "flag",
			},
		},
		{"level": "warn", "message": "unknown variables have no effect: TGBRIDGE_ROUT (meant TGBRIDGE_ROUTE?)"},
		{"level": "warn", "message": "nobody may use the bot: set TGBRIDGE_ALLOWED_USERS to numeric user ids, or TGBRIDGE_ALLOW_ALL=true for a public bot"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestLogFormatAuto checks that logs are JSON where stderr is no terminal.
func TestLogFormatAuto(t *testing.T) {
	tests := []struct {
		format   config.LogFormat
		terminal bool
		json     bool
	}{
		{config.LogAuto, false, true},
		{config.LogAuto, true, false},
		{config.LogJSON, true, true},
		{config.LogConsole, false, false},
	}
	for _, tt := range tests {
		c, stderr := testCLI()
		c.stderrTerminal = tt.terminal
		log := c.logger(config.Config{LogLevel: config.LogInfo, LogFormat: tt.format})
		log.Info().Str("key", "value").Msg("text")
		if got := json.Valid(stderr.Bytes()); got != tt.json || stderr.Len() == 0 {
			t.Errorf("%s, terminal %v: %s", tt.format, tt.terminal, stderr)
		}
	}
}

// TestEverySettingHasItsFlag checks that flags reach the configuration.
func TestEverySettingHasItsFlag(t *testing.T) {
	c, _ := testCLI()
	cmd := c.echoCmd()
	c.rootCmd(cmd)
	var args []string
	want := map[string]bool{}
	for _, v := range config.Variables() {
		if v.Flag != "" && v.Name != "TELEGRAM_BOT_TOKEN_FILE" && v.Example != v.Default {
			args = append(args, "--"+v.Flag+"="+v.Example)
			want[v.Name] = true
		}
	}
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	cfg, err := c.loadConfig(cmd)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, s := range cfg.Sources {
		if s.Source == config.SourceFlag {
			got[s.Variable] = true
		}
	}
	if !maps.Equal(want, got) {
		t.Errorf("set by flag: %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}
