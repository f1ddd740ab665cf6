// Package polling fetches a bot's updates while, and only while, it holds the
// bot's lease, and hands them to a Sink that makes them durable.
//
// It holds the ownership watcher, the poll loop, the back-off, the step-down
// and the judgement of progress. It knows the Bot API's getUpdates as far as
// answers and errors go; how it is called (Source), where updates go (Sink),
// how the lease is kept (Lease, that is package lock) and how one follows
// another leader (Registrar) is others' business.
//
// # What is promised
//
//   - A leadership begins requests, commits and confirmations only while it
//     owns the lease: ownership is verified by a fresh read before each, once
//     a second beside, and a check that cannot be made is no answer: nothing
//     begins until one succeeds. After a loss, or from the moment a stop was
//     asked for, nothing begins any more, whatever state the loop is in (G1,
//     G5).
//   - An update is durable (Sink.Commit has returned) before a request that
//     confirms it begins (G2). A poll confirms what the answer before it
//     brought; the first one of a leadership confirms nothing.
//   - Failures never move the lease: outages, refusals, conflicts, penalties
//     and a full Sink are waited out, for ever if need be. What does: a loss,
//     a Stop, the own deadline, a failed Sink, a webhook that is to be kept,
//     and a token that was never accepted.
//   - A leader that does not get on steps down before others hold it for hung:
//     0.8 x stale-after after the last pass of its loop, or the last check of
//     ownership that succeeded, or a phase's limit. See Progress.
//   - A step-down always ends, and in a fixed order: last request closed,
//     dispatching stopped, leadership's context ended, lease released.
//
// # What is not promised
//
// A process that is stopped (SIGSTOP, a suspended machine) between the last
// check and the write of a request sends that one when it goes on. It confirms
// nothing that a successor lacks, and its answer is dropped. Updates may be
// handed to the Sink more than once, after a takeover for instance; the Sink
// recognises them. A Source, Sink or Lease that does not return when its
// context ends is left behind with its goroutine.
//
// # The first poll
//
// The first poll of a leadership is an ordinary long poll without offset. It
// confirms nothing, so it needs neither the journal nor a position; it brings
// the oldest unconfirmed updates (none is skipped, S20); and as it waits, it
// ends the waiting poll of a predecessor or rival at Telegram's side, which
// one with a timeout of 0 would not.
//
// # Goroutines
//
// A leadership runs the watcher (leadership.go), which also runs the step-down
// and at most one refresh; and the poll loop (loop.go) with at most one job.
// The loop never blocks, so that its passes show whether it gets on; the
// watcher never blocks, so that the own deadline holds. All of them have
// ended when Done is closed. A release that failed is repeated by one
// goroutine of the Poller until it succeeds; Stop ends it.
//
// What is decided (the next step after an answer or failure, back-off,
// progress, the kind of a failure) is in decide.go, backoff.go, progress.go,
// fault.go and split.go: plain functions without goroutines, clock or I/O.
package polling
