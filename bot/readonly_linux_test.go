package bot_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"tgbridge/bot"
)

// TestReadOnlyState: the state directory becomes read-only under a leader and a
// follower. The leader goes on with what is open. When it is gone, the follower,
// who cannot take over, ends and says why; once the directory can be written
// again, the next one that starts leads, and nothing is lost.
func TestReadOnlyState(t *testing.T) {
	f, server := newFleet(t)
	leader := f.start("m1")
	f.waitMembers(1)
	follower := f.run(f.options("m2"), echo("m2"))
	f.waitMembers(2)
	if err := syscall.Mount(f.dir(), f.dir(), "", syscall.MS_BIND, ""); err != nil {
		t.Skip("mount:", err)
	}
	mounted := true
	unmount := func() {
		if mounted {
			mounted = false
			if err := syscall.Unmount(f.dir(), syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(unmount)
	if err := syscall.Mount("", f.dir(), "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skip("remount:", err)
	}

	say(t, server, 42, "first")
	eventually(t, 10*time.Second, func() string {
		if sent := sentTexts(server); sent["m1 first"]+sent["m2 first"] != 1 {
			return "not answered"
		}
		return ""
	})
	leader.signal(t, syscall.SIGKILL)
	err := follower.result(t, 10*time.Second)
	if !errors.Is(err, bot.ErrState) {
		t.Errorf("error %v, want ErrState", err)
	}
	for _, want := range []string{f.dir(), "read-only", "make it writable"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	say(t, server, 42, "second")
	if err := f.run(f.options("m3"), echo("m3")).result(t, 10*time.Second); !errors.Is(err, bot.ErrState) {
		t.Errorf("start: %v, want ErrState", err)
	}

	unmount()
	f.run(f.options("m4"), echo("m4"))
	waitSent(t, server, 10*time.Second, "m4 second")
	if sent := sentTexts(server); sent["m4 first"] > 0 {
		t.Error("what was answered is answered again")
	}
}
