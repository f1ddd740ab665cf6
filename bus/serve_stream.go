package bus

import (
	"bufio"
	"errors"
	"net/http"
	"time"
)

// serveStream writes a member's stream until it is closed, the member goes away
// or does not take a line in time.
func (h *Hub) serveStream(w http.ResponseWriter, r *http.Request, s *stream) {
	defer h.leave(s)
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	out := bufio.NewWriterSize(w, 32<<10)
	ping := time.NewTicker(h.o.PingEvery)
	defer ping.Stop()
	for {
		queue, closed := s.take()
		if err := h.writeLines(control, out, s, queue); err != nil {
			h.o.Logger.Debug().Err(err).Str("name", s.name).Msg("stream ended")
			return
		}
		if closed {
			return
		}
		select {
		case <-s.more:
		case <-ping.C:
			s.push(outgoing{msg: Message{Type: MsgPing}})
		case <-r.Context().Done():
			return
		case <-h.done:
			s.close()
		}
	}
}

func (h *Hub) writeLines(control *http.ResponseController, out *bufio.Writer, s *stream, queue []outgoing) error {
	if len(queue) == 0 {
		return nil
	}
	for _, o := range queue {
		var body []byte
		var err error
		if o.seq != 0 {
			body, err = h.o.Store.Body(o.seq)
		}
		if err != nil && !errors.Is(err, ErrBodyLost) {
			h.sendLater(s, o, err)
			continue
		}
		var line []byte
		if err == nil {
			line, err = o.encode(body)
		}
		if err != nil {
			h.unsendable(s, o, err)
			continue
		}
		_ = control.SetWriteDeadline(time.Now().Add(lineTimeout))
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return control.Flush()
}

// unsendable makes a dead letter of a delivery that cannot be put on a stream:
// no attempt would change that.
func (h *Hub) unsendable(s *stream, o outgoing, err error) {
	h.o.Logger.Error().Err(err).Str("delivery", o.msg.Delivery).Msg("delivery cannot be sent")
	h.tell(func(d *Dispatcher, now Now) { d.GiveUp(now, s.instance, o.held(), err.Error()) })
}

// readAgainAfter is how long a delivery waits that could not be read.
const readAgainAfter = time.Second

// sendLater puts a delivery on the stream again that could not be read, unless
// the member does not have it in hand any more by then.
func (h *Hub) sendLater(s *stream, o outgoing, err error) {
	if !o.again {
		h.o.Logger.Warn().Err(err).Str("delivery", o.msg.Delivery).Dur("delay", readAgainAfter).
			Msg("delivery cannot be read, tried again until it can")
	}
	o.again = true
	h.spawn(func() {
		if pause(h.ctx, readAgainAfter) != nil {
			return
		}
		h.tell(func(d *Dispatcher, _ Now) {
			if _, held := d.Holds(s.instance, o.held()); held {
				s.push(o)
			}
		})
	})
}

func (o outgoing) held() Held { return Held{Delivery: o.msg.Delivery, Attempt: o.msg.Attempt} }
