//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tgbridge/config"
	"tgbridge/internal/botapitest"
)

// TestAllSettingsWrong: every variable is wrong at once, and each is told, with
// none of the secrets; the same by flags.
func TestAllSettingsWrong(t *testing.T) {
	t.Parallel()
	wrong := map[string]string{
		"TELEGRAM_BOT_TOKEN":       "7:AAsecretsecret\nsecret",
		"TELEGRAM_API_URL":         "http://user:hiddenpassword@host",
		"TGBRIDGE_STATE_DIR":       "~/state",
		"TGBRIDGE_NAME":            "a\x01b",
		"TGBRIDGE_ROUTE":           "both",
		"TGBRIDGE_ALLOWED_USERS":   "@ann,-5,x",
		"TGBRIDGE_ALLOW_ALL":       "maybe",
		"TGBRIDGE_ALLOWED_UPDATES": "Message!",
		"TGBRIDGE_CONCURRENCY":     "0",
		"TGBRIDGE_PACE":            "slow",
		"TGBRIDGE_HANDLER_TIMEOUT": "10",
		"TGBRIDGE_ATTEMPTS":        "none",
		"TGBRIDGE_HEARTBEAT":       "2s",
		"TGBRIDGE_STALE_AFTER":     "1ms",
		"TGBRIDGE_OWNERSHIP_CHECK": "-1s",
		"TGBRIDGE_POLL_TIMEOUT":    "1m",
		"TGBRIDGE_REDELIVER_AFTER": "soon",
		"TGBRIDGE_WEBHOOK":         "drop",
		"TGBRIDGE_LOG_LEVEL":       "loud",
		"TGBRIDGE_LOG_FORMAT":      "xml",
	}
	const secretFile = "/nowhere/7:AAsecretsecret-in-the-wrong-place"
	f := newFleet(t)
	var env, flags []string
	want := []string{"the configuration has 20 faults:"}
	for _, v := range config.Variables() {
		if v.Name == "TELEGRAM_BOT_TOKEN_FILE" {
			continue // beside the token a fault of its own
		}
		value, ok := wrong[v.Name]
		if !ok {
			t.Errorf("no wrong value for %s", v.Name)
		}
		env = append(env, v.Name+"="+value)
		if v.Flag != "" {
			flags = append(flags, "--"+v.Flag+"="+value)
		}
		if v.Name != "TGBRIDGE_HEARTBEAT" { // its limit is a part of another
			want = append(want, "\n  "+v.Name)
		}
	}
	want[0] = fmt.Sprintf("the configuration has %d faults:", len(want)-1)
	r := f.runWith("", env, "echo")
	r.wants(t, 2, want...)
	noSecrets(t, r)
	r = f.runWith("", []string{"TELEGRAM_BOT_TOKEN=", "TELEGRAM_BOT_TOKEN_FILE=" + secretFile}, "echo")
	r.wants(t, 2, "TELEGRAM_BOT_TOKEN_FILE: cannot read ")
	noSecrets(t, r)

	// pflag itself refuses what is no boolean, and the first alone.
	var others []string
	for _, flag := range flags {
		if strings.HasPrefix(flag, "--allow-all=") {
			f.run("echo", flag).wants(t, 2, `invalid argument "maybe" for "--allow-all" flag`)
		} else {
			others = append(others, flag)
		}
	}
	r = f.runWith("", nil, append([]string{"echo"}, others...)...)
	r.wants(t, 2, fmt.Sprintf("the configuration has %d faults:", len(want)-3), "TGBRIDGE_ROUTE (given as --route): ")
	noSecrets(t, r)
}

func noSecrets(t *testing.T, r result) {
	t.Helper()
	for _, secret := range []string{"AAsecret", "hiddenpassword"} {
		if strings.Contains(r.stdout+r.stderr, secret) {
			t.Errorf("%s is shown: %s%s", secret, r.stdout, r.stderr)
		}
	}
}

// TestNobodyAllowed is told with its remedy when a member starts.
func TestNobodyAllowed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "TGBRIDGE_ALLOW_ALL=")
	p := f.start("m1", "echo")
	f.waitMembers(1)
	text := p.said.String()
	if !strings.Contains(text, `{"level":"warn","time":`) || !strings.Contains(text, `"nobody may use the bot: set TGBRIDGE_ALLOWED_USERS to numeric user ids, or TGBRIDGE_ALLOW_ALL=true for a public bot"`) {
		t.Errorf("logged %s", text)
	}
}

// TestTokenRefused ends a member with exit code 3 and says where a token is from.
// The lease is free again (F53).
func TestTokenRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	const renewed = "8112046593:AAanother-secret-of-the-same-bot-00"
	r := f.runWith("", []string{"TELEGRAM_BOT_TOKEN=" + renewed}, "echo")
	r.wants(t, 3, "tgbridge: ", "token refused by Telegram: check it at @BotFather")
	if strings.Contains(r.stderr, "AAanother") {
		t.Errorf("the token is shown: %s", r.stderr)
	}
	began := time.Now()
	f.start("m1", "echo")
	f.waitMembers(1)
	if took := time.Since(began); took > 8*time.Second { // 3 s on a machine that does nothing else
		t.Errorf("the next start led after %v", took)
	}
}

// TestWebhook is F6: kept, it ends the member with exit code 2 and what to do;
// deleted, once, pending updates stay.
func TestWebhook(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.server.SetWebhook("https://example.org/hook")
	f.say(42, "waiting")
	f.run("echo").wants(t, 2, "webhook", "TGBRIDGE_WEBHOOK=delete")
	f.env = append(f.env, "TGBRIDGE_WEBHOOK=delete")
	f.led(1, "echo")
	if got := f.waitSent(42, 1)[0]; !strings.HasPrefix(got, "waiting\n") {
		t.Errorf("sent %q", got)
	}
	deleted := 0
	events, _ := f.server.Ledger(0)
	for _, e := range events {
		if e.Kind == botapitest.EventBegin && e.Method == "deletewebhook" {
			deleted++
		}
	}
	if deleted != 1 {
		t.Errorf("deleteWebhook was called %d times", deleted)
	}
}

// TestSettingsMustAgree: a member whose times differ from the leader's is refused
// with exit code 2 and told which; other allowed users are told on both sides.
func TestSettingsMustAgree(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	leader, _ := f.led(1, "echo")
	f.runWith("", []string{"TGBRIDGE_STALE_AFTER=6s"}, "echo").wants(t, 2, "stale-after is 5000 ms at the leader, 6000 ms here")
	other := f.start("other", "echo", "--allow-all=false", "--allowed-users", "42")
	f.waitMembers(2)
	for _, p := range []*process{leader, other} {
		eventually(t, 5*time.Second, func() string {
			if text := p.said.String(); !strings.Contains(text, "allow") {
				return p.name + " wrote " + text
			}
			return ""
		})
	}
	if e, _ := f.leader(); e.Epoch != 1 {
		t.Errorf("term %d", e.Epoch)
	}
}

// asUser makes the process another user's, or skips the test.
func asUser(t *testing.T, uid uint32) *syscall.SysProcAttr {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
}

// reachable returns a new directory that other users can get to, with the
// program in it.
func reachable(t *testing.T) (dir, tgbridge string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "tgbridge-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	tgbridge = filepath.Join(dir, "tgbridge")
	// Not written by this process: a fork beside it would keep the file busy.
	if out, err := exec.Command("cp", program(t), tgbridge).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir, tgbridge
}

// TestStateDirectory: what cannot be used as one ends a member at once, with
// exit code 4, the path and what to do.
func TestStateDirectory(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inside := func(name, place string) string {
		state := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(filepath.Join(state, "8112046593", place)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(state, "8112046593", place), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return state
	}
	tests := []struct {
		name, state string
		want        []string
	}{
		{"a file", file, []string{file, "not a directory", "set another"}},
		{"below a file", filepath.Join(file, "state"), []string{file, "not a directory"}},
		{"a name too long", filepath.Join(dir, strings.Repeat("x", 300)), []string{strings.Repeat("x", 300), "file name too long", "set another"}},
		{"a path too long", filepath.Join(dir, strings.Repeat(strings.Repeat("x", 99)+"/", 50)), []string{"file name too long", "set another"}},
		{"a file for the bot", inside("a", ""), []string{filepath.Join(dir, "a/8112046593"), "not a directory"}},
		{"a file for the members", inside("b", "members"), []string{filepath.Join(dir, "b/8112046593/members"), "not a directory"}},
		{"a file for the sockets", inside("c", "sockets"), []string{filepath.Join(dir, "c/8112046593/sockets"), "not a directory"}},
		{"a file for the journal", inside("d", "journal"), []string{filepath.Join(dir, "d/8112046593/journal")}},
		{"a directory for the registry", inside("e", "locks.json/x"), []string{filepath.Join(dir, "e/8112046593/locks.json"), "directory"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := f.runWith("", []string{"TGBRIDGE_STATE_DIR=" + tt.state}, "echo")
			r.wants(t, 4, tt.want...)
			if r.took > 20*time.Second {
				t.Errorf("took %v", r.took)
			}
		})
	}
}
