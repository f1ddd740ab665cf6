package polling

import (
	"encoding/json"
	"math"
	"strconv"
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

// empty reports whether the answer held nothing.
func (b batch) empty() bool { return len(b.updates) == 0 && len(b.unreadable) == 0 }

// updateID reads the id of an element: a whole number in the member update_id,
// written without fraction and exponent. Negative ones are refused: from them
// a negative offset would be made, and that drops updates (S20). The largest
// number has no successor.
func updateID(raw json.RawMessage) (int64, bool) {
	// A map, because struct fields would also match "Update_Id".
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return 0, false
	}
	id, err := strconv.ParseInt(string(members["update_id"]), 10, 64)
	if err != nil || id < 0 || id == math.MaxInt64 {
		return 0, false
	}
	return id, true
}
