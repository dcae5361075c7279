package http

import (
	"net/http"

	"kernos/transport"
)

// A refusal is an answer that no syscall gives; see [transport.Refuse].
type refusal struct {
	status int
	name   string
	text   string
}

// refuse answers a request with a refusal.
func refuse(w http.ResponseWriter, r refusal) { transport.Refuse(w, r.status, r.name, r.text) }
