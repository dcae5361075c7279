package http

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"kernos/kernel"
	"kernos/message"
	"kernos/transport/rpc"
)

// eventIDSign stands in the id of an event between the id of the stream and the number of the
// item.
const eventIDSign = ':'

var (
	badEventID = refusal{422, "bad_event_id", "Last-Event-ID isn't the id of an event of this stream; send the id of the last event that came"}
	badAfter   = refusal{422, "bad_after", "after must be the number of the last item that came, 0 if none did"}
)

// parseEventID takes the id of an event apart.
func parseEventID(text string) (id string, after int64, ok bool) {
	i := strings.LastIndexByte(text, eventIDSign)
	if i < 0 {
		return "", 0, false
	}
	after, err := strconv.ParseInt(text[i+1:], 10, 64)
	return text[:i], after, err == nil
}

// resume answers with the rest of a stream. A browser names the last item that it got in
// Last-Event-ID; other clients may use the parameter after as well.
func (s *Server) resume(w http.ResponseWriter, r *http.Request) {
	if _, no := s.parameters(w, r); no != nil { // a resume has no parameters
		refuse(w, *no)
		return
	}
	id := r.PathValue("id")
	var after int64
	if text := r.Header.Get(lastEventID); text != "" {
		of, n, ok := parseEventID(text)
		if !ok || of != id {
			refuse(w, badEventID)
			return
		}
		after = n
	} else if query := r.URL.Query(); query.Has("after") {
		n, err := strconv.ParseInt(query.Get("after"), 10, 64)
		if err != nil {
			refuse(w, badAfter)
			return
		}
		after = n
	}
	s.resumeAt(w, r, "", id, after)
}

// resumeCall answers the request of a call that is sent again because its events broke off, as
// libraries do.
func (s *Server) resumeCall(w http.ResponseWriter, r *http.Request, method string) {
	id, after, ok := parseEventID(r.Header.Get(lastEventID))
	if !ok {
		refuse(w, badEventID)
		return
	}
	s.resumeAt(w, r, method, id, after)
}

// resumeByParams is service_resume.
func (s *Server) resumeByParams(w http.ResponseWriter, r *http.Request, params []byte, events bool) {
	id, after, ok := rpc.ResumeParams(params)
	switch {
	case !events:
		refuse(w, refusal{406, "events_only", "A stream is resumed as server-sent events: send Accept: text/event-stream, or ask with GET /v1/streams/{id}?after=N"})
	case !ok:
		refuse(w, refusal{422, "invalid_params", "service_resume takes the id of a subscription and the seq of the last item that came, 0 if none did"})
	default:
		s.resumeAt(w, r, "", id, after)
	}
}

// resumeAt answers with the items of a stream after a number. The method is the one that was
// called; "" is any.
func (s *Server) resumeAt(w http.ResponseWriter, r *http.Request, method, id string, after int64) {
	sub, err := s.opts.RPC.Resume(r.Context(), id, after, method)
	if errors.Is(err, rpc.ErrAllCame) {
		w.WriteHeader(http.StatusNoContent) // on this status a browser stops reconnecting
		return
	}
	if err != nil {
		e, _ := message.ErrorOf(err)
		name := "stream_not_kept"
		if e.Code != http.StatusGone {
			name = "bad_event_id"
		}
		refuse(w, refusal{e.Code, name, e.Message})
		return
	}
	s.follow(w, r, sub)
}

// unsubscribe ends a stream: a peer that only leaves may come back.
func (s *Server) unsubscribe(w http.ResponseWriter, r *http.Request) {
	if !s.opts.RPC.Unsubscribe(kernel.SenderIn(r.Context()).Principal(), r.PathValue("id")) {
		refuse(w, refusal{410, "stream_not_kept", "Not kept: the stream no longer exists"})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
