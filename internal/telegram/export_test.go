package telegram

import (
	"encoding/json"
	"net/http"
)

// DecodeAnswer judges an answer as a client with that secret part does.
func DecodeAnswer(secretPart, method string, status int, header http.Header, body []byte, cut error) (json.RawMessage, error) {
	r := newRedactor(redactor{}.token, secretPart)
	return r.decode(answer{method: method, status: status, header: header, body: body, cut: cut})
}

// Targets returns how many targets the API remembers.
func (a *API) Targets() int {
	a.pace.mu.Lock()
	defer a.pace.mu.Unlock()
	return len(a.pace.targets)
}
