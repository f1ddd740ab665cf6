package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// example has a row of each kind.
func example() *table {
	t := &table{
		Machine: machine{CPUs: 2, Model: "Abacus 9", Kernel: "6.1", FileSystem: "ext4", Load: "0.1 0.2 0.3", Go: "go1.26"},
		Events:  20, Seconds: 10, Seed: 7,
	}
	t.spread("killed", "gap", samples{3e6, 9e6, 6e6}, samples{2e6, 2e6, 2e6}, "flock")
	t.tell("killed", "409", number, 0)
	t.compare("idle", "memory", inBytes, 3<<20, 2<<20, "loop")
	t.compare("idle", "CPU", ofCPU, 250, 0, "loop")
	t.compare("rate", "handled", aSecond, 12345.6, 50000, "loop")
	return t
}

func TestTableForPeople(t *testing.T) {
	var got strings.Builder
	if err := example().write(&got, false); err != nil {
		t.Fatal(err)
	}
	want := `2 x Abacus 9, Linux 6.1, ext4, go1.26, load 0.1 0.2 0.3
20 events, 10 s idle, seed 7

row     what      ours      floor     ratio   the floor is
killed  gap, p50  6.00 ms   2.00 ms   3.00x   flock
killed  gap, p99  9.00 ms   2.00 ms   4.50x   flock
killed  gap, max  9.00 ms   2.00 ms   4.50x   flock
killed  409       0                           
idle    memory    3.00 MiB  2.00 MiB  1.50x   loop
idle    CPU       250 us/s  0 us/s            loop
rate    handled   12346/s   50000/s   0.247x  loop
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}

func TestBusyMachine(t *testing.T) {
	for load, want := range map[string]bool{"": false, "0.00 9 9": false, "0.50 0 0": false, "0.51 0 0": true, "17.5 9 9": true} {
		if got := (machine{Load: load}).busy(); got != want {
			t.Errorf("busy with load %q: %t, want %t", load, got, want)
		}
	}
	tab := &table{Machine: machine{CPUs: 2, Load: "3.1 2.0 1.0"}}
	var got strings.Builder
	if err := tab.write(&got, false); err != nil {
		t.Fatal(err)
	}
	if want := "\nthis machine was not quiet before the run (load 3.1 2.0 1.0 on 2 CPUs): only ratios say something\n\n"; !strings.Contains(got.String(), want) {
		t.Errorf("the head lacks %q: %s", want, got.String())
	}
}

func TestTableForMachines(t *testing.T) {
	tab := &table{Machine: machine{CPUs: 2, Go: "go1.26"}, Events: 20, Seconds: 10, Seed: 7, Rows: []row{}}
	tab.compare("start", "first poll", inTime, 3e6, 2e6, "loop")
	tab.tell("killed", "409", number, 0)
	var got strings.Builder
	if err := tab.write(&got, true); err != nil {
		t.Fatal(err)
	}
	want := `{"machine":{"cpus":2,"go":"go1.26"},"events":20,"seconds":10,"seed":7,"rows":[` +
		`{"row":"start","what":"first poll","unit":"ns","ours":3000000,"floor":2000000,"ratio":1.5,"floor_is":"loop"},` +
		`{"row":"killed","what":"409","unit":"count","ours":0,"floor":null,"ratio":null}]}` + "\n"
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}

func TestUnits(t *testing.T) {
	tests := []struct {
		unit  unit
		value float64
		want  string
	}{
		{inTime, 0, "0 ns"},
		{inTime, 999, "999 ns"},
		{inTime, 1500, "1.50 us"},
		{inTime, 12.34e6, "12.3 ms"},
		{inTime, 123.4e6, "123 ms"},
		{inTime, 5.25e9, "5.25 s"},
		{inBytes, 1 << 19, "0.500 MiB"},
		{inBytes, 300 << 20, "300 MiB"},
		{aSecond, 0.5, "0.500/s"},
		{ofCPU, 1234.5, "1234 us/s"},
		{number, 3, "3.00"},
		{number, 0, "0"},
	}
	for _, tt := range tests {
		if got := tt.unit.format(tt.value); got != tt.want {
			t.Errorf("%v %s: %q, want %q", tt.value, tt.unit, got, tt.want)
		}
	}
}
