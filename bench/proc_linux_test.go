package main

import (
	"os"
	"testing"

	"tgbridge/internal/botapitest"
)

func TestOwnProcess(t *testing.T) {
	pid := os.Getpid()
	if m, err := rssAnon(pid); err != nil || m < 1<<16 {
		t.Errorf("rssAnon = %v, %v: want more than 64 KiB", m, err)
	}
	before := cpuTime(pid)
	for cpuTime(pid) == before {
	}
	if cpuTime(1<<22+1) != 0 { // above the highest pid
		t.Error("a process that does not exist used CPU time")
	}
	if _, err := rssAnon(1<<22 + 1); err == nil {
		t.Error("a process that does not exist has memory")
	}
}

func TestField(t *testing.T) {
	const text = "Name:\tbench\nmodel name\t: Abacus: 9\nRssAnon:\t     512 kB\n"
	for name, want := range map[string]string{"model name": "Abacus: 9", "RssAnon": "512 kB", "model": ""} {
		if got := field(text, name); got != want {
			t.Errorf("field %q = %q, want %q", name, got, want)
		}
	}
}

func TestEpoch(t *testing.T) {
	s, err := botapitest.New(botapitest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	epoch := epochOf(s)
	before := clock()
	now := epoch + s.Now()
	if off := now - before; off < -1e6 || off > 1e9 {
		t.Errorf("the server's clock is %v off", off)
	}
}
