package client

import (
	"context"
	"testing"
)

// FuzzFrames receives anything at all from a server while a request waits. It never panics, a request gets at most one
// answer, and the next good answer still reaches its request.
func FuzzFrames(f *testing.F) {
	for _, seed := range []string{
		"", "{", "null", "[]", `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":1}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":"1","result":{}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","id":1e0,"result":1}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"total":0}}`, `{"jsonrpc":"2.0","method":"notifications/progress","params":[]}`,
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"\u0000"}}`,
		`{"jsonrpc":"2.0","id":"a","method":"ping"}`, `{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"mode":"url"}}`, `{"jsonrpc":"2.0","id":{},"method":"roots/list"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		c := &Conn{opts: Options{Log: func(string) {}, Changed: func() {}}, pending: make(map[int64]*pending), answering: make(chan struct{}, maxAnswers), wire: silent{}}
		c.life, c.end = context.WithCancelCause(context.Background())
		first, second := &pending{answer: make(chan *frame, 1), progress: func(string, float64) {}}, &pending{answer: make(chan *frame, 1)}
		c.pending[1] = first
		_ = c.receive(input)
		_ = c.receive(input)
		c.mu.Lock()
		c.pending[2] = second
		c.mu.Unlock()
		if err := c.receive([]byte(`{"jsonrpc":"2.0","id":2,"result":{"ok":true}}`)); err != nil || len(second.answer) != 1 {
			t.Errorf("after %q: %v, and %d answers", input, err, len(second.answer))
		}
		c.Close()
	})
}

// silent is a wire that sends nothing.
type silent struct{}

func (silent) request(context.Context, *outgoing, *pending) error { return nil }
func (silent) send(context.Context, []byte, string) error         { return nil }
func (silent) readNotifications()                                 {}
func (silent) close()                                             {}
