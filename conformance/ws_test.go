package conformance

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"kernos/store"
	"kernos/transport/rpc"
	"kernos/transport/ws"
)

// dialWS talks to a kernel in this process over WebSocket. A line is a message.
func dialWS(t *testing.T, c *conversation, open func() (store.Store, error)) (io.WriteCloser, io.Reader) {
	t.Helper()
	k, end := newKernel(t, c, open)
	handler := ws.New(rpc.New(k, nil), nil)
	server := httptest.NewServer(handler)
	conn, _, err := websocket.Dial(context.Background(), "ws"+strings.TrimPrefix(server.URL, "http"), nil)
	if err != nil {
		server.Close()
		t.Fatal(errors.Join(err, end()))
	}
	conn.SetReadLimit(-1)
	read, write := io.Pipe()
	go func() {
		var err error
		for err == nil {
			var message []byte
			if _, message, err = conn.Read(context.Background()); err != nil {
				break
			}
			if bytes.Equal(message, []byte(lastResponse)) {
				err = conn.Close(websocket.StatusNormalClosure, "")
				break
			}
			_, err = write.Write(append(message, '\n'))
		}
		err = errors.Join(err, handler.Shutdown(context.Background()))
		server.Close()
		_ = write.CloseWithError(errors.Join(err, end()))
	}()
	return &lineSender{conn: conn}, read
}

// The last call of a conversation, and its response: a connection is served in order, so
// nothing more can come after that.
const (
	lastCall     = `{"jsonrpc":"2.0","id":"the end","method":"service_unsubscribe","params":["none"]}`
	lastResponse = `{"jsonrpc":"2.0","id":"the end","result":false}`
)

// lineSender sends lines as messages.
type lineSender struct {
	conn   *websocket.Conn
	line   []byte
	closed bool
}

func (s *lineSender) Write(p []byte) (int, error) {
	s.line = append(s.line, p...)
	for {
		line, rest, ok := bytes.Cut(s.line, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		if err := s.conn.Write(context.Background(), websocket.MessageText, line); err != nil {
			return 0, err
		}
		s.line = rest
	}
}

func (s *lineSender) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	return s.conn.Write(context.Background(), websocket.MessageText, []byte(lastCall))
}
