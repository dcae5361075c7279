package http

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/message"
	"kernos/store/blobs"
	"kernos/transport"
	"kernos/transport/rpc"
)

// lastEventID is the header in which a reader of server-sent events names the last one that came.
const lastEventID = "Last-Event-ID"

// call answers one call. The body of the request is its parameters, in any of the forms that
// they have in RPC. What comes back is what the syscall replies, or an error; or the items of
// the stream, if the caller accepts server-sent events. A caller that names the last event that
// it has seen gets the rest, and makes no other call.
func (s *Server) call(w http.ResponseWriter, r *http.Request) {
	method := r.PathValue("module") + "_" + r.PathValue("method")
	params, no := s.parameters(w, r)
	if no != nil {
		s.opts.RPC.Refused(r.Context(), method, &message.Error{Code: no.status, Message: no.text})
		refuse(w, *no)
		return
	}
	events := wantsEvents(r)
	switch {
	case r.Header.Get(lastEventID) != "":
		s.resumeCall(w, r, method)
		return
	case method == "service_resume":
		s.resumeByParams(w, r, params, events)
		return
	}
	ctx, release := s.lasting(r)
	c := rpc.Call{
		Method: method, Params: blobs.RemoteOf(ctx).Inward(params),
		Correlation: r.Header.Get("X-Correlation-Id"), Causation: r.Header.Get("X-Causation-Id"), IdempotencyKey: r.Header.Get("Idempotency-Key"), Extra: extensions(r.Header),
	}
	if events {
		sub, err := s.opts.RPC.Open(ctx, c)
		if err != nil {
			release()
			refuseCall(w, err)
			return
		}
		s.requests.Go(func() { // the call continues when the request has ended, so that its stream can be resumed
			defer release()
			sub.Run()
		})
		s.follow(w, r, sub)
		return
	}
	defer release()
	outcome, err := s.opts.RPC.Call(ctx, c, r.Context().Done())
	if err != nil {
		refuseCall(w, err)
		return
	}
	writeOutcome(w, &outcome, blobs.RemoteOf(ctx))
}

// extensions returns the members of metadata that the headers of a request have: its trace, and those that begin with X-Meta-.
func extensions(h http.Header) string {
	var about message.Metadata
	for name, values := range h {
		if name = strings.ToLower(name); name == message.Traceparent || name == message.Tracestate || strings.HasPrefix(name, "x-meta-") {
			about.Keep(jsonvalue.Marshal(map[string]string{name: strings.Join(values, ",")}))
		}
	}
	return about.Extra
}

// refuseCall answers a call that is not made.
func refuseCall(w http.ResponseWriter, err error) {
	if errors.Is(err, rpc.ErrClosed) {
		refuse(w, stopping)
		return
	}
	e, _ := message.ErrorOf(err)
	if e.Code == http.StatusServiceUnavailable {
		refuse(w, refusal{e.Code, transport.Unavailable, e.Message})
		return
	}
	refuse(w, refusal{e.Code, "invalid_request", e.Message})
}

// writeOutcome answers with what came of a call. Guidance stands beside the error that it is
// about, as the item that it is on a stream.
func writeOutcome(w http.ResponseWriter, o *rpc.Outcome, remote *blobs.Remote) {
	if o.Request != "" {
		w.Header().Set("Kernos-Request", string(o.Request))
	}
	if o.Deprecated.What != "" {
		flag(w.Header(), o.Deprecated)
	}
	if o.Note != "" {
		w.Header().Set("Kernos-Note", o.Note)
	}
	if o.Err == nil {
		transport.WriteJSON(w, http.StatusOK, append(remote.Outward(o.Data), '\n'))
		return
	}
	status := o.Err.Code
	if status < 400 || status > 599 {
		status = http.StatusInternalServerError
	}
	body := json.RawMessage(o.Err.Append(nil))
	if o.Guidance != nil {
		body = jsonvalue.Members(body).Set("name", jsonscan.AppendQuoted(nil, o.ErrorKind())).Set("guidance", o.Guidance).Text()
	}
	transport.WriteJSON(w, status, append(body, '\n'))
}

// flag flags the use of what is deprecated, in the headers of RFC 9745 and RFC 8594.
func flag(h http.Header, d kernel.Deprecation) {
	if since, err := time.Parse(time.DateOnly, d.Since); err == nil {
		h.Set("Deprecation", "@"+strconv.FormatInt(since.Unix(), 10))
	}
	if until, err := time.Parse(time.DateOnly, d.Until); err == nil {
		h.Set("Sunset", until.Format(http.TimeFormat))
	}
	h.Set("Kernos-Deprecated", d.What+"; use "+d.Instead)
}

// parameters reads the body of a call. Nil means that there is none.
func (s *Server) parameters(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.opts.MaxBody))
	if err == nil {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	_, tooLong := errors.AsType[*http.MaxBytesError](err)
	switch {
	case tooLong:
		return nil, &refusal{413, "body_too_large", fmt.Sprintf("The parameters of a call may have %d bytes; put large data where it can be fetched, and send a pointer to it", s.opts.MaxBody)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, &refusal{408, "body_too_slow", fmt.Sprintf("The parameters of the call did not come within %v", s.opts.BodyTime)}
	case err != nil:
		w.Header().Set("Connection", "close")
		return nil, &refusal{400, "body_broken", "The parameters of the call did not come to their end"}
	case jsonscan.Space(body, 0) == len(body):
		return nil, nil
	}
	var scan jsonscan.Scanner
	if err := scan.Text(body); err != nil {
		return nil, &refusal{400, "body_not_json", "The parameters of a call are JSON: " + err.Error()}
	}
	return body, nil
}
