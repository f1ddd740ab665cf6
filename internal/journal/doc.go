// Package journal is the durable record of updates that were fetched and are
// not yet acknowledged, of what became of each, and of the calls that their
// handlers make. One leader, in one term, writes it; the next one takes it
// over. It knows nothing of where updates come from.
//
// # Promised
//
//   - When the callback of a Write with sync has run without an error, its
//     records survive a power cut; without sync, a kill of the process, and a
//     power cut SyncWithin later.
//   - Records take effect in the order of Write, wholly or not at all unless the
//     process or the machine dies, and then a prefix of them does.
//   - A predecessor that was stopped and wakes after the takeover changes
//     nothing: its paths name its own term and are gone, and what it appends to
//     the file it has open is not read.
//   - Whatever the files look like, TakeOver starts with all that can be read,
//     and tells what cannot.
//   - When a file is deleted, replaced, cut off or written to by others while it
//     is in use, the next Write or Check begins a new one with all that is known.
//     Texts that cannot be read any more are told and left out: their entries and
//     calls stay.
//   - Memory holds no bodies: less than 200 bytes for an entry that waits,
//     beside the text of its lane.
//   - Over any time the bytes written are at most about three times those
//     given to Write, as a new file is begun only when the log is longer than its
//     snapshot.
//
// # Not promised
//
// That Write refuses anything: bounds (see Journal.Full) and the sense of the
// records are the caller's. That two journals of one term are kept apart: terms
// are unique. That records whose Write failed are nowhere: a successor may find
// them. That a Write is prompt while a new file is begun: up to MaxBytes are
// copied then, and with a full disk until there is space.
//
// # Files
//
// dir/<term>/<number>.log, decimals without padding; the highest number is the
// newest. A line is the CRC-32C of the object (eight lower-case hex digits), a
// blank, a JSON object (see Record), a line feed. A file begins with a snapshot:
// base (version, next seq); the entries by seq, each as its update, its outcome
// if it has a reply, and its state unless that is Pending without an attempt; the
// states of dead letters, the oldest first; the calls, each with its result;
// complete. Then follow records as they come. Where there is no space for a
// snapshot, a file has the base alone and carries the older ones on.
// dir/<term>/<number>.kept is the last file that held lines which could not be
// understood, put aside for a person; it is never read. Other names are left
// alone.
//
// Reading begins with the newest file whose snapshot is whole, or else with the
// oldest, and goes on through all later files. This is right because a file is
// never appended to once a later one exists: a snapshot, finished or not, says
// again what the files before it amount to. Lines whose checksum is wrong are
// passed over wherever they are. Records of a kind that is not known are passed
// over with a log line; a change that must not be passed over raises the
// version, and a file of a higher version is ErrUnusable.
//
// In a snapshot, an update or a result without a body, and the state outcome
// without an outcome, are what is left where the text was lost.
//
// # Crash states
//
// What may stand in dir when a process dies (or the machine, for names and bytes
// that were not brought to disk), and what the next TakeOver makes of it:
//
//	 #  after                                stands there                          next takeover
//	 1  mkdir of dir, its parents            some of them                          makes the rest
//	 2  mkdir of the first <term>            an empty directory                    takes it, begins anew
//	 3  two first mkdirs at once             two empty directories                 takes the higher, removes the lower
//	 4  rename <old> to <term>               one of the two                        takes it
//	 5  create of <k+1>.log                  old files, an empty one               reads the old ones
//	 6  part of the snapshot                 old files, a beginning                reads the old ones; the beginning says it again
//	 7  the whole snapshot, no fsync         old files, a whole or a torn one      reads the new one if whole, else as 6
//	 8  fsync of the file, not its directory old files, perhaps the new one        reads the new one if it is there
//	 9  fsync of the directory               old files, the new one                reads the new one
//	10  removal of some old files            some old files, the new one           reads the new one
//	11  part of a write                      a torn last line                      leaves it out
//	12  a write without fsync                a prefix of it (kill: all)            reads that prefix
//	13  a write that failed (disk full)      a torn last line, never appended to   leaves it out; lines before it count
//	14  no space for a snapshot              old files, one that carries them on   reads all
//	15  remade directory (see Check)         an empty directory                    begins anew, told
//
// # Goroutines
//
// One, from TakeOver to Close. It alone writes, folds records into memory, begins
// new files and calls callbacks. Lookups run on the caller's.
package journal
