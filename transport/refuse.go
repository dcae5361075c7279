package transport

import (
	"encoding/json"
	"net/http"
	"strconv"

	"kernos/message"
)

// Refuse answers a request of HTTP in place of a syscall. The name is for programs, and is part of the
// interface; the text is for people, and says what to do.
func Refuse(w http.ResponseWriter, status int, name, text string) {
	body, _ := json.Marshal(struct { // never fails
		Code    int    `json:"code"`
		Name    string `json:"name"`
		Message string `json:"message"`
	}{status, name, message.Clip(text, message.MaxErrorText)})
	WriteJSON(w, status, append(body, '\n'))
}

// TooManyConnections is the name of the refusal of a request whose connection finds no place.
const TooManyConnections = "too_many_connections"

// RefuseFull answers a request of HTTP for which s has no place.
func (s *Server) RefuseFull(w http.ResponseWriter) {
	full := s.Full()
	w.Header().Set("Retry-After", "1")
	Refuse(w, full.Code, TooManyConnections, full.Message)
}

// WriteJSON answers a request of HTTP with JSON.
func WriteJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	if len(body) > 1<<10 { // net/http counts a short body when the handler has returned
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails if the peer has left
}

// jsonType is shared by all answers, which saves an allocation for each.
var jsonType = []string{"application/json"}
