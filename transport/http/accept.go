package http

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// wantsEvents reports whether a request asks for server-sent events, and would not rather have
// JSON.
func wantsEvents(r *http.Request) bool {
	events, json := 0.0, 0.0
	for _, line := range r.Header.Values("Accept") {
		for accepted := range strings.SplitSeq(line, ",") {
			kind, params, err := mime.ParseMediaType(accepted)
			if err != nil {
				continue
			}
			weight := 1.0
			if q, ok := params["q"]; ok {
				weight, _ = strconv.ParseFloat(q, 64) // 0 if it isn't a number
			}
			switch kind {
			case "text/event-stream":
				events = max(events, weight)
			case "application/json":
				json = max(json, weight)
			}
		}
	}
	return events > 0 && events >= json
}
