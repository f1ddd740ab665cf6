package polling_test

import (
	"encoding/json"
	"slices"
	"testing"

	"tgbridge/polling"
)

func TestUnseen(t *testing.T) {
	u := func(id int64, text string) polling.Update {
		return polling.Update{ID: id, Raw: json.RawMessage(text)}
	}
	before := []polling.Update{u(11, "a"), u(12, "b")}
	from13 := polling.Request{Offset: 13, HasOffset: true}
	tests := []struct {
		name    string
		updates []polling.Update
		asked   polling.Request
		want    []int64
	}{
		{"new ones", []polling.Update{u(13, "a"), u(14, "b")}, from13, []int64{13, 14}},
		{"all again", before, from13, nil},
		{"one again, and a new one", []polling.Update{u(12, "b"), u(13, "c")}, from13, []int64{13}},
		{"S15 the same id with other content", []polling.Update{u(12, "c")}, from13, []int64{12}},
		{"ids chosen anew", []polling.Update{u(5, "a")}, from13, []int64{5}},
		{"not confirmed by this poll", before, polling.Request{Offset: 12, HasOffset: true}, []int64{12}},
		{"a poll without offset confirms nothing", before, polling.Request{}, []int64{11, 12}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := polling.Unseen(tt.updates, tt.asked, before); !slices.Equal(got, tt.want) {
				t.Errorf("left %v, want %v", got, tt.want)
			}
		})
	}
}
