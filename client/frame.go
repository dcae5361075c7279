package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
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

// A notification is an item of a stream, on its way. Servers name the notifications of
// subscriptions as they like; what makes one is the subscription in it.
type notification struct {
	Subscription json.RawMessage `json:"subscription"`
	Seq          uint64          `json:"seq"` // 0 if it is in the item, or nowhere
	Item         json.RawMessage `json:"result"`
}

func (f *frame) notifies() bool { return f.Method != "" }

// readFrames reads what has come: one frame, or a batch. Frames that are neither answers nor
// about a subscription are left out: other servers may have more to say.
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

// request writes a request.
func request(id uint64, method string, params ...json.RawMessage) []byte {
	name, _ := json.Marshal(method)
	text := []byte(`{"jsonrpc":"2.0","id":`)
	text = strconv.AppendUint(text, id, 10)
	text = append(append(text, `,"method":`...), name...)
	text = append(text, `,"params":[`...)
	text = append(text, bytes.Join(rawBytes(params), []byte(","))...)
	return append(text, "]}"...)
}

func rawBytes(raw []json.RawMessage) [][]byte {
	all := make([][]byte, len(raw))
	for i, r := range raw {
		all[i] = r
	}
	return all
}
