package journal

// SetFault makes a journal call f before each operation on the file system; if
// f returns an error, the operation fails with it (a write in half).
func SetFault(o *Options, f func(op, path string) error) { o.fault = f }

// Line returns the line of a record.
func Line(r Record) ([]byte, error) {
	object, err := r.encode()
	return appendLine(nil, object), err
}

// ParseLine returns the record of a line.
func ParseLine(line []byte) (Record, error) {
	object, err := parseLine(line)
	if err != nil {
		return Record{}, err
	}
	return decode(object)
}

// SnapshotRecord returns a record with the fields that only a snapshot has.
func SnapshotRecord(kind Kind, seq uint64, state State, confirmed bool, version int, next uint64) Record {
	return Record{Kind: kind, Seq: seq, state: state, confirmed: confirmed, version: version, next: next}
}

// AppendLine appends the line of an object, or of what is none, to buf.
func AppendLine(buf, object []byte) []byte { return appendLine(buf, object) }
