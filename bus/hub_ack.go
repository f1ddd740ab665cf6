package bus

import (
	"fmt"
	"net/http"
)

// errRegistration refuses requests of an earlier registration that arrive late.
func errRegistration() error {
	return refuse(http.StatusConflict, CodeRegistration, "this registration is not the present one; join anew")
}

// registered reports whether a registration is the member's present one. Only
// the owner calls it.
func (h *Hub) registered(instance, registration string) bool {
	s := h.streams[instance]
	return s != nil && s.registration == registration
}

// checkRegistered refuses a registration that is not the member's present one.
func (h *Hub) checkRegistered(instance, registration string) error {
	ok := false
	err := h.do(func(*Dispatcher, Now) { ok = h.registered(instance, registration) })
	if err == nil && !ok {
		err = errRegistration()
	}
	return err
}

// ack records acknowledgements; when it returns nil they are durable, also those
// that an earlier request brought, and the leader was found to lead still.
func (h *Hub) ack(instance, registration string, acks []Ack) ([]Verdict, error) {
	verdicts := make([]Verdict, 0, len(acks))
	ok := false
	err := h.settle(func(d *Dispatcher, now Now) {
		if ok = h.registered(instance, registration); !ok {
			return
		}
		for _, a := range acks {
			verdicts = append(verdicts, d.Ack(now, instance, a))
		}
	})
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, errRegistration()
	}
	return verdicts, h.stillLeads()
}

// stillLeads checks exact ownership with a fresh read.
func (h *Hub) stillLeads() error {
	owns, err := h.o.Leadership.Owns()
	if err != nil {
		return fmt.Errorf("check ownership: %w", err)
	}
	if !owns {
		return ErrHubClosed
	}
	return nil
}

// holds returns the delivery that a member says its handler works on, or refuses
// the attempt if it is no longer the member's.
func (h *Hub) holds(instance, registration string, held Held) (Item, error) {
	var it Item
	registered, ok := false, false
	err := h.do(func(d *Dispatcher, _ Now) {
		registered = h.registered(instance, registration)
		it, ok = d.Holds(instance, held)
	})
	switch {
	case err != nil:
		return Item{}, err
	case !registered:
		return Item{}, errRegistration()
	case !ok:
		return Item{}, refuse(http.StatusConflict, CodeSuperseded, "this attempt of the delivery is no longer this member's")
	}
	return it, nil
}
