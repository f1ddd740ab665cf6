// Package cluster runs members of one bot as processes of this machine against
// a Bot API server of its own, does to them what happens to processes, and
// judges from the server's ledger what users would have seen.
//
// A [Cluster] starts members (any program that takes tgbridge's environment),
// gives them load, kills, freezes, thaws, stops and restarts them, and asks for
// handovers. Each of these is an incident with an instant on the server's
// clock. [Cluster.Report] then tells which messages were lost, answered twice
// (and why), answered out of order or in the wrong chat, how long nobody polled
// after each incident that hit the leader, and whether a deposed leader polled.
//
// # Who sent a request
//
// Members are told apart without their help: every process gets an address of
// the server of its own (the same server, another port), in TELEGRAM_API_URL.
// So each request is known to be of one process, also of one that is dead by
// the time it is looked at, on every system. Who leads is read from the
// registry, as an operator would.
//
// # What is not promised
//
// Members are told apart by address, so a program that calls the Bot API under
// a fixed address is seen as none of them. The registry is looked at every 2
// ms: a lease that comes and goes in between is not seen. Freezing needs a
// system with SIGSTOP.
//
// # Goroutines
//
// One follows the ledger, one watches the registry, and one for each process
// waits for its end; Close waits for all.
package cluster
