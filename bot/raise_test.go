package bot_test

import (
	"fmt"
	"testing"
	"time"

	"tgbridge/bot"
	"tgbridge/bus"
)

// TestHigherTermSeen: a member joins that has seen a higher term than the
// leader's: the leader takes the lease over from itself under a term above it,
// and goes on; the others join anew, and nothing is lost.
func TestHigherTermSeen(t *testing.T) {
	f, server := newFleet(t)
	members := []*process{f.start("m1"), f.start("m2")}
	f.waitMembers(2)
	lead, _ := f.leader()
	c := f.client(lead)
	defer c.Close()
	_, err := c.Join(t.Context(), bus.JoinRequest{
		Instance: "test-command", Name: "other", HighestTerm: 50, Concurrency: 1, Settings: bot.SettingsOf(f.options("other")),
	})
	if !bus.IsRefused(err, bus.CodeTerm) {
		t.Fatalf("join with a higher term: %v, want a refusal for the term", err)
	}
	eventually(t, 10*time.Second, func() string {
		if e, held := f.leader(); !held || e.Epoch <= 50 {
			return fmt.Sprintf("term %d", e.Epoch)
		}
		return ""
	})
	if e, _ := f.leader(); e.InstanceID != lead.InstanceID {
		t.Errorf("%s leads, want %s still", e.Name, lead.Name)
	}
	f.waitMembers(len(members))
	for chat := range int64(6) {
		say(t, server, 100+chat, fmt.Sprint("after ", chat))
	}
	f.waitPending(0)
	if n := conflicts(server); n > 0 {
		t.Errorf("%d polls were answered with 409", n)
	}
}
