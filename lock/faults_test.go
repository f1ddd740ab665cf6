//go:build linux

package lock_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// leaders starts helpers that lead whenever they can, and returns them, a
// channel of what they say, and the log of their leaderships. The first of them
// leads already.
func leaders(t *testing.T, dir, fault string, n int) (ps []*process, leads chan *process, history string) {
	t.Helper()
	history = filepath.Join(t.TempDir(), "history")
	writeFile(t, history, "")
	leads = make(chan *process, 100)
	for range n {
		p := start(t, "lead", helperArgs{Dir: dir, Extra: history, Fault: fault})
		p.hear()
		if len(ps) == 0 {
			p.hear()
		}
		ps = append(ps, p)
		go func() {
			for line := range p.lines {
				if strings.HasPrefix(line, "leads ") {
					leads <- p
				} else {
					t.Errorf("a leader says %q", line)
				}
			}
		}()
	}
	return ps, leads, history
}

func nextLeader(t *testing.T, leads chan *process) *process {
	t.Helper()
	select {
	case p := <-leads:
		return p
	case <-time.After(20 * time.Second):
		t.Fatal("nobody leads")
		return nil
	}
}

// TestF35Deleted deletes files under a live leader, while two others are ready
// to take over: nobody leads beside it, and in the end one leads.
func TestF35Deleted(t *testing.T) {
	t.Parallel()
	remove := func(names ...string) func(dir string) error {
		return func(dir string) error {
			for _, name := range names {
				// A live member makes its file anew, maybe before its
				// directory is gone.
				err := os.RemoveAll(filepath.Join(dir, name))
				for errors.Is(err, syscall.ENOTEMPTY) {
					err = os.RemoveAll(filepath.Join(dir, name))
				}
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	write := func(content string) func(dir string) error {
		return func(dir string) error { return os.WriteFile(registryOf(dir), []byte(content), 0o600) }
	}
	tests := []struct {
		name   string
		damage func(dir string) error
		moves  bool // the leadership
	}{
		{"F35 registry", remove("locks.json"), true},
		{"F35 guard", remove("locks.json.transaction"), false},
		{"F35 member files", func(dir string) error {
			files, err := filepath.Glob(filepath.Join(dir, "members", "*"))
			for _, f := range files {
				err = errors.Join(err, os.Remove(f))
			}
			return err
		}, false},
		{"F35 all at once", remove("locks.json", "locks.json.transaction", "members"), true},
		{"S16 emptied", write(""), true},
		{"S16 no entry", write("{}"), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := newState(t)
			_, leads, history := leaders(t, dir, "", 3)
			if err := tt.damage(dir); err != nil {
				t.Fatal(err)
			}
			if tt.moves {
				nextLeader(t, leads)
			} else {
				select {
				case <-leads:
					t.Error("the leadership moved")
				case <-time.After(testStaleAfter + 500*time.Millisecond):
				}
			}
			checkHistory(t, history)
			open := 0
			for line := range strings.Lines(readFile(t, history)) {
				open += map[bool]int{true: 1, false: -1}[strings.HasPrefix(line, "begin")]
			}
			if open != 1 {
				t.Errorf("%d lead", open)
			}
		})
	}
}

// TestF39BeatsAlone kills leaders where kernel locks tell nothing: the next one
// leads when the beat stood for stale-after, and never before the end.
func TestF39BeatsAlone(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"never excludes", "always fails", "own boot id"} {
		t.Run("F39 "+fault, func(t *testing.T) {
			t.Parallel()
			ps, leads, history := leaders(t, newState(t), fault, 3)
			leader := ps[0]
			for range 2 {
				began := time.Now()
				leader.kill()
				if leader = nextLeader(t, leads); slices.Index(ps, leader) < 0 {
					t.Fatal("who?")
				}
				if took := time.Since(began); took < testStaleAfter/2 || took > testStaleAfter+2*time.Second {
					t.Errorf("took %v", took)
				}
			}
			if terms := checkHistory(t, history); terms != 3 {
				t.Errorf("%d leaderships, want 3", terms)
			}
		})
	}
}
