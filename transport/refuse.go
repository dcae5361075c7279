package transport

import (
	"encoding/json"
	"net/http"
	"strconv"

	"kernos/message"
)

// Refuse answers a request of HTTP in place of a syscall. The name is for programs, and is part of the
// interface; the text is for people, and describes what to do.
func Refuse(w http.ResponseWriter, status int, name, text string) {
	body, _ := json.Marshal(struct { // never fails
		Code    int    `json:"code"`
		Name    string `json:"name"`
		Message string `json:"message"`
	}{status, name, message.Clip(text, message.MaxErrorText)})
	WriteJSON(w, status, append(body, '\n'))
}

// The names of refusals that every wire over HTTP has.
const (
	TooManyConnections = "too_many_connections" // the connection finds no place
	ShuttingDown       = "stopping"
	Unavailable        = "unavailable" // the kernel can't answer at the moment
)

// ShuttingDownText is the text of such a refusal.
const ShuttingDownText = "The daemon is shutting down; try again"

// RefuseFor answers a request of HTTP that [Server.Admit] has refused, and reports whether it has:
// an empty reason means that it was not refused.
func (s *Server) RefuseFor(w http.ResponseWriter, reason Reason) bool {
	switch reason {
	case "":
		return false
	case Stopping:
		w.Header().Set("Retry-After", "1")
		Refuse(w, http.StatusServiceUnavailable, ShuttingDown, ShuttingDownText)
	default:
		full := s.Full()
		w.Header().Set("Retry-After", "1")
		Refuse(w, full.Code, TooManyConnections, full.Message)
	}
	return true
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
