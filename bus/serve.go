package bus

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// routes are the requests that a socket takes.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/join", s.leading(join))
	mux.HandleFunc("POST /v1/ack", s.leading(ack))
	mux.HandleFunc("POST /v1/telegram/{method}", s.leading(call))
	mux.HandleFunc("POST /v1/handover", s.leading(handover))
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, s.o.Status(r.Context()))
	})
	return mux
}

// leading wraps the handlers that only a leader serves, for its own term.
func (s *Server) leading(next func(h *Hub, w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := s.hub.Load()
		if h == nil {
			writeError(w, ErrHubClosed)
			return
		}
		term := strconv.FormatUint(h.Term(), 10)
		w.Header().Set(HeaderTerm, term)
		if named := r.Header.Get(HeaderTerm); named != term {
			writeError(w, refuseTerm(h, fmt.Sprintf("this leader's term is %s, the request's %q; read the lease afresh", term, named)))
			return
		}
		if err := next(h, w, r); err != nil {
			writeError(w, err)
		}
	}
}

func refuseTerm(h *Hub, message string) error {
	return &refusal{http.StatusConflict, ErrorAnswer{Error: message, Code: CodeTerm, Term: h.Term()}}
}

func join(h *Hub, w http.ResponseWriter, r *http.Request) error {
	var j JoinRequest
	if err := readBody(w, r, MaxJoin, &j); err != nil {
		return err
	}
	if err := j.validate(r.Header.Get(HeaderInstance)); err != nil {
		return refuse(http.StatusBadRequest, CodeBody, err.Error())
	}
	switch {
	case j.HighestTerm <= h.Term():
	case j.HighestTerm > maxSeen:
		return refuse(http.StatusBadRequest, CodeBody, fmt.Sprintf("highest_term %d is above any term", j.HighestTerm))
	default:
		h.o.HigherTerm(j.HighestTerm)
		return refuseTerm(h, fmt.Sprintf("term %d was seen, above this leader's %d; it takes a higher one, join again",
			j.HighestTerm, h.Term()))
	}
	notices, err := h.o.Settings.compare(j.Settings)
	if err != nil {
		return refuse(http.StatusConflict, CodeSettings, err.Error())
	}
	// Not before: what the journal holds of calls has to be known.
	if err := h.admit(r.Context()); err != nil {
		return err
	}
	if err := h.o.Calls.Joined(j.Instance, j.Calls, true); err != nil {
		return err
	}
	st, err := h.join(j, notices)
	if err != nil {
		return err
	}
	for _, n := range notices {
		h.o.Logger.Warn().Str("name", st.name).Msg(n)
	}
	h.serveStream(w, r, st)
	return nil
}

func ack(h *Hub, w http.ResponseWriter, r *http.Request) error {
	var a AckRequest
	if err := readBody(w, r, MaxAck, &a); err != nil {
		return err
	}
	if err := a.validate(); err != nil {
		return refuse(http.StatusBadRequest, CodeBody, err.Error())
	}
	instance, registration := r.Header.Get(HeaderInstance), r.Header.Get(HeaderRegistration)
	if len(a.Calls) > 0 { // before the answer, after which the member forgets them
		if err := h.checkRegistered(instance, registration); err != nil {
			return err
		}
		if err := h.o.Calls.Joined(instance, a.Calls, false); err != nil {
			return err
		}
	}
	verdicts, err := h.ack(instance, registration, a.Acks)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, AckAnswer{Verdicts: verdicts})
	return nil
}

func call(h *Hub, w http.ResponseWriter, r *http.Request) error {
	c := Call{
		Request:     r.Header.Get(HeaderRequest),
		Method:      r.PathValue("method"),
		ContentType: r.Header.Get("Content-Type"),
	}
	if c.Request == "" || len(c.Request) > maxID || strings.ContainsFunc(c.Request, isNotPrintable) {
		return refuse(http.StatusBadRequest, CodeBody,
			fmt.Sprintf("a call needs the header %s of 1 to %d printable ASCII characters", HeaderRequest, maxID))
	}
	var err error
	if c.Body, err = readAll(w, r, MaxCall); err != nil {
		return err
	}
	if delivery := r.Header.Get(HeaderDelivery); delivery != "" {
		attempt, err := strconv.Atoi(r.Header.Get(HeaderAttempt))
		if err != nil {
			return refuse(http.StatusBadRequest, CodeBody, "header "+HeaderAttempt+" is not a number")
		}
		it, err := h.holds(r.Header.Get(HeaderInstance), r.Header.Get(HeaderRegistration), Held{Delivery: delivery, Attempt: attempt})
		if err != nil {
			return err
		}
		c.Seq, c.Lane = it.Seq, it.Lane
	}
	result, err := h.o.Calls.Do(r.Context(), c)
	if err != nil {
		return err
	}
	answer(w, result.Status, result.Body)
	return nil
}

func handover(h *Hub, w http.ResponseWriter, r *http.Request) error {
	var req HandoverRequest
	if err := readBody(w, r, MaxHeader, &req); err != nil {
		return err
	}
	if err := h.handover(req.To); err != nil {
		return err
	}
	writeJSON(w, http.StatusAccepted, struct{}{})
	return nil
}
