package bus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// refusal is an error that is answered as it stands.
type refusal struct {
	status int
	answer ErrorAnswer
}

func (r *refusal) Error() string { return r.answer.Error }

func refuse(status int, code, message string) error {
	return &refusal{status, ErrorAnswer{Error: message, Code: code}}
}

// readBody decodes the body, one JSON value.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, into any) error {
	body, err := readAll(w, r, limit)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return refuse(http.StatusBadRequest, CodeBody, "body: "+err.Error())
	}
	return nil
}

// readAll reads the body to its end, so that from then on the end of the
// connection ends the request's context.
func readAll(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if big := (*http.MaxBytesError)(nil); errors.As(err, &big) {
		return nil, refuse(http.StatusRequestEntityTooLarge, CodeBody, fmt.Sprintf("the body has more than %d bytes", limit))
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, CodeBody, "body: "+err.Error())
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, nil
}

// writeError answers with a refusal; what is none of ours is "busy": the
// member tries again.
func writeError(w http.ResponseWriter, err error) {
	var r *refusal
	switch {
	case errors.As(err, &r):
	case errors.Is(err, ErrHubClosed), errors.Is(err, ErrNotBegun):
		r = &refusal{http.StatusServiceUnavailable, ErrorAnswer{
			Error: "this member is not the leader; read the lease afresh", Code: CodeNotLeader,
		}}
	case errors.Is(err, ErrOutcomeUnknown):
		r = &refusal{http.StatusBadGateway, ErrorAnswer{Error: err.Error(), Code: CodeUnknown}}
	case errors.Is(err, ErrOtherRequest):
		r = &refusal{http.StatusUnprocessableEntity, ErrorAnswer{Error: err.Error(), Code: CodeRequest}}
	default:
		r = &refusal{http.StatusServiceUnavailable, ErrorAnswer{Error: err.Error(), Code: CodeBusy}}
	}
	writeJSON(w, r.status, r.answer)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := encodeJSON(v)
	if err != nil { // of a Status that is not JSON
		status, body = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be encoded","code":"busy"}`)
	}
	answer(w, status, body)
}

// answer writes an answer. Who went away while being answered needs no other.
func answer(w http.ResponseWriter, status int, body []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(lineTimeout))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
