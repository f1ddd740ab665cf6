package lock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// registryName is the registry's name in the state directory.
const registryName = "locks.json"

// A registry is the content of locks.json at one moment: one JSON object whose
// members are leases, ours and other programs'. It is edited by cutting and
// pasting bytes, so that what is not ours stays exactly as it was.
type registry struct {
	doc     []byte
	spans   []span
	missing bool
	damaged bool // there, and not a JSON object, or too large for one; doc may be empty
	// decoded is the lease of one key, read before, nil if none was. Nobody may
	// change what stands behind doc and spans either: registries are shared.
	decoded *decodedLease
}

// A decodedLease is what registry.lease says of a key.
type decodedLease struct {
	key   string
	entry Entry
	there bool
}

// A span is one member of the object: its name, decoded, and where in doc its
// value stands.
type span struct {
	name       string
	start, end int
}

// readRegistry reads the registry. It answers at all only if the file is a
// regular one, or missing; what cannot be parsed, or is too large to be read, is
// damaged, not an error.
// It is last, if that has the same content.
func readRegistry(path string, last *registry) (registry, error) {
	doc, err := readShared(path)
	if errors.Is(err, fs.ErrNotExist) {
		return registry{missing: true}, nil
	}
	if errors.Is(err, errTooLarge) {
		return registry{damaged: true}, nil
	}
	if err != nil {
		return registry{}, fmt.Errorf("read registry: %w", err)
	}
	if last != nil && bytes.Equal(doc, last.doc) {
		return *last, nil
	}
	return parseRegistry(doc), nil
}

// parseRegistry finds the members of doc.
func parseRegistry(doc []byte) registry {
	if !json.Valid(doc) {
		return registry{doc: doc, damaged: true}
	}
	at := skipBlanks(doc, 0)
	if doc[at] != '{' {
		return registry{doc: doc, damaged: true}
	}
	r := registry{doc: doc}
	// doc is valid JSON, so the next byte of each kind is where it must be.
	for at = skipBlanks(doc, at+1); doc[at] != '}'; at = skipBlanks(doc, at) {
		if doc[at] == ',' {
			at = skipBlanks(doc, at+1)
		}
		end := skipValue(doc, at)
		name := text(doc[at:end])
		start := skipBlanks(doc, skipBlanks(doc, end)+1) // past the colon
		at = skipValue(doc, start)
		r.spans = append(r.spans, span{name: name, start: start, end: at})
	}
	return r
}

// intact returns ErrDamaged, with the path, if the registry is damaged, or the
// term of the lease under key is none.
func (r registry) intact(path, key string) error {
	if r.damaged {
		return fmt.Errorf("%s: %w", path, ErrDamaged)
	}
	if e, _ := r.lease(key); e.implausible() {
		return fmt.Errorf("%s: %q has the term %s, above the highest that there can be, %d: %w",
			path, key, e.ForeignEpoch, uint64(MaxTerm), ErrDamaged)
	}
	return nil
}

// current returns what Lock.Current tells of the lease under key.
func (r registry) current(path, key string) (Entry, error) {
	if err := r.intact(path, key); err != nil {
		return Entry{}, err
	}
	e, _ := r.lease(key)
	return e, nil
}

// broken reports whether the registry is there and not intact for the lease
// under key.
func (r registry) broken(key string) bool { return r.intact("", key) != nil }

// lost reports whether the registry can say nothing about the lease under key.
func (r registry) lost(key string) bool { return r.missing || r.broken(key) }

// find returns the index of the member called key, -1 if there is none. Of
// several the last counts, as with every usual JSON reader.
func (r registry) find(key string) int {
	for i := len(r.spans) - 1; i >= 0; i-- {
		if r.spans[i].name == key {
			return i
		}
	}
	return -1
}

func (r registry) value(i int) []byte { return r.doc[r.spans[i].start:r.spans[i].end] }

// lease returns the entry under key, and whether one stands there that can be
// read: held or released.
func (r registry) lease(key string) (Entry, bool) {
	if d := r.decoded; d != nil && d.key == key {
		return d.entry, d.there
	}
	i := r.find(key)
	if i < 0 {
		return Entry{}, false
	}
	return decodeEntry(r.value(i))
}

// names reports whether any entry is held by that instance.
func (r registry) names(instance string) bool {
	for i := range r.spans {
		if e, ok := decodeEntry(r.value(i)); ok && e.Held() && e.InstanceID == instance {
			return true
		}
	}
	return false
}

// with returns the document with value under key, all other bytes unchanged. A
// registry that is missing or damaged becomes a new document.
func (r registry) with(key string, value []byte) ([]byte, error) {
	if i := r.find(key); i >= 0 {
		s := r.spans[i]
		return splice(r.doc, s.start, s.end, value), nil
	}
	member, err := json.Marshal(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	member = append(append(member, ':'), value...)
	if r.missing || r.damaged {
		return append(append([]byte{'{'}, member...), "}\n"...), nil
	}
	if len(r.spans) == 0 {
		at := skipBlanks(r.doc, 0) + 1
		return splice(r.doc, at, at, member), nil
	}
	at := r.spans[len(r.spans)-1].end
	return splice(r.doc, at, at, append([]byte{','}, member...)), nil
}

func splice(doc []byte, start, end int, value []byte) []byte {
	out := make([]byte, 0, len(doc)-(end-start)+len(value))
	out = append(out, doc[:start]...)
	out = append(out, value...)
	return append(out, doc[end:]...)
}

func skipBlanks(doc []byte, at int) int {
	for at < len(doc) {
		switch doc[at] {
		case ' ', '\t', '\r', '\n':
			at++
		default:
			return at
		}
	}
	return at
}

// skipValue returns where the valid JSON value that begins at at ends.
func skipValue(doc []byte, at int) int {
	depth, quoted := 0, false
	for ; at < len(doc); at++ {
		c := doc[at]
		switch {
		case quoted && c == '\\':
			at++
		case c == '"':
			quoted = !quoted
		case quoted:
			continue
		case c == '{' || c == '[':
			depth++
			continue
		case c == '}' || c == ']':
			if depth == 0 {
				return at // the end of a number or a word, at its surroundings' end
			}
			depth--
		case depth == 0 && (c == ',' || c == ':' || c == ' ' || c == '\t' || c == '\r' || c == '\n'):
			return at
		default:
			continue
		}
		if depth == 0 && !quoted {
			return at + 1
		}
	}
	return at
}
