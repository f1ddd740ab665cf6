// Package bus carries deliveries from the leader to the members of one host and
// their acknowledgements and calls back, over unix sockets. It knows nothing of
// Telegram: what it carries are opaque bytes with an id, a lane and an attempt.
//
// # Parts
//
//   - Dispatcher decides: which member gets which delivery when, what an
//     acknowledgement, a death or a join means. It is plain code: an event in,
//     actions out; no goroutine, no clock, no I/O.
//   - Hub is the leader's half. One goroutine owns a Dispatcher, writes what it
//     decides to a Store before it acts on it, and feeds the members' streams.
//   - Server is every member's socket: it authenticates requests and hands them
//     to the hub while the member leads; otherwise it answers "not the leader".
//   - Worker is every member's other half: it joins the leader, runs handlers,
//     acknowledges, and repeats calls across a change of leader. Work belongs to
//     the worker, not to a leader: it survives both.
//   - Calls performs calls at the leader, each once for its request id.
//
// # Guarantees
//
// A delivery is recorded before it is sent, begun only by a member that reads
// its leader's term in the registry afterwards, and handled by one member at a
// time. Deliveries of one lane are handled one after another in the order of
// their arrival. An acknowledgement is answered after it is durable and the
// leader was found to lead still.
//
// # Goroutines
//
// Hub.Run owns the decisions, and waits for the replies and probes that it
// starts. A Server has one for each listener and connection, a Worker one for
// each handler and one for the acknowledgements of Follow, Calls one for each call:
// Run, Close, Wait and Follow wait for them.
//
// # Not promised
//
// A member that hung for longer than RedeliverAfter may run on for
// a moment when it wakes; what it acknowledges then is refused.
package bus
