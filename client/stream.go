package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"sync"
)

// A Stream is what answers a call. One goroutine reads it.
type Stream struct {
	client *Client
	items  chan Item
	closed chan struct{} // closed by Close: items have no reader

	// Guarded by the client's lock.
	id   json.RawMessage // the subscription; nil until it is acknowledged
	last uint64          // number of the last item; 0 before the first
	any  bool            // an item has come

	finishing sync.Once
	finished  chan struct{} // closed when no further item comes
	err       error         // valid then; nil after done
	closing   sync.Once
}

// Stream is Open for a call that has only its method and parameters.
func (c *Client) Stream(ctx context.Context, method string, params ...any) (*Stream, error) {
	return c.Open(ctx, Request{Method: method, Params: params})
}

// Open makes a call and returns its stream when the server has acknowledged it. The caller reads
// it to its end, or closes it. The error is an *Unreachable, an *Untrusted, a *Refused, a *Lost,
// an *RPCError or that of the context.
func (c *Client) Open(ctx context.Context, r Request) (*Stream, error) {
	for {
		l, err := c.connected(ctx)
		if err != nil {
			return nil, err
		}
		s := &Stream{client: c, items: make(chan Item, maxUnread), closed: make(chan struct{}), finished: make(chan struct{})}
		w := &waiting{stream: s, acked: make(chan error, 1)}
		c.mu.Lock()
		if c.link != l {
			c.mu.Unlock()
			continue // the connection broke in this moment: nothing was sent
		}
		c.nextID++
		id := c.nextID
		frame, err := r.Frame(id)
		if err != nil {
			c.mu.Unlock()
			return nil, err
		}
		c.waiting[id] = w
		c.mu.Unlock()
		if err := l.write(ctx, frame); err != nil {
			c.mu.Lock()
			delete(c.waiting, id)
			c.mu.Unlock()
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, asLost(err)
		}
		select {
		case err := <-w.acked:
			if err != nil {
				return nil, err
			}
			return s, nil
		case <-ctx.Done():
			_ = s.Close()
			return nil, ctx.Err()
		}
	}
}

// Call calls a method, and returns the data of the last data item. The error is that of
// Stream, or a *Failure with the server's guidance.
func (c *Client) Call(ctx context.Context, method string, args ...any) (json.RawMessage, error) {
	s, err := c.Stream(ctx, method, args...)
	if err != nil {
		return nil, err
	}
	var data json.RawMessage
	var guidance *Guidance
	var failure error
	err = s.Each(ctx, func(item *Item) error {
		switch item.Type {
		case Data:
			data, failure = item.Data, nil // whatever was wrong before, the call continued
		case Guide:
			guidance = item.Guidance
		case Error:
			failure = &Failure{Text: item.Error, Code: item.Code, Guidance: guidance}
		}
		return nil
	})
	if err = cmp.Or(err, failure); err != nil {
		return nil, err
	}
	return data, nil
}

// Next returns the next item, which may be the last: it is of type Done then. Behind it the
// error is io.EOF.
func (s *Stream) Next(ctx context.Context) (Item, error) {
	select {
	case item := <-s.items:
		return item, nil
	default:
	}
	select {
	case item := <-s.items:
		return item, nil
	case <-s.finished:
	case <-ctx.Done():
		return Item{}, ctx.Err()
	}
	select {
	case item := <-s.items: // the item came before the end did
		return item, nil
	default:
	}
	if s.err != nil {
		return Item{}, s.err
	}
	return Item{}, io.EOF
}

// Items returns the items until the stream ends, or an error, which is the last.
func (s *Stream) Items(ctx context.Context) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for {
			item, err := s.Next(ctx)
			if err == io.EOF || !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// Each gives the items to a function until the stream ends, and closes the stream. An error of the function ends the
// stream, and is returned as it is.
func (s *Stream) Each(ctx context.Context, f func(*Item) error) error {
	defer func() { _ = s.Close() }()
	for item, err := range s.Items(ctx) {
		if err == nil {
			err = f(&item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Close ends the stream for a reader that wants no further items. If the stream has not ended, the server is
// asked to cancel it.
func (s *Stream) Close() error {
	s.closing.Do(func() {
		close(s.closed)
		c := s.client
		c.mu.Lock()
		id, l := s.id, c.link
		_, running := c.streams[string(id)]
		delete(c.streams, string(id))
		c.nextID++
		text := ownRequest(c.nextID, methodUnsubscribe, id)
		c.mu.Unlock()
		s.finish(ErrClosed)
		if running && l != nil {
			_ = l.write(c.ctx, text) // a server that can't be reached has lost its client anyhow
		}
	})
	return nil
}

func (s *Stream) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// finish notes that no further item comes. Only the first reason counts.
func (s *Stream) finish(err error) {
	s.finishing.Do(func() {
		s.err = err
		close(s.finished)
	})
}

// resumable reports whether the server can be asked for the rest of the stream. One that
// does not number its items can't know which have come.
func (s *Stream) resumable() bool { return s.id != nil && (s.last > 0 || !s.any) }

// repeats reports whether an item has come before.
func (s *Stream) repeats(seq uint64) bool { return seq > 0 && seq <= s.last }

// count takes note of an item's number. A first item with the number 0 is like one without:
// other servers may count from there.
func (s *Stream) count(seq uint64) error {
	if !s.any && seq > 1 {
		return &Broken{fmt.Sprintf("the first item of the stream has the number %d, and not 1", seq)}
	}
	if s.last > 0 && seq != s.last+1 {
		return &Broken{fmt.Sprintf("item %d of the stream is followed by item %d", s.last, seq)}
	}
	s.last, s.any = seq, true
	return nil
}
