package main

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzReadStamps(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{1}, 16))
	f.Add(bytes.Repeat([]byte{255}, 47))
	f.Fuzz(func(t *testing.T, in []byte) {
		var got []stamp
		readStamps(bytes.NewReader(in), func(s stamp) { got = append(got, s) })
		if len(got) != len(in)/16 {
			t.Errorf("%d stamps of %d bytes", len(got), len(in))
		}
	})
}

func TestStamps(t *testing.T) {
	want := []stamp{{Update: 7, At: 1}, {Update: 1 << 30, At: 1 << 60}}
	var written bytes.Buffer
	if err := binary.Write(&written, binary.LittleEndian, want); err != nil {
		t.Fatal(err)
	}
	var got []stamp
	readStamps(&written, func(s stamp) { got = append(got, s) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
