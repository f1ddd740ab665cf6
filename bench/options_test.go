package main

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"--rows", "idle,killed,idle", "--events", "100", "--seconds", "60", "--seed", "5", "--dir", "/d", "--json"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := options{Rows: []string{"killed", "idle"}, Events: 100, Backlog: 100_000, Seconds: 60, Seed: 5, Dir: "/d", JSON: true}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Error(diff)
	}
	if got, want := [...]int{o.hangs(), o.latencies(), o.drained()}, [...]int{10, 1000, 100_000}; got != want {
		t.Errorf("hangs, latencies, drained = %v, want %v", got, want)
	}
}

func TestDefaultOptions(t *testing.T) {
	o, err := parseOptions(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(allRows, o.Rows); diff != "" {
		t.Error(diff)
	}
	if o.Seed == 0 {
		t.Error("no seed was drawn")
	}
	if got, want := [...]int{o.hangs(), o.latencies(), o.drained()}, [...]int{2, 200, 20_000}; got != want {
		t.Errorf("hangs, latencies, drained = %v, want %v", got, want)
	}
}

func TestWrongOptions(t *testing.T) {
	tests := []struct{ args, want string }{
		{"--rows killed,slow", `there is no row "slow"`},
		{"--rows=", `there is no row ""`},
		{"--events 0", "--events 0: want at least 1"},
		{"--seconds 0", "--seconds 0: want at least 1"},
		{"--backlog 100001", "--backlog 100001: want 10000 to 100000"},
		{"all", `unexpected argument "all"`},
		{"--fast", "flag provided but not defined"},
	}
	for _, tt := range tests {
		_, err := parseOptions(strings.Fields(tt.args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", tt.args, err, tt.want)
		}
	}
}
