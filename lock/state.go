package lock

// A State is what one member makes of a lease.
type State int

const (
	// Inactive: there is no entry, or a released one, or none that can be read.
	Inactive State = iota
	// ActiveHere: held by this process, by this runtime or another one.
	ActiveHere
	// ActiveElsewhere: held by an owner that lives and makes progress.
	ActiveElsewhere
	// Stale: held by an owner that is dead, or whose beat stood for stale-after.
	Stale
)

// String returns the state's name as people read it.
func (s State) String() string {
	switch s {
	case Inactive:
		return "inactive"
	case ActiveHere:
		return "active here"
	case ActiveElsewhere:
		return "active elsewhere"
	case Stale:
		return "stale"
	}
	return "unknown"
}

// identity is the runtime that judges.
type identity struct {
	host       Host
	instance   string
	cwd        string
	generation int64
}

// A finding is what could be seen of an owner.
type finding struct {
	file bool // it has a member file
	dead bool // its kernel lock is free, or it has no member file and its process is gone
	hung bool // not dead, and its beat stood for stale-after
}

// judge says in which state an entry is. A lock that is free outweighs an equal
// pid and birth: after an exec they are those of the program before. So does a
// beat that stands, or a file that is not there: an entry that names this process
// need not be of one of its members.
func judge(self identity, e Entry, f finding) State {
	switch {
	case !e.Held():
		return Inactive
	case e.InstanceID != "" && e.InstanceID == self.instance:
		return ActiveHere
	case f.dead || f.hung:
		return Stale
	case self.sameProcess(e):
		return ActiveHere
	}
	return ActiveElsewhere
}

// sameProcess reports whether an entry is of the judging process, whichever of
// its members wrote it.
func (s identity) sameProcess(e Entry) bool {
	return s.host.sees(e.BootID, e.PIDNamespace) && e.PID == s.host.PID && e.BornAt == s.host.BornAt
}

// adoptable reports whether a runtime that remembers no lease may take an entry
// as its own (R10): written by this process, and nothing in it says that
// another runtime wrote it.
func (s identity) adoptable(e Entry) bool {
	return e.Held() && e.PID == s.host.PID && e.ForeignEpoch == "" &&
		(e.InstanceID != "" && e.InstanceID == s.instance || s.sameProcess(e)) &&
		(e.Cwd == "" || e.Cwd == s.cwd) &&
		(e.InstanceID == "" || e.InstanceID == s.instance) &&
		(e.Generation == 0 || e.Generation == s.generation)
}

// supersedes reports whether this runtime may take over, by force, from another
// runtime of its process (A10): in the same directory, and younger.
func (s identity) supersedes(e Entry) bool {
	return (e.Cwd == "" || e.Cwd == s.cwd) && s.instance != "" &&
		(e.Generation == 0 || e.Generation < s.generation)
}
