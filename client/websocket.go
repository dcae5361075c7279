package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"kernos/message"
)

const (
	pingEvery = 30 * time.Second
	pongTime  = 15 * time.Second

	// writeTime is how long a request may take to be written.
	writeTime = 30 * time.Second
)

// A webSocket is one connection.
type webSocket struct {
	conn       *websocket.Conn
	delivering atomic.Bool // the reader waits for a stream that is not read
}

func (l *webSocket) read(ctx context.Context) ([]byte, error) {
	_, text, err := l.conn.Read(ctx)
	if c, ok := errors.AsType[websocket.CloseError](err); ok {
		err = fmt.Errorf("the server has closed it with code %d", c.Code)
		if c.Code == websocket.StatusGoingAway {
			err = message.ErrServerStopping
		}
		if c.Reason != "" {
			err = fmt.Errorf("%w: %s", err, c.Reason)
		}
	}
	return text, err
}

// write writes a frame, whole or not at all: it is not given up halfway because one caller
// has lost interest.
func (l *webSocket) write(ctx context.Context, frame []byte) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	return l.conn.Write(ctx, websocket.MessageText, frame)
}

// watch pings the server as long as the connection is read, and breaks a connection on which nothing
// comes back: a machine that is gone doesn't close its connections.
func (l *webSocket) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-time.After(pingEvery):
			case <-ctx.Done():
				return
			}
			pinging, done := context.WithTimeout(ctx, pongTime)
			err := l.conn.Ping(pinging)
			done()
			if err != nil && !l.delivering.Load() {
				_ = l.conn.CloseNow()
				return
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// closeInOrder closes the connection, and waits for the server to close its side.
func (l *webSocket) closeInOrder() { _ = l.conn.Close(websocket.StatusNormalClosure, "") }

func (l *webSocket) close() { _ = l.conn.CloseNow() }
