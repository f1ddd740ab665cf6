//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tgbridge/bot"
	"tgbridge/internal/botapitest"
	"tgbridge/lock"
)

// A fleet is a Bot API server and a state directory for processes of the
// program. What the processes write is kept, and searched for the token in the
// end (G8).
type fleet struct {
	t      *testing.T
	server *botapitest.Server
	state  string
	env    []string // of every process; later ones win
	output *output  // what all members and commands wrote
}

// quickTimes are times by which a member that hangs is soon known as such.
var quickTimes = []string{
	"TGBRIDGE_HEARTBEAT=200ms", "TGBRIDGE_STALE_AFTER=1500ms", "TGBRIDGE_OWNERSHIP_CHECK=500ms", "TGBRIDGE_REDELIVER_AFTER=3s",
}

// newFleet starts a server. Env is the environment of every process beside what
// they need.
func newFleet(t *testing.T, env ...string) *fleet {
	t.Helper()
	server, err := botapitest.New(botapitest.Options{NoLimits: true})
	if err != nil {
		t.Fatal(err)
	}
	running, err := server.Start("")
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, server: server, state: filepath.Join(t.TempDir(), "state"), output: &output{}}
	f.env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GORACE=atexit_sleep_ms=0",
		"TELEGRAM_BOT_TOKEN=" + botapitest.DefaultToken, "TELEGRAM_API_URL=" + running.URL,
		"TGBRIDGE_STATE_DIR=" + f.state, "TGBRIDGE_ALLOW_ALL=true", "TGBRIDGE_PACE=off", "TGBRIDGE_LOG_LEVEL=debug",
	}, env...)
	t.Cleanup(func() {
		running.Close()
		server.Close()
		f.findToken()
		if t.Failed() {
			text := f.output.String()
			t.Logf("the processes wrote:\n%s", text[max(0, len(text)-16000):])
		}
	})
	return f
}

// findToken fails the test if the token's secret part is in the output or in a
// file of the state directory.
func (f *fleet) findToken() {
	_, part, _ := strings.Cut(botapitest.DefaultToken, ":")
	if strings.Contains(f.output.String(), part) {
		f.t.Error("G8: the token is in the output")
	}
	_ = filepath.WalkDir(f.state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(part)) {
			f.t.Errorf("G8: the token is in %s", path)
		}
		return nil
	})
}

// output collects what processes write. It is safe for concurrent use.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// A process is one of the program, or of what runs it.
type process struct {
	name string
	cmd  *exec.Cmd
	said *output       // what it wrote to stderr
	gone chan struct{} // closed when it has ended
}

// program is the path of the program under test.
func program(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("tgbridge")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// start starts "tgbridge ARG..." as a member of that name.
func (f *fleet) start(name string, args ...string) *process {
	f.t.Helper()
	return f.startCommand(name, exec.Command(program(f.t), args...))
}

// startCommand starts a command that runs a member of that name. Its own
// environment comes behind the fleet's. It is killed at the end of the test.
func (f *fleet) startCommand(name string, cmd *exec.Cmd) *process {
	f.t.Helper()
	p := &process{name: name, cmd: cmd, said: &output{}, gone: make(chan struct{})}
	cmd.Env = slices.Concat(f.env, []string{"TGBRIDGE_NAME=" + name}, cmd.Env)
	cmd.Stderr = tee{p.said, f.output}
	if cmd.Stdout == nil {
		cmd.Stdout = f.output
	}
	cmd.WaitDelay = 5 * time.Second // what was left behind may hold the output
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() {
		defer close(p.gone)
		_ = cmd.Wait()
	}()
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.gone
	})
	return p
}

type tee [2]*output

func (w tee) Write(p []byte) (int, error) {
	_, _ = w[0].Write(p)
	return w[1].Write(p)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("signal %v to %s: %v", s, p.name, err)
	}
}

// wait waits for the process's end and returns its exit code, -1 after a signal.
func (p *process) wait(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-p.gone:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		t.Fatalf("%s has not ended within %v", p.name, within)
		return 0
	}
}

// A result is what a command left behind.
type result struct {
	code           int // -1 after a signal
	stdout, stderr string
	took           time.Duration
}

// run runs "tgbridge ARG..." to its end.
func (f *fleet) run(args ...string) result {
	f.t.Helper()
	return f.runWith("", nil, args...)
}

// runWith is run with standard input and further settings.
func (f *fleet) runWith(stdin string, env []string, args ...string) result {
	f.t.Helper()
	cmd := exec.Command(program(f.t), args...)
	cmd.Env = env
	cmd.Stdin = strings.NewReader(stdin)
	return f.runCommand(cmd)
}

// runCommand runs a command to its end, within two minutes.
func (f *fleet) runCommand(cmd *exec.Cmd) result {
	f.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Env = slices.Concat(f.env, cmd.Env)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	late := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		f.t.Fatal(err)
	}
	_, _ = f.output.Write(slices.Concat(stdout.Bytes(), stderr.Bytes()))
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), time.Since(began)}
}

// wants fails the test if the code is another, or stderr lacks one of the texts.
func (r result) wants(t *testing.T, code int, texts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d; stdout %q, stderr %q", r.code, code, r.stdout, r.stderr)
	}
	for _, text := range texts {
		if !strings.Contains(r.stderr, text) {
			t.Errorf("stderr lacks %q: %s", text, r.stderr)
		}
	}
}

// dir is the bot's directory.
func (f *fleet) dir() string { return bot.BotDir(f.state, f.server.ID()) }

// leader returns who holds the lease.
func (f *fleet) leader() (lock.Entry, bool) {
	e, err := lock.ReadLease(f.dir(), bot.LeaseKey(f.server.ID()))
	return e, err == nil && e.Held()
}

// waitLeader waits until one leads under a term above the given one.
func (f *fleet) waitLeader(above uint64, within time.Duration) lock.Entry {
	f.t.Helper()
	var e lock.Entry
	eventually(f.t, within, func() string {
		var held bool
		if e, held = f.leader(); !held || e.Epoch <= above {
			return fmt.Sprintf("nobody leads above term %d", above)
		}
		return ""
	})
	return e
}

// waitMembers waits until n members lead or have joined the leader, and returns
// who leads.
func (f *fleet) waitMembers(n int) lock.Entry {
	f.t.Helper()
	o := lock.NewObserver(lock.ObserverOptions{Dir: f.dir(), LocksBelieved: true})
	var e lock.Entry
	eventually(f.t, 20*time.Second, func() string {
		var held bool
		e, held = f.leader()
		readings, err := o.Members()
		if err != nil || !held {
			return fmt.Sprintf("nobody leads (%v)", err)
		}
		joined := 0
		for _, r := range readings {
			if !r.Dead() && r.Info.Joined == e.Epoch && (r.Info.Role == lock.RoleFollower || r.Info.Role == lock.RoleLeader) {
				joined++
			}
		}
		if joined != n {
			return fmt.Sprintf("%d members are joined, want %d", joined, n)
		}
		return ""
	})
	return e
}

// led starts n members m1, m2, ... with args, and returns the one that leads and
// one that follows (nil if there is none).
func (f *fleet) led(n int, args ...string) (leader, follower *process) {
	f.t.Helper()
	var all []*process
	for i := range n {
		all = append(all, f.start(fmt.Sprintf("m%d", i+1), args...))
	}
	e := f.waitMembers(n)
	for _, p := range all {
		if p.pid() == e.PID {
			leader = p
		} else {
			follower = p
		}
	}
	return leader, follower
}

// status is `status --json`, which must succeed with the given exit code.
func (f *fleet) status(code int) bot.Status {
	f.t.Helper()
	r := f.run("status", "--json")
	r.wants(f.t, code)
	var s bot.Status
	if err := json.Unmarshal([]byte(r.stdout), &s); err != nil {
		f.t.Fatalf("%v in %q", err, r.stdout)
	}
	return s
}

// say sends a message of a user in the private chat.
func (f *fleet) say(chat int64, text string) {
	f.t.Helper()
	if _, err := f.server.Say(botapitest.Message{User: chat, Text: text}); err != nil {
		f.t.Fatal(err)
	}
}

// fault arms a fault of the server.
func (f *fleet) fault(fault botapitest.Fault) {
	f.t.Helper()
	if _, err := f.server.AddFault(fault); err != nil {
		f.t.Fatal(err)
	}
}

// sent are the messages that the bot sent into a chat, in order.
func (f *fleet) sent(chat int64) []string {
	var texts []string
	events, _ := f.server.Ledger(0)
	for _, e := range events {
		if e.Kind == botapitest.EventSent && e.Chat == chat {
			texts = append(texts, e.Text)
		}
	}
	return texts
}

// waitSent waits until the bot has sent n messages into a chat, and returns them.
func (f *fleet) waitSent(chat int64, n int) []string {
	f.t.Helper()
	var texts []string
	eventually(f.t, 20*time.Second, func() string {
		if texts = f.sent(chat); len(texts) < n {
			return fmt.Sprintf("chat %d got %d messages, want %d", chat, len(texts), n)
		}
		return ""
	})
	return texts
}

// wantSent waits for exactly these messages.
func (f *fleet) wantSent(chat int64, want ...string) {
	f.t.Helper()
	if got := f.waitSent(chat, len(want)); !slices.Equal(got, want) {
		f.t.Errorf("chat %d got %q, want %q", chat, got, want)
	}
}

// polls are the requests for updates so far.
func (f *fleet) polls() []botapitest.Request {
	events, _ := f.server.Ledger(0)
	return slices.DeleteFunc(botapitest.Requests(events), func(r botapitest.Request) bool { return r.Begin.Method != "getupdates" })
}

// waitCall waits until a call of the method, in lower case, has begun.
func (f *fleet) waitCall(method string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 20*time.Second)
	defer cancel()
	if _, err := f.server.WaitEvent(ctx, 0, func(e botapitest.Event) bool {
		return e.Kind == botapitest.EventBegin && e.Method == method
	}); err != nil {
		f.t.Fatal(err)
	}
}

// waitFile waits until a file has n lines, and returns them.
func waitFile(t *testing.T, path string, n int) []string {
	t.Helper()
	var lines []string
	eventually(t, 20*time.Second, func() string {
		text, _ := os.ReadFile(path)
		if lines = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"); strings.Count(string(text), "\n") < n {
			return fmt.Sprintf("%s has not %d lines: %q", filepath.Base(path), n, text)
		}
		return ""
	})
	return lines
}

// eventually waits until check returns "" and fails with what it said last.
func eventually(t *testing.T, within time.Duration, check func() string) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		said := check()
		if said == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, said)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
