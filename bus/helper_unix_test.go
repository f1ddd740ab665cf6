//go:build unix

package bus_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tgbridge/bus"
	"tgbridge/internal/secret"
)

// runHelper is what this binary does as a process of its own.
func runHelper(mode string) int {
	path := os.Getenv("BUS_TEST_SOCKET")
	switch mode {
	case "serve": // until it is killed
		_, err := bus.Listen(bus.ServerOptions{Path: path, Secret: secret.New(secretText), Status: func(context.Context) any { return 1 }})
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("ready")
		select {}
	case "ask": // for the status, in plain HTTP
		conn, err := net.Dial("unix", path)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		_, _ = fmt.Fprintf(conn, "GET /v1/status HTTP/1.1\r\nHost: bus\r\nAuthorization: Bearer %s\r\n%s: 1\r\nConnection: close\r\n\r\n",
			secretText, bus.HeaderProtocol)
		answer, _ := io.ReadAll(conn)
		fmt.Printf("%s", answer)
		return 0
	}
	return 2
}

func helper(t *testing.T, mode, socket string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), helperEnv+"="+mode, "BUS_TEST_SOCKET="+socket)
	return cmd
}

// TestF47SocketLeftByKill: the socket of a killed process is replaced.
func TestF47SocketLeftByKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	cmd := helper(t, "serve", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make([]byte, len("ready"))
	if _, err := io.ReadFull(out, ready); err != nil || string(ready) != "ready" {
		t.Fatalf("helper: %q, %v", ready, err)
	}
	o := bus.ServerOptions{Path: path, Secret: secret.New(secretText), Status: func(context.Context) any { return 1 }}
	if _, err := bus.Listen(o); err == nil {
		t.Fatal("bound beside a live process")
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	begun := time.Now()
	s, err := bus.Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestG8OtherUser: a process of another user is refused, even with the secret.
func TestG8OtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	dir, err := os.MkdirTemp("/tmp", "bus") // which others may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s.sock")
	s, err := bus.Listen(bus.ServerOptions{Path: path, Secret: secret.New(secretText), Status: func(context.Context) any { return 1 }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skip("no copy of this binary for others to run: ", err)
	}
	other := filepath.Join(dir, "test")
	if err := os.WriteFile(other, exe, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(uid uint32) string {
		cmd := helper(t, "ask", path)
		cmd.Path, cmd.Dir = other, dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run()
		return out.String()
	}
	if got := run(0); !strings.Contains(got, "200 OK") {
		t.Errorf("same user: %s", got)
	}
	for _, name := range []string{dir, path} { // open what keeps others out
		if err := os.Chmod(name, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if got := run(65534); !strings.Contains(got, "403") || !strings.Contains(got, bus.CodeUser) || !strings.Contains(got, "65534") {
		t.Errorf("other user: %s", got)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run(65534); !strings.Contains(got, "permission denied") {
		t.Errorf("other user, socket as it is made: %s", got)
	}
}
