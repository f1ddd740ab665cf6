//go:build unix

package bot_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tgbridge/bot"
	"tgbridge/internal/botapitest"
)

// TestStateDirIsResolvedOnce: where the state directory is a link, a member stays
// in the directory that it pointed to at the start. If it went along, members
// that follow and members that do not would poll at the same time.
func TestStateDirIsResolvedOnce(t *testing.T) {
	f, server := newFleet(t)
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	link := func(to string) {
		t.Helper()
		if err := errors.Join(os.Symlink(to, f.state+".new"), os.Rename(f.state+".new", f.state)); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{first, second} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link(first)
	m1 := f.run(f.options("m1"), echo("m1"))
	f.waitMembers(1)
	link(second)
	for _, text := range []string{"one", "two"} { // ownership is checked before each
		say(t, server, 42, text)
		waitSent(t, server, 10*time.Second, "m1 "+text)
	}
	if entries, err := os.ReadDir(second); err != nil || len(entries) > 0 {
		t.Errorf("%v appeared (%v)", entries, err)
	}
	link(first)
	if e, held := f.leader(); !held || e.Epoch != 1 {
		t.Errorf("held %v, term %d", held, e.Epoch)
	}
	m1.end(t)
	f.stopped(t)
}

// TestStateDirIsAbsolute: a member that changes its working directory, or was
// started in another, means the same directory.
func TestStateDirIsAbsolute(t *testing.T) {
	tests := []struct {
		name, stateDir, home, xdg string
		want                      string // below the test's directory
	}{
		{"given", "mine", "", "", "mine"},
		{"relative XDG_STATE_HOME does not count", "", "HERE/home", "state", "home/.local/state/tgbridge"},
		{"XDG_STATE_HOME", "", "HERE/home", "HERE/xdg", "xdg/tgbridge"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			here := t.TempDir()
			t.Chdir(here)
			t.Setenv("HOME", strings.Replace(tt.home, "HERE", here, 1))
			t.Setenv("XDG_STATE_HOME", strings.Replace(tt.xdg, "HERE", here, 1))
			b, err := bot.New(bot.Options{Token: bot.NewSecret(botapitest.DefaultToken), StateDir: tt.stateDir})
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(t.TempDir())
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // it makes its directory, and stops
			if err := b.Run(ctx, echo("m")); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(bot.BotDir(filepath.Join(here, tt.want), botID(botapitest.DefaultToken))); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRelativeHome(t *testing.T) {
	t.Setenv("HOME", "home")
	t.Setenv("XDG_STATE_HOME", "")
	_, err := bot.New(bot.Options{Token: bot.NewSecret(botapitest.DefaultToken)})
	if want := `HOME ("home") is no absolute path`; !errors.Is(err, bot.ErrOptions) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}
