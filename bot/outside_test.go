package bot_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// TestOutsideModule builds and runs testdata/outside in a module of its own,
// which knows nothing of this one but its path.
func TestOutsideModule(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/outside")); err != nil {
		t.Fatal(err)
	}
	ours, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go .*$`).Find(ours)
	mod := fmt.Sprintf("module example.org/outside\n\n%s\n\nrequire tgbridge v0.0.0\n\nreplace tgbridge => %s\n", version, root)
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"go.mod": []byte(mod), "go.sum": sums} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "outside")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}

	f, server := newFleet(t)
	bot := exec.Command(program)
	bot.Env = append(os.Environ(), "TELEGRAM_BOT_TOKEN="+f.token, "TELEGRAM_API_URL="+f.api, "TGBRIDGE_STATE_DIR="+f.state)
	bot.Stderr = f.output
	if err := bot.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- bot.Wait() }()
	say(t, server, 42, "hello")
	waitSent(t, server, 10*time.Second, "hello")
	if err := bot.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		_ = bot.Process.Kill()
		t.Errorf("still runs: %v", <-ended)
	}
	f.stopped(t)
}
