// Package command runs one command for one delivery: bytes in on stdin, bytes
// out on stdout, and an end that comes when it is asked for.
//
// The contract of Run: a command gets a process group of its own. When the
// context ends, the group is asked to end (SIGTERM), and after a grace time
// killed. When the command ends by itself, what is left of its group is killed
// at once; a command that is to leave something running starts it in a session
// of its own (setsid). Output is bounded: what is beyond is read and dropped,
// so that no command blocks or fills memory. On Linux a command dies with the
// process that runs it, also if that is killed with SIGKILL.
//
// As pid 1, in a container without an init, a process inherits orphans and has
// to collect them when they end: Runner.ReapOrphans does so, and leaves alone
// what a Run waits for. The process does not make itself the reaper of its
// descendants elsewhere (PR_SET_CHILD_SUBREAPER): there an init exists, and
// what a command started in a session of its own is meant to outlive us.
//
// What is not promised: that processes which leave the group end (as pid 1 they
// end with us), and what Limits lists for the platform.
//
// Goroutines: Run has those of os/exec and one that watches the context, and
// waits for all of them; ReapOrphans has none of its own.
package command
