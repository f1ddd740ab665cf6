package lock

import "os"

// A Host says which process on which machine something belongs to. Pids mean
// something only between processes with the same BootID and the same
// PIDNamespace.
type Host struct {
	// PID is the process id as the process itself sees it.
	PID int
	// Name is the host name, for people; it decides nothing.
	Name string
	// BootID names this boot of this kernel. Kernel locks are believed only
	// between equal boot ids. Empty if the system does not tell; then the beat
	// alone decides.
	BootID string
	// PIDNamespace names the PID namespace, "" if unknown. Its number is unique
	// within one boot only.
	PIDNamespace string
	// BornAt is when the process started, in clock ticks since boot (Linux:
	// /proc/self/stat, field 22), "" elsewhere. With PID it names a process for
	// the whole boot.
	BornAt string
}

// ThisHost returns what the running process is. It reads /proc on Linux; what
// cannot be read stays empty.
func ThisHost() Host {
	name, err := os.Hostname()
	if err != nil {
		name = ""
	}
	h := Host{PID: os.Getpid(), Name: name}
	fillHost(&h)
	return h
}

// sees reports whether pids mean the same to h and to a process of that boot
// and that PID namespace.
func (h Host) sees(bootID, pidNamespace string) bool {
	return h.BootID != "" && h.BootID == bootID &&
		h.PIDNamespace != "" && h.PIDNamespace == pidNamespace
}
