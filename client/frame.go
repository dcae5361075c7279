package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// A frame is what a server sends: the answer to a request, or a notification.
type frame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *RPCError       `json:"error"`
	Params json.RawMessage `json:"params"`

	about notification // valid if it notifies
}

// A notification carries an item of a stream. Servers name the notifications of
// subscriptions as they like; what makes one is the subscription in it.
type notification struct {
	Subscription json.RawMessage `json:"subscription"`
	Seq          uint64          `json:"seq"` // 0 if it is in the item, or nowhere
	Item         json.RawMessage `json:"result"`
}

func (f *frame) notifies() bool { return f.Method != "" }

// readFrames reads what has come: one frame, or a batch. Frames that are neither answers nor
// about a subscription are left out: other servers may send more.
func readFrames(text []byte) ([]frame, error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil, errors.New("an empty frame")
	}
	var all []frame
	if text[0] == '[' {
		if err := json.Unmarshal(text, &all); err != nil {
			return nil, err
		}
	} else {
		all = make([]frame, 1)
		if err := json.Unmarshal(text, &all[0]); err != nil {
			return nil, err
		}
	}
	kept := all[:0]
	for _, f := range all {
		switch {
		case f.notifies():
			if json.Unmarshal(f.Params, &f.about) == nil && len(f.about.Subscription) > 0 && len(f.about.Item) > 0 {
				kept = append(kept, f)
			}
		case f.Result != nil || f.Error != nil:
			kept = append(kept, f)
		}
	}
	return kept, nil
}

// A Request is a call, with the metadata that a kernel's message may have beside its parameters.
type Request struct {
	Method string // such as memory_get
	Params []any  // as they stand in the request's list; a method with named ones takes one object

	Kind     string   // "command" for a query that is to be run as one; a kernel knows the rest
	Metadata Metadata // other servers ignore it
}

// Metadata is what the message of a call is recorded with. A kernel gives it an id where it has none.
type Metadata struct {
	ID             string `json:"id,omitempty"`
	Correlation    string `json:"correlation,omitempty"`
	Causation      string `json:"causation,omitempty"`
	IdempotencyKey string `json:"idempotencyKey,omitempty"`
	Repeated       bool   `json:"repeated,omitempty"` // a query that the client repeats by itself
}

// Frame writes the request as the frame that is sent for it.
func (r Request) Frame(id uint64) ([]byte, error) {
	text, err := json.Marshal(struct {
		Version  string   `json:"jsonrpc"`
		ID       uint64   `json:"id"`
		Method   string   `json:"method"`
		Params   []any    `json:"params"`
		Kind     string   `json:"kind,omitempty"`
		Metadata Metadata `json:"metadata,omitzero"`
	}{"2.0", id, r.Method, append([]any{}, r.Params...), r.Kind, r.Metadata})
	if err != nil {
		return nil, fmt.Errorf("the parameters can't be written as JSON: %w", err)
	}
	return text, nil
}

// ownRequest writes a request of the protocol itself. Its parameters are valid JSON.
func ownRequest(id uint64, method string, params ...any) []byte {
	text, _ := Request{Method: method, Params: params}.Frame(id)
	return text
}
