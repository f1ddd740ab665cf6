package bot_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// showClock makes all files of the bot look as if they were written by members
// whose wall clock showed that time: the times in the lease, and those that the
// system keeps. The lease stays its owner's.
func (f *fleet) showClock(clock time.Time) error {
	registry := filepath.Join(f.dir(), theRegistry)
	content, err := os.ReadFile(registry)
	if err != nil {
		return err
	}
	times := regexp.MustCompile(`"(heartbeatMs|acquiredMs|releasedMs)":-?\d+`)
	edited := times.ReplaceAll(content, fmt.Appendf(nil, `"$1":%d`, clock.UnixMilli()))
	if err := errors.Join(os.WriteFile(registry+".edited", edited, 0o600), os.Rename(registry+".edited", registry)); err != nil {
		return err
	}
	return filepath.WalkDir(f.dir(), func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = os.Chtimes(path, clock, clock)
		}
		if errors.Is(err, fs.ErrNotExist) { // a transaction's, or a rotated file
			return nil
		}
		return err
	})
}

// TestF40Clocks: whatever the wall clocks of those who wrote the files showed, and
// however they jump, the leader leads on under its term, and a follower takes
// over only when it is gone; nothing is handled twice, and nobody ends.
func TestF40Clocks(t *testing.T) {
	t.Parallel()
	f, server := newFleet(t)
	members := []*process{f.start("m1", quickSetting(t)), f.start("m2", quickSetting(t))}
	f.waitMembers(2)
	said := 0
	answered := func() {
		t.Helper()
		said++
		text := fmt.Sprint("hello ", said)
		say(t, server, 42, text)
		eventually(t, 5*time.Second, func() string {
			sent := sentTexts(server)
			if n := sent["m1 "+text] + sent["m2 "+text] + sent["m3 "+text]; n != 1 {
				return fmt.Sprintf("%q was answered %d times", text, n)
			}
			return ""
		})
		f.waitPending(0) // recorded: who is killed from here on was not in the midst of it
	}
	answered()
	clocks := []time.Time{
		time.Now().Add(10 * time.Minute), time.Now().Add(-time.Hour), time.UnixMilli(0), time.UnixMilli(-1), time.UnixMilli(9_214_646_400_000),
	}
	lead, _ := f.leader()
	for _, clock := range clocks {
		if err := f.showClock(clock); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // more than stale-after, and several checks
		answered()
		if e, held := f.leader(); !held || e.InstanceID != lead.InstanceID || e.Epoch != lead.Epoch {
			t.Fatalf("at %v %s leads under term %d, want %s under %d", clock, e.Name, e.Epoch, lead.Name, lead.Epoch)
		}
	}
	for i, clock := range clocks {
		if err := f.showClock(clock); err != nil {
			t.Fatal(err)
		}
		lead, _ := f.leader()
		old := byPID(members, lead.PID)
		_ = old.cmd.Process.Kill()
		died := time.Now()
		next := f.waitLeader(lead.InstanceID)
		if took := time.Since(died); took > 5*time.Second || next.Epoch != lead.Epoch+1 {
			t.Errorf("at %v: term %d after %v, want %d within 5 s", clock, next.Epoch, took, lead.Epoch+1)
		}
		if i == len(clocks)-1 {
			break
		}
		old.wait(t, 5*time.Second)
		members = append(members, f.start("m3", quickSetting(t)))
		f.waitMembers(2)
		answered()
	}
	answered()
	for text, n := range sentTexts(server) {
		if n != 1 {
			t.Errorf("%q was sent %d times", text, n)
		}
	}
	if n := strayPolls(server); n > 0 {
		t.Errorf("G1: %d polls of a deposed leader", n)
	}
}
