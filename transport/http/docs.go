package http

import (
	"fmt"
	"net/http"

	"kernos/docs"
	"kernos/message"
)

// llms answers with the index of the documentation, for models.
func (s *Server) llms(w http.ResponseWriter, _ *http.Request) {
	writePage(w, "text/plain", docs.All().LLMs("/docs/"))
}

// docs answers with a page of the documentation.
func (s *Server) docs(w http.ResponseWriter, r *http.Request) {
	file := r.PathValue("file")
	text, ok := docs.All().Read(file)
	if !ok {
		refuse(w, refusal{404, "no_such_page", fmt.Sprintf("No page of the documentation is at %s; /llms.txt lists the pages", message.Clip(file, 200))})
		return
	}
	writePage(w, markdownMedia, text)
}

// writePage answers with a text.
func writePage(w http.ResponseWriter, mediaType, text string) {
	w.Header().Set("Content-Type", mediaType+"; charset=utf-8")
	w.Header().Set("Cache-Control", "private, max-age=3600")
	_, _ = w.Write([]byte(text)) // fails if the peer has left
}
