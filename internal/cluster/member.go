package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"tgbridge/internal/botapitest"
)

// ErrNotRunning means that a member has no process.
var ErrNotRunning = errors.New("member does not run")

// A Member is a process of the cluster, or what is left of one. Restarting a
// member makes a new process under the same name.
type Member struct {
	c    *Cluster
	name string

	// What follows is guarded by c.mu.
	process  int                 // number of the process
	pid      int                 // 0 if it has ended
	running  *botapitest.Running // the process's way to the server
	ended    chan struct{}       // closed when the process has ended
	exit     error               // what it ended with
	expected bool                // that it ends was asked for
	frozen   bool
	logs     []string
}

// Name is the member's name, m1 for the first.
func (m *Member) Name() string { return m.name }

// PID is the id of the member's process, 0 if it has none.
func (m *Member) PID() int {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	return m.pid
}

// Logs are the paths of what the member's processes wrote to stdout and
// stderr, one for each process.
func (m *Member) Logs() []string {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	return slices.Clone(m.logs)
}

// Ended is closed when the present process has ended.
func (m *Member) Ended() <-chan struct{} {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	return m.ended
}

// Exit is what the last process ended with, as exec.Cmd.Wait has it: nil for
// status 0.
func (m *Member) Exit() error {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	return m.exit
}

// Members are all members ever started, in order.
func (c *Cluster) Members() []*Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.members)
}

// Start starts a further member, m1 for the first. Errors: the system's.
func (c *Cluster) Start() (*Member, error) {
	c.mu.Lock()
	m := &Member{c: c, name: fmt.Sprintf("m%d", len(c.members)+1)}
	c.members = append(c.members, m)
	c.mu.Unlock()
	return m, m.start()
}

// Restart starts the member anew. Its process must have ended.
func (m *Member) Restart() error {
	if pid := m.PID(); pid != 0 {
		return fmt.Errorf("restart %s: its process %d runs", m.name, pid)
	}
	return m.start()
}

// start runs a process for the member.
func (m *Member) start() error {
	running, err := m.c.server.Start("")
	if err != nil {
		return fmt.Errorf("start %s: %w", m.name, err)
	}
	number := m.enlist(running)
	path := filepath.Join(m.c.o.Dir, "logs", fmt.Sprintf("%s.%d.log", m.name, number))
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", m.name, err)
	}
	cmd := exec.Command(m.c.o.Argv[0], m.c.o.Argv[1:]...)
	cmd.Env = m.c.o.environment(m.name, running.URL, m.c.state)
	cmd.Stdout, cmd.Stderr = log, log
	detach(cmd)
	begun := make(chan error, 1)
	m.c.tasks.Go(func() {
		defer log.Close()
		m.run(cmd, path, begun)
	})
	if err := <-begun; err != nil {
		return fmt.Errorf("start %s: %w", m.name, err)
	}
	return nil
}

// enlist gives the process to come a number and lets the judge know its
// address.
func (m *Member) enlist(running *botapitest.Running) int {
	at := m.c.now()
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.c.started++
	m.process, m.running, m.expected, m.frozen = m.c.started, running, false, false
	m.c.judge.process(m.process, m.name, running.Addr)
	m.c.judge.incident(Incident{Kind: Started, Member: m.name, Process: m.process, At: at})
	return m.process
}

// run starts a process, tells begun, and waits for its end. It keeps its
// thread: where the system can, the process dies with that.
func (m *Member) run(cmd *exec.Cmd, path string, begun chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		begun <- err
		return
	}
	ended := make(chan struct{})
	m.c.mu.Lock()
	m.pid, m.ended, m.exit = cmd.Process.Pid, ended, nil
	m.logs = append(m.logs, path)
	m.c.mu.Unlock()
	begun <- nil

	err := cmd.Wait()
	at := m.c.now()
	m.c.mu.Lock()
	if !m.expected {
		m.c.judge.incident(m.incident(Exited, at))
	}
	m.pid, m.exit = 0, err
	running := m.running
	close(ended)
	m.c.tell()
	m.c.mu.Unlock()
	running.Close()
}

// incident is something done to the present process; c.mu is held.
func (m *Member) incident(kind IncidentKind, at time.Duration) Incident {
	i := Incident{Kind: kind, Member: m.name, Process: m.process, PID: m.pid, At: at}
	if m.c.lease.Process == m.process {
		i.Led, i.Term = true, m.c.lease.Term
	}
	return i
}

// do signals the process and tells the judge before it does.
func (m *Member) do(kind IncidentKind, signal func(pid int) error) error {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if m.pid == 0 {
		return fmt.Errorf("%s %s: %w", kind, m.name, ErrNotRunning)
	}
	if err := m.c.o.noteStrike(kind, m.pid); err != nil {
		return fmt.Errorf("%s %s: %w", kind, m.name, err)
	}
	i := m.incident(kind, m.c.now())
	m.c.judge.incident(i)
	if err := signal(m.pid); err != nil {
		m.c.judge.forget(i)
		return fmt.Errorf("%s %s: %w", kind, m.name, err)
	}
	m.expected = m.expected || kind == Killed || kind == Terminated
	m.frozen = kind == Frozen || m.frozen && kind != Thawed
	m.c.o.Logger.Info().Str("kind", string(kind)).Str("member", m.name).Bool("led", i.Led).Msg("incident")
	return nil
}

// Kill ends the process at once (SIGKILL). Errors: ErrNotRunning, the system's.
func (m *Member) Kill() error { return m.do(Killed, kill) }

// Freeze stops the process where it is (SIGSTOP). Errors: ErrNotRunning, the
// system's, errors.ErrUnsupported.
func (m *Member) Freeze() error { return m.do(Frozen, freeze) }

// Thaw lets a frozen process go on (SIGCONT). Errors as for Freeze.
func (m *Member) Thaw() error { return m.do(Thawed, thaw) }

// Terminate asks the process to end (SIGTERM). Errors as for Freeze.
func (m *Member) Terminate() error { return m.do(Terminated, terminate) }

// Disconnect cuts the process off the server until Reconnect: its connections
// break and new ones are refused. Error: ErrNotRunning.
func (m *Member) Disconnect() error {
	m.c.mu.Lock()
	running := m.running
	m.c.mu.Unlock()
	err := m.do(CutOff, func(int) error { return nil })
	if err == nil {
		running.Close()
	}
	return err
}

// Reconnect undoes Disconnect. Errors: the system's.
func (m *Member) Reconnect() error {
	m.c.mu.Lock()
	addr := m.running.Addr
	m.c.mu.Unlock()
	running, err := m.c.server.Start(addr)
	if err != nil {
		return fmt.Errorf("reconnect %s: %w", m.name, err)
	}
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.running = running
	return nil
}

// end kills the process, if there is one, and what it started, and waits.
func (m *Member) end() {
	m.c.mu.Lock()
	pid, ended := m.pid, m.ended
	m.expected = true
	m.c.mu.Unlock()
	if pid != 0 {
		_ = killGroup(pid)
	}
	if ended != nil {
		<-ended
	}
}
