package lock

import "path/filepath"

// ReadLease reads the lease of a key from the registry in dir, as Lock.Current
// does, for callers that are no members: nothing is made, locked or contended
// for.
func ReadLease(dir, key string) (Entry, error) {
	path := filepath.Join(dir, registryName)
	r, err := readRegistry(path, nil)
	if err != nil {
		return Entry{}, err
	}
	return r.current(path, key)
}
