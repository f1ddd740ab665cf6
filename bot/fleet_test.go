package bot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tgbridge/bot"
	"tgbridge/bus"
	"tgbridge/internal/botapitest"
	"tgbridge/lock"
)

// A fleet is a Bot API server and a state directory, with members that are
// processes (start) or run in this process (run).
type fleet struct {
	t          *testing.T
	server     *botapitest.Server
	api, state string
	token      string
	handled    string            // path of the log that handlers of processes write
	extra      []string          // environment of member processes
	prepare    func(*bot.Bridge) // if set, gets each member of this process before it runs
	output     *output           // what all members log, and the processes print
}

// newFleet starts a server and returns a fleet without members. At the end of
// the test it looks for the token in all that was printed or is on disk (G8).
func newFleet(t *testing.T) (*fleet, *botapitest.Server) {
	t.Helper()
	server, err := botapitest.New(botapitest.Options{NoLimits: true})
	if err != nil {
		t.Fatal(err)
	}
	running, err := server.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f := &fleet{
		t: t, server: server, api: running.URL, state: filepath.Join(dir, "state"), handled: filepath.Join(dir, "handled"),
		token: botapitest.DefaultToken, output: &output{},
	}
	t.Cleanup(func() {
		running.Close()
		server.Close()
		if t.Failed() {
			text := f.output.String()
			t.Logf("members said:\n%s", text[max(0, len(text)-outputShown):])
		}
		f.findToken()
	})
	return f, server
}

// outputShown is how much of the output a failed test shows.
const outputShown = 20000

// output collects what members say. It is safe for concurrent use.
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

// secretPart is what of a token nobody may see.
func secretPart(token string) string {
	_, part, _ := strings.Cut(token, ":")
	return part
}

// findToken fails the test if the token's secret part is in the output or in a
// file of the state directory.
func (f *fleet) findToken() {
	part := secretPart(f.token)
	if strings.Contains(f.output.String(), part) {
		f.t.Error("G8: the token is in the members' output")
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

// dir is the bot's directory.
func (f *fleet) dir() string { return bot.BotDir(f.state, botID(f.token)) }

// leader returns who holds the lease.
func (f *fleet) leader() (lock.Entry, bool) {
	e, err := lock.ReadLease(f.dir(), bot.LeaseKey(botID(f.token)))
	return e, err == nil && e.Held()
}

// waitLeader waits until another than the given instance leads.
func (f *fleet) waitLeader(not string) lock.Entry {
	f.t.Helper()
	var e lock.Entry
	eventually(f.t, 15*time.Second, func() string {
		var held bool
		if e, held = f.leader(); !held || e.InstanceID == not {
			return "no other member leads"
		}
		return ""
	})
	return e
}

// client returns a client of the leader's bus, as a command has one.
func (f *fleet) client(e lock.Entry) *bus.Client {
	c := bus.NewClient(bot.Target(f.dir(), e), "test-command")
	f.t.Cleanup(c.Close)
	return c
}

// status asks the leader. It fails the test if nobody answers within 5 s.
func (f *fleet) status() bot.Status {
	f.t.Helper()
	var s bot.Status
	eventually(f.t, 5*time.Second, func() string {
		e, held := f.leader()
		if !held {
			return "nobody leads"
		}
		c := f.client(e)
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := c.Status(ctx, &s); err != nil {
			return err.Error()
		}
		return ""
	})
	return s
}

// waitMembers waits until a leader and n-1 members that have joined it are there.
func (f *fleet) waitMembers(n int) {
	f.t.Helper()
	o := lock.NewObserver(lock.ObserverOptions{Dir: f.dir(), LocksBelieved: true})
	eventually(f.t, 15*time.Second, func() string {
		e, held := f.leader()
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
}

// waitPending waits until n deliveries are not finished.
func (f *fleet) waitPending(n int) {
	f.t.Helper()
	eventually(f.t, 15*time.Second, func() string {
		if s := f.status(); !s.Counted || s.Pending != n || s.Role != string(lock.RoleLeader) {
			return fmt.Sprintf("%d deliveries are pending, want %d", s.Pending, n)
		}
		return ""
	})
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

// say sends a message to the bot and returns its update id.
func say(t *testing.T, server *botapitest.Server, chat int64, text string) int64 {
	t.Helper()
	id, err := server.Say(botapitest.Message{User: chat, Text: text})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// sentTexts returns the texts of all messages that the bot sent, and how often.
func sentTexts(s *botapitest.Server) map[string]int {
	texts := map[string]int{}
	events, _ := s.Ledger(0)
	for _, e := range events {
		if e.Kind == botapitest.EventSent {
			texts[e.Text]++
		}
	}
	return texts
}

// waitSent waits until each of the texts was sent, and fails if one was sent
// more than once.
func waitSent(t *testing.T, server *botapitest.Server, within time.Duration, texts ...string) {
	t.Helper()
	eventually(t, within, func() string {
		sent := sentTexts(server)
		for _, text := range texts {
			if n := sent[text]; n > 1 {
				t.Fatalf("%q was sent %d times", text, n)
			} else if n == 0 {
				return fmt.Sprintf("%q was not sent; sent: %v", text, sent)
			}
		}
		return ""
	})
}

// A process is a member process.
type process struct {
	name string
	cmd  *exec.Cmd
	gone chan struct{} // closed when it has ended
	err  error         // of Wait, once gone
}

func (m *process) pid() int { return m.cmd.Process.Pid }

func (m *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := m.cmd.Process.Signal(s); err != nil {
		t.Fatalf("signal %v to %s: %v", s, m.name, err)
	}
	if s == syscall.SIGSTOP {
		eventually(t, 5*time.Second, m.stillRuns)
	}
}

// stillRuns says which thread has not been stopped yet, where the system tells:
// kill(2) returns before all are.
func (m *process) stillRuns() string {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", m.pid()))
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if _, state, _ := bytes.Cut(stat, []byte(") ")); err == nil && !bytes.HasPrefix(state, []byte("T")) {
			return fmt.Sprintf("%s runs: %.1s", thread, state)
		}
	}
	return ""
}

// wait waits for the process's end.
func (m *process) wait(t *testing.T, within time.Duration) {
	t.Helper()
	select {
	case <-m.gone:
	case <-time.After(within):
		t.Fatalf("%s has not ended within %v", m.name, within)
	}
}

// start starts a member process. Env adds to its environment, see memberMain.
func (f *fleet) start(name string, env ...string) *process {
	f.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), memberEnv+"=1", "TEST_NAME="+name, "TEST_API="+f.api, "TEST_STATE="+f.state,
		"TEST_LOG="+f.handled, "TEST_TOKEN="+f.token)
	cmd.Env = append(append(cmd.Env, f.extra...), env...)
	cmd.Stderr = f.output
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	m := &process{name: name, cmd: cmd, gone: make(chan struct{})}
	go func() {
		defer close(m.gone)
		m.err = cmd.Wait()
	}()
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-m.gone
	})
	return m
}

// byPID returns the member with that process id.
func byPID(members []*process, pid int) *process {
	for _, m := range members {
		if m.pid() == pid {
			return m
		}
	}
	return nil
}

// A local is a member in this process.
type local struct {
	*bot.Bridge
	name string
	stop context.CancelFunc
	done chan struct{} // closed when Run has returned
	err  error         // of Run, once done
}

// options are those of a member in this process.
func (f *fleet) options(name string) bot.Options {
	return bot.Options{
		Token: bot.NewSecret(f.token), APIURL: f.api, StateDir: f.state, Name: name, Version: name,
		AllowAll: true, Unpaced: true,
		Logger: zerolog.New(f.output).With().Timestamp().Str("m", name).Logger().Level(zerolog.DebugLevel),
	}
}

// run runs a member in this process until the test ends.
func (f *fleet) run(o bot.Options, h bot.Handler) *local {
	f.t.Helper()
	b, err := bot.New(o)
	if err != nil {
		f.t.Fatal(err)
	}
	if f.prepare != nil {
		f.prepare(b)
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &local{Bridge: b, name: o.Name, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		m.err = b.Run(ctx, h)
	}()
	f.t.Cleanup(func() { m.end(f.t) })
	return m
}

// end stops the member and waits for it.
func (m *local) end(t *testing.T) {
	t.Helper()
	m.stop()
	select {
	case <-m.done:
	case <-time.After(10 * time.Second):
		t.Errorf("%s has not stopped within 10s", m.name)
	}
}

// result waits for the end of Run by itself.
func (m *local) result(t *testing.T, within time.Duration) error {
	t.Helper()
	select {
	case <-m.done:
		return m.err
	case <-time.After(within):
		t.Fatalf("%s still runs after %v", m.name, within)
		return nil
	}
}

// echo answers "<name> <text>", as the members that are processes do.
func echo(name string) bot.Handler {
	return bot.HandlerFunc(func(_ context.Context, u *bot.Update) (bot.Reply, error) {
		return bot.Reply{Text: name + " " + u.Text()}, nil
	})
}

// botID is the number in a token.
func botID(token string) int64 {
	head, _, _ := strings.Cut(token, ":")
	id, _ := strconv.ParseInt(head, 10, 64)
	return id
}

// setting is an element of a process's environment that overrides options.
func setting(t *testing.T, options map[string]any) string {
	t.Helper()
	text, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	return optionsEnv + "=" + string(text)
}

// quick are times with which a member that hangs is soon known as such.
func quick(o *bot.Options) {
	o.Heartbeat, o.StaleAfter, o.OwnershipCheck, o.RedeliverAfter = 200*time.Millisecond, 1500*time.Millisecond, 500*time.Millisecond, 3*time.Second
}

// quickSetting is quick for processes.
func quickSetting(t *testing.T) string {
	var o bot.Options
	quick(&o)
	return setting(t, map[string]any{
		"Heartbeat": o.Heartbeat, "StaleAfter": o.StaleAfter, "OwnershipCheck": o.OwnershipCheck, "RedeliverAfter": o.RedeliverAfter,
	})
}
