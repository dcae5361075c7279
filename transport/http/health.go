package http

import (
	"net/http"

	"kernos/transport"
)

// healthz reports that the process lives.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	transport.WriteJSON(w, http.StatusOK, []byte(`{"status":"ok"}`+"\n"))
}

// readyz reports whether the kernel does its work. The reason is for the operator's log only:
// the request needs no token.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if s.requests.Stopping().Err() != nil {
		refuse(w, stopping)
		return
	}
	if s.opts.Ready != nil {
		if err := s.opts.Ready(); err != nil {
			s.opts.Log.Warn("not ready", "error", err)
			refuse(w, refusal{503, "not_ready", "The kernel can't do its work at the moment; the daemon's log says why"})
			return
		}
	}
	transport.WriteJSON(w, http.StatusOK, []byte(`{"status":"ready"}`+"\n"))
}
