package bus

import (
	"bufio"
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
		line, err := o.encode(h.o.Store.Body)
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

// unsendable makes a delivery that cannot be put on a stream a failed attempt,
// so that it ends as a dead letter and not in a member that joins for ever.
func (h *Hub) unsendable(s *stream, o outgoing, err error) {
	h.o.Logger.Error().Err(err).Str("delivery", o.msg.Delivery).Msg("delivery cannot be sent")
	h.tell(func(d *Dispatcher, now Now) {
		d.Ack(now, s.instance, Ack{
			Delivery: o.msg.Delivery, Attempt: o.msg.Attempt,
			Outcome: Outcome{Status: Failed, Error: err.Error()},
		})
	})
}
