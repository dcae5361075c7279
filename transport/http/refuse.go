package http

import (
	"net/http"
	"strconv"

	"kernos/internal/jsonscan"
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
	body := strconv.AppendInt([]byte(`{"code":`), int64(r.status), 10)
	body = jsonscan.AppendQuoted(append(body, `,"name":`...), r.name)
	body = jsonscan.AppendQuoted(append(body, `,"message":`...), message.Clip(r.text, message.MaxErrorText))
	writeJSON(w, r.status, append(body, "}\n"...))
}

// writeJSON answers a request with JSON.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails if the peer has left
}
