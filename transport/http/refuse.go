package http

import (
	"encoding/json"
	"net/http"
	"strconv"

	"kernos/message"
)

// A refusal is an answer that no syscall gives. Its name is for programs, and is part of the
// interface; its text is for people, and says what to do.
type refusal struct {
	status int
	name   string
	text   string
}

// refuse answers a request with a refusal.
func refuse(w http.ResponseWriter, r refusal) {
	body, _ := json.Marshal(struct { // never fails
		Code    int    `json:"code"`
		Name    string `json:"name"`
		Message string `json:"message"`
	}{r.status, r.name, message.Clip(r.text, message.MaxErrorText)})
	writeJSON(w, r.status, append(body, '\n'))
}

// writeJSON answers a request with JSON.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails if the peer has left
}
