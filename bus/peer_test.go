package bus_test

import (
	"testing"

	"tgbridge/bus"
)

// peer speaks the protocol by itself, in place of a worker.
type peer struct {
	instance     string
	client       *bus.Client
	sub          *bus.Subscription
	welcome      bus.Message
	registration string
}

func newPeer(t *testing.T, leader *member, instance string, term uint64) *peer {
	p := &peer{instance: instance, client: bus.NewClient(leader.target(term), instance)}
	t.Cleanup(p.client.Close)
	return p
}

// request fills in what a join has to say.
func (p *peer) request(j bus.JoinRequest) bus.JoinRequest {
	j.Instance, j.Settings = p.instance, times
	if j.Concurrency == 0 {
		j.Concurrency = 4
	}
	return j
}

func (p *peer) join(t *testing.T, j bus.JoinRequest) {
	t.Helper()
	sub, err := p.client.Join(t.Context(), p.request(j))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sub.Close)
	p.sub, p.welcome, p.registration = sub, sub.Welcome, sub.Welcome.Registration
}

// next returns the next message of a type.
func (p *peer) next(t *testing.T, kind bus.MessageType) bus.Message {
	t.Helper()
	for {
		m, err := p.sub.Next()
		if err != nil {
			t.Fatalf("waiting for %s: %v", kind, err)
		}
		if m.Type == kind {
			return m
		}
	}
}
