//go:build linux

package cluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"kernos/message"
)

// A door is a way to call a node.
type door interface {
	// call calls a syscall. The error is errNot if it certainly wasn't done, a *message.Error if the answer is one, and another one if
	// the outcome isn't known.
	call(kind message.Kind, name message.Type, data, key string) (json.RawMessage, error)
	close()
}

// errNot means that nothing has been sent.
var errNot = errors.New("nothing was sent")

// patience is how long a client waits for an answer before it calls again.
const patience = 10 * time.Second

var ids atomic.Int64

// A socketDoor sends lines to the socket of a node.
type socketDoor struct {
	node *node
	conn net.Conn
	in   *bufio.Reader
}

func (d *socketDoor) close() {
	if d.conn != nil {
		_ = d.conn.Close()
	}
	d.conn = nil
}

func (d *socketDoor) call(kind message.Kind, name message.Type, data, key string) (_ json.RawMessage, err error) {
	if d.conn == nil {
		if d.conn, err = net.DialTimeout("unix", d.node.where(), patience); err != nil {
			d.conn = nil
			return nil, fmt.Errorf("%w: %w", errNot, err)
		}
		d.in = bufio.NewReader(d.conn)
	}
	defer func() {
		if _, answered := errors.AsType[*message.Error](err); err != nil && !answered {
			d.close()
		}
	}()
	id := message.ID(fmt.Sprintf("proof-%d", ids.Add(1)))
	m := message.Message{Kind: kind, Type: name, Data: []byte(data), Metadata: message.Metadata{ID: id, Timestamp: time.Now().UnixMilli(), IdempotencyKey: key}}
	_ = d.conn.SetDeadline(time.Now().Add(patience))
	if _, err := d.conn.Write(append(message.Append(nil, &m), '\n')); err != nil {
		return nil, err
	}
	for {
		line, err := d.in.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var answer struct {
			Kind     message.Kind
			Data     json.RawMessage
			Metadata struct{ Causation message.ID }
		}
		if err := json.Unmarshal(line, &answer); err != nil {
			return nil, err
		}
		if answer.Metadata.Causation != id {
			continue
		}
		switch answer.Kind {
		case message.KindReply:
			return answer.Data, nil
		case message.KindError:
			return nil, errorOf(answer.Data)
		}
	}
}

func errorOf(data []byte) error {
	e := new(message.Error)
	if err := json.Unmarshal(data, e); err != nil || e.Code == 0 {
		return fmt.Errorf("not an error: %s", data)
	}
	return e
}

// A webDoor calls a node over HTTP.
type webDoor struct {
	node   *node
	client *http.Client
}

func newWebDoor(n *node) *webDoor {
	return &webDoor{node: n, client: &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 1}}}
}

func (d *webDoor) close() { d.client.CloseIdleConnections() }

func (d *webDoor) call(_ message.Kind, name message.Type, data, key string) (json.RawMessage, error) {
	module, method, _ := strings.Cut(string(name), ".")
	url := "http://" + d.node.address + "/v1/call/" + strings.ToLower(module) + "/" + strings.ToLower(method)
	r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader([]byte(data)))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	answer, err := d.client.Do(r)
	if err != nil {
		if op, is := errors.AsType[*net.OpError](err); is && op.Op == "dial" {
			return nil, fmt.Errorf("%w: %w", errNot, err)
		}
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusOK {
		return text, nil
	}
	return nil, errorOf(text)
}
