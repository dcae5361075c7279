package recorded

import (
	"context"
	"encoding/json"

	"github.com/oklog/ulid/v2"

	"kernos/cmd/kernos/request"
	"kernos/message"
)

// ownRequests are the ids of the requests of this listing. The daemon records them like all
// others, and a command that shows the journal doesn't show itself.
type ownRequests map[string]bool

// noting returns a caller that adds its requests.
func (o ownRequests) noting(call request.Caller) request.Caller {
	return func(ctx context.Context, request message.Message, event func(message.Message)) (message.Message, error) {
		request.Metadata.ID = message.ID(ulid.Make().String())
		o[string(request.Metadata.ID)] = true
		return call(ctx, request, event)
	}
}

// has reports whether a recorded message is one of the requests, or was caused by one.
func (o ownRequests) has(recorded json.RawMessage) bool {
	var m struct {
		Metadata struct{ ID, Causation string }
	}
	if len(o) == 0 || json.Unmarshal(recorded, &m) != nil {
		return false
	}
	return o[m.Metadata.ID] || o[m.Metadata.Causation]
}
