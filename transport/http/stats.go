package http

import "kernos/transport"

// The reasons for which requests are refused, beside those of every wire.
const (
	refusedRequests transport.Reason = "requests" // too many at a time
	refusedRate     transport.Reason = "rate"
	refusedHost     transport.Reason = "host"
	refusedOrigin   transport.Reason = "origin"
	refusedToken    transport.Reason = "token"
)

// answered counts an answer. Status 0 is that of a handler which found that its peer has left.
func (s *Server) answered(status int) {
	if class := status / 100; class < len(s.answers) {
		s.answers[class].Add(1)
	}
}

// Stats returns the figures of the moment. WebSockets are not among the connections. Refused
// has the requests that were refused, too, before anything looked at what they ask for.
func (s *Server) Stats() transport.Stats {
	now, requests := s.conns.Stats(), s.requests.Stats()
	now.Accepted = requests.Accepted
	for reason, n := range requests.Refused {
		if reason == transport.TooMany {
			reason = refusedRequests
		}
		now.Refused[reason] += n
	}
	return now
}
