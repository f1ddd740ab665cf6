// Package lock elects one leader among the processes that share a directory,
// and gives each leadership a number that only rises.
//
// A Member is one process's (or one runtime's) presence: a file in members/
// that it keeps locked in the kernel for its whole life and in which it raises
// a counter, the beat, as long as it makes progress. A Lock is one lease: an
// entry of the registry, locks.json, that names its owner and its term. An
// Observer tells of any member whether it is alive, dead or hung. Transaction
// changes any shared file of the directory, one process at a time.
//
// # What is promised
//
//   - At most one owner: a lease is given to one member, and each new owner's
//     term is higher than every earlier one, also across releases, restarts and
//     a registry that was lost or damaged.
//   - A dead owner is replaced at once (its kernel lock is free), a hung one
//     once its beat stood for stale-after on the observer's own monotonic clock.
//     Wall clocks, and pids of other PID namespaces, decide nothing.
//   - No file that a dead process left, at whichever instruction it died, blocks
//     anyone for long. A transaction whose guard was taken away cannot publish:
//     the file system itself refuses (see guard.go).
//   - Reading who owns the lease takes no lock and never sees half a file.
//
// # What is not promised
//
//   - That an owner still owns when it acts. A process may be stopped between
//     Owns and what it does next. Whatever must not be done twice has to carry
//     the term and be refused by its receiver, or be published by Commit.
//   - Liveness in real time where kernel locks do not work (some network and
//     virtual file systems): there the beat alone decides, and a death is seen
//     after stale-after. OpenMember says so once, in the log.
//   - Windows: the package compiles there, and OpenMember says why it refuses.
//   - Durability of a registry on a disk that lies about fsync. The term is
//     still right if any member's file, or what Options.Floor reads, survived.
//   - Safety against another user of the same uid, or root, who edits the files.
//
// # Files
//
//	locks.json                                       the registry
//	locks.json.transaction/                          the guard, while a transaction runs
//	locks.json.transaction.staged.<instance>.<uuid>/ a guard not yet in place
//	locks.json.damaged.<time>.<hash>                 copy of a damaged registry
//	members/<instance>                               one per member
//
// # Goroutines
//
// The package starts none. Member.Run, for those who have no loop of their own,
// runs in its caller's.
package lock
