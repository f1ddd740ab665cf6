package bus

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/uuid"
)

// Instances returns the members that the hub knows, sorted. Nothing once Run has
// ended.
func (h *Hub) Instances() []string {
	var out []string
	_ = h.do(func(d *Dispatcher, _ Now) { out = d.Instances() })
	return out
}

// Idle reports whether no delivery is with a member and no reply under way. True
// once Run has ended.
func (h *Hub) Idle() bool {
	idle := true
	_ = h.do(func(d *Dispatcher, _ Now) { idle = d.Idle() })
	return idle
}

// Counts returns what each member has, by instance, and how many deliveries are
// not finished. Nothing once Run has ended.
func (h *Hub) Counts() (members map[string]MemberCount, pending int) {
	_ = h.do(func(d *Dispatcher, _ Now) { members, pending = d.Counts() })
	return members, pending
}

// admit waits until the hub admits members.
func (h *Hub) admit(ctx context.Context) error {
	select {
	case <-h.ready:
		return nil
	case <-h.done:
		return ErrHubClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// join admits a member and returns its stream, of which leave has to be called.
// When it returns, what the member finished is on disk, and the leader was found
// to lead still: the member forgets it.
func (h *Hub) join(j JoinRequest, notices []string) (*stream, error) {
	var s *stream
	err := h.settle(func(d *Dispatcher, now Now) {
		if h.left {
			return
		}
		h.dropStream(j.Instance)
		name := UniqueName(j.Name, func(name string) bool { return d.nameTaken(name, j.Instance) })
		s = newStream(j, h.o.Term, uuid.NewString(), name, now)
		h.streams[j.Instance] = s
		superseded, verdicts := d.Join(now, Joining{
			Instance: j.Instance, Name: name, Slots: j.Concurrency, Leaving: j.Leaving,
			InHand: j.InHand, Finished: j.Finished,
		})
		s.push(outgoing{msg: Message{
			Type: MsgWelcome, Protocol: Protocol, Registration: s.registration, Name: name,
			Superseded: superseded, Verdicts: verdicts, Notices: notices,
		}})
		h.pushRoster()
	})
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return nil, ErrHubClosed
	}
	if err := h.stillLeads(); err != nil {
		h.leave(s)
		return nil, err
	}
	return s, nil
}

// leave ends a stream. If it was the member's present one, the member is gone
// for the time being; whether it is dead is looked at right away.
func (h *Hub) leave(s *stream) {
	gone := false
	_ = h.do(func(d *Dispatcher, now Now) {
		if h.streams[s.instance] == s {
			h.dropStream(s.instance)
			d.StreamEnded(now, s.instance)
			h.pushRoster()
			gone = true
		}
	})
	if !gone {
		return
	}
	h.spawn(func() {
		if h.o.Probe(h.ctx, s.instance) {
			h.Died(s.instance)
		}
	})
}

// dropStream ends the present stream of a member, if there is one. Only the
// owner calls it.
func (h *Hub) dropStream(instance string) {
	if s := h.streams[instance]; s != nil {
		s.drop()
		delete(h.streams, instance)
	}
}

// pushRoster tells every member who may lead next: those longest here first,
// without those that leave or hang.
func (h *Hub) pushRoster() {
	heirs := h.heirs()
	for _, s := range h.streams {
		s.push(outgoing{msg: Message{Type: MsgRoster, Heirs: heirs}})
	}
}

func (h *Hub) heirs() []string {
	var may []*stream
	for _, s := range h.streams {
		if !s.leaving && s.instance != h.o.Dispatch.Self && !h.dispatch.hangs(s.instance) {
			may = append(may, s)
		}
	}
	slices.SortFunc(may, func(a, b *stream) int {
		return cmp.Or(cmp.Compare(a.joinedAt, b.joinedAt), cmp.Compare(a.instance, b.instance))
	})
	out := make([]string, len(may))
	for i, s := range may {
		out[i] = s.instance
	}
	return out
}

// handover picks the heir and starts the hand-over.
func (h *Hub) handover(to string) error {
	var choice HeirChoice
	err := h.do(func(*Dispatcher, Now) {
		for _, instance := range h.heirs() {
			if s := h.streams[instance]; to == "" || s.name == to {
				choice = HeirChoice{Instance: instance, Name: s.name}
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if choice.Instance == "" {
		what := "no other member is there to take over"
		if to != "" {
			what = fmt.Sprintf("no member named %q is there to take over", to)
		}
		return refuse(http.StatusConflict, CodeNobody, what+"; start one, or stop this one instead")
	}
	if to == "" {
		choice = HeirChoice{}
	}
	h.o.Handover(choice)
	return nil
}

// HasHeirs reports whether a member is joined that may take over: it neither
// leaves nor hangs. False once Run has ended.
func (h *Hub) HasHeirs() bool {
	has := false
	_ = h.do(func(*Dispatcher, Now) { has = len(h.heirs()) > 0 })
	return has
}
