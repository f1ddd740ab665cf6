// Bench measures tgbridge beside the least that could do the same work, in one
// run, and prints one table:
//
//	go run ./bench
//
// Each row has our number, that of the floor, and the ratio of the two. The
// floor is a bare program (see bench/bare) or the bare system calls. Both sides
// are measured in turns, event by event, so that a machine that gets slower or
// faster in the middle does so for both. Nothing is asserted: the table is for
// reading and for keeping.
//
// What is measured runs as on a user's machine: the release binary, which bench
// builds itself, as processes of their own against internal/botapitest, whose
// ledger is the clock of all that has to do with polls. Where a handler's
// instant matters, members are this program again with a handler in Go
// (member.go), and instants are compared by CLOCK_MONOTONIC.
//
// # What is not promised
//
// The Bot API server runs in this process, on the same cores as what is
// measured, so rates are of the whole machine. Bench needs Linux: it reads
// /proc and the CPU clocks of other processes.
//
// # Goroutines
//
// Each process of a fleet has one that waits for its end, and one that reads
// what it reports; each fleet has one for its load. fleet.close waits for all.
package main
