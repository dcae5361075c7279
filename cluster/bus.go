package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// A bus carries what nodes tell each other and needn't keep. Messages may get lost.
type bus interface {
	publish(subject string, data []byte) error

	// subscribe calls f with the messages of a subject, one after the other, until it is stopped. Reply answers a request.
	subscribe(subject string, f func(data []byte, reply func([]byte))) (stop func(), err error)

	request(ctx context.Context, subject string, data []byte) ([]byte, error)
}

// A wire is a bus that is a connection to the servers.
type wire struct{ nc *nats.Conn }

func (w wire) publish(subject string, data []byte) error { return w.nc.Publish(subject, data) }

func (w wire) subscribe(subject string, f func(data []byte, reply func([]byte))) (func(), error) {
	s, err := w.nc.Subscribe(subject, func(m *nats.Msg) {
		f(m.Data, func(answer []byte) { _ = m.Respond(answer) }) // who asks waits for a while, and asks again
	})
	if err != nil {
		return nil, err
	}
	return func() { _ = s.Unsubscribe() }, nil // fails if the connection is closed
}

func (w wire) request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	m, err := w.nc.RequestWithContext(ctx, subject, data)
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

// An answer is what a node answers another one.
type answer struct {
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
}

// ask sends a request to a node and reads the value of its answer.
func (n *Node) ask(ctx context.Context, node, operation string, input, output any) error {
	data, err := json.Marshal(input)
	if err != nil {
		return err
	}
	data, err = n.bus.request(ctx, n.subject(operation, node), data)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("node %s isn't there", node)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return fmt.Errorf("node %s doesn't answer", node)
	case err != nil:
		return fmt.Errorf("node %s can't be asked: %w", node, err)
	}
	var a answer
	if err := json.Unmarshal(data, &a); err != nil {
		return fmt.Errorf("the answer of node %s can't be read: %w", node, err)
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	return json.Unmarshal(a.Value, output)
}

// serve answers the requests of other nodes, each on a goroutine of its own, until ctx is done.
func serve[In, Out any](ctx context.Context, n *Node, operation string, f func(context.Context, In) (Out, error)) error {
	stop, err := n.bus.subscribe(n.subject(operation, n.options.Name), func(data []byte, reply func([]byte)) {
		n.work.Go(func() {
			var a answer
			var in In
			err := json.Unmarshal(data, &in)
			if err == nil {
				var out Out
				if out, err = f(ctx, in); err == nil {
					a.Value, err = json.Marshal(out)
				}
			}
			if err != nil {
				a.Error = err.Error()
			}
			if data, err = json.Marshal(a); err == nil {
				reply(data)
			}
		})
	})
	if err == nil {
		context.AfterFunc(ctx, stop)
	}
	return err
}

// subject returns a subject that the stream doesn't keep.
func (n *Node) subject(operation string, node ...string) string {
	s := n.prefix + operation
	for _, name := range node {
		s += "." + name
	}
	return s
}
