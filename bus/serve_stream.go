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
	ping := time.NewTicker(h.o.Heartbeat)
	defer ping.Stop()
	for {
		queue, closed := s.take()
		if err := h.writeLines(control, out, queue); err != nil {
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

func (h *Hub) writeLines(control *http.ResponseController, out *bufio.Writer, queue []outgoing) error {
	if len(queue) == 0 {
		return nil
	}
	_ = control.SetWriteDeadline(time.Now().Add(lineTimeout))
	for _, o := range queue {
		line, err := o.encode(h.o.Store.Body)
		if err != nil {
			return err
		}
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return control.Flush()
}
