package polling

import (
	"encoding/json"
	"hash/crc64"
	"math"
	"strconv"

	"tgbridge/internal/rawjson"
)

// A batch is one answer of getUpdates, taken apart. The order is the answer's.
type batch struct {
	updates    []Update
	unreadable []json.RawMessage // elements whose id cannot be read
}

// split takes an answer's elements apart. Of an element only the id is looked
// at; whether the rest makes sense is for those who handle it.
func split(elements []json.RawMessage) batch {
	var b batch
	for _, raw := range elements {
		if id, ok := updateID(raw); ok {
			b.updates = append(b.updates, Update{ID: id, Raw: raw})
		} else {
			b.unreadable = append(b.unreadable, raw)
		}
	}
	return b
}

// A stamp tells an update from others with its id.
type stamp struct {
	id  int64
	sum uint64
}

var sums = crc64.MakeTable(crc64.ECMA)

// unseen leaves out of an answer's updates what the one before brought too and
// this poll confirmed: whoever sends it again, a cache for instance, has not heard
// of that. It returns what this answer brought as well.
func unseen(updates []Update, asked Request, before map[stamp]bool) (fresh []Update, brought map[stamp]bool) {
	if len(updates) == 0 {
		return nil, before
	}
	brought = make(map[stamp]bool, len(updates))
	for _, u := range updates {
		s := stamp{u.ID, crc64.Checksum(u.Raw, sums)}
		brought[s] = true
		if !before[s] || !asked.HasOffset || u.ID >= asked.Offset {
			fresh = append(fresh, u)
		}
	}
	return fresh, brought
}

// empty reports whether the answer held nothing.
func (b batch) empty() bool { return len(b.updates) == 0 && len(b.unreadable) == 0 }

// updateID reads the id of an element: a whole number in the member update_id,
// written without fraction and exponent. Negative ones are refused: from them
// a negative offset would be made, and that drops updates (S20). The largest
// number has no successor. Nothing else of the element has to make sense, so
// that whatever it is, it can be confirmed.
func updateID(raw json.RawMessage) (int64, bool) {
	var digits []byte
	if !rawjson.Members(raw, func(name, value []byte) {
		if string(name) == "update_id" {
			digits = value
		}
	}) {
		return 0, false
	}
	id, err := strconv.ParseUint(string(digits), 10, 63)
	return int64(id), err == nil && id != math.MaxInt64
}
