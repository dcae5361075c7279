package kernel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/internal/secret"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
)

// Blobs keeps data that is too large for a message: it knows where each blob is, who needs it,
// and which principal may fetch it. It is safe for concurrent use.
type Blobs interface {
	BlobPutter
	BlobOwners

	// Share lets a principal fetch the blobs that data mentions and that another principal may
	// fetch, except for blobs that the principal has named itself, in asked.
	Share(ctx context.Context, data, asked []byte, from, to *principal.Principal) error

	// Beginning returns at most n bytes of the beginning of a blob, and the blob's size. It fails if
	// the pointer isn't to a blob, or if the caller of ctx may not fetch it.
	Beginning(ctx context.Context, p message.BlobPointer, n int) (first []byte, size int64, err error)
}

// A BlobPutter is the part of [Blobs] that keeps data.
type BlobPutter interface {
	// Put keeps data, which the caller of ctx may then fetch, and returns where it is.
	Put(ctx context.Context, data []byte) (message.BlobPointer, error)
}

// BlobOwners is the part of [Blobs] that knows the owners of each blob. A blob without an owner is
// removed in time.
type BlobOwners interface {
	// Refer adds to a batch that an owner needs the blobs that data mentions.
	Refer(b *store.Batch, data, owner []byte)

	// Unrefer adds to a batch that an owner no longer needs the blobs that data mentions.
	Unrefer(b *store.Batch, data, owner []byte)
}

// Share lets the principal to, which gets data from another one, fetch the blobs that the data
// mentions, except for those that from may not fetch and those that the request (asked) mentions: a
// program that only repeats pointers from its request grants access to nothing.
func (k *Kernel) Share(ctx context.Context, data, asked []byte, from, to *principal.Principal) error {
	if k.opts.Blobs == nil || to.SeesAll() || from.ID() == to.ID() {
		return nil
	}
	return k.opts.Blobs.Share(ctx, data, asked, from, to)
}

// tooLong begins the text of the error that takes the place of an answer which does not fit
// into a line. The code of this error is 413: the caller may ask for less at a time.
const tooLong = "The answer does not fit into a line"

// Fit returns a message with the content of m in a line of at most limit bytes;
// length returns how long a message's line is. A field that the syscall's output
// declares together with a reference (body and bodyRef) goes to a blob, the largest
// first; if that is not enough, all of the data does, as dataRef.
func (k *Kernel) Fit(ctx context.Context, m message.Message, limit int, length func(*message.Message) int) message.Message {
	return k.fit(ctx, m, limit, inBlobs, length)
}

// inBlobs is how data is looked at that is moved to a blob so that it can be sent. A text that merely has the name of a
// header somewhere in it isn't a secret.
var inBlobs = secret.Strictness{Place: secret.Data, Clear: true, Lines: true}

// fit is [Kernel.Fit] for data that has a secret if how finds one.
func (k *Kernel) fit(ctx context.Context, m message.Message, limit int, how secret.Strictness, length func(*message.Message) int) message.Message {
	if length(&m) <= limit || m.Kind == message.KindError { // an error's texts are cut to fit
		return m
	}
	t := m.Type
	if t == ThroughType && m.Via != nil {
		t = m.Via.Type
	}
	s, _ := k.registry.Lookup(t)
	if k.opts.Blobs == nil {
		return k.unfit(s, &m, message.Errorf(413, tooLong+" of %d bytes, and this kernel has no place for blobs", limit))
	}
	hasSecret := message.Errorf(413, tooLong+" of %d bytes, and it holds secrets, which are not written to disk; ask for less at a time", limit)
	if s != nil && m.Kind == message.KindReply && s.Output.Sensitive() {
		return k.unfit(s, &m, hasSecret)
	}
	fitted := m
	var declared jsonvalue.Object
	if s != nil {
		declared = properties(s.Output)
	}
	// A program may mean something else by these names.
	extent := declared.Has("size") && declared.Has("mediaType") && s.Provider == BuiltIn
	for _, f := range movable(declared, &m) {
		data, err := k.move(ctx, fitted.Data, f, extent)
		if err != nil {
			return k.unfit(s, &m, err)
		}
		fitted.Data = data
		if length(&fitted) <= limit {
			return fitted
		}
	}
	// What was kept before it was asked for may be kept once more.
	if s == nil || s.Answers == Fresh {
		r := Record{Message: &m, Syscall: s}
		if _, found := r.redact(how); found {
			return k.unfit(s, &m, hasSecret)
		}
	}
	p, err := k.put(ctx, m.Data)
	if err != nil {
		return k.unfit(s, &m, err)
	}
	fitted.Data = (&Reference{p, int64(len(m.Data)), jsonType}).Append(nil)
	return fitted
}

// maxPut is how long a blob may take to be kept.
const maxPut = 4 * time.Second

// put keeps a blob, or fails in bounded time: an answer waits for it.
func (k *Kernel) put(ctx context.Context, data []byte) (message.BlobPointer, error) {
	// A connection that ends still wants the answers to what it has begun.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxPut)
	defer cancel()
	type result struct {
		pointer message.BlobPointer
		err     error
	}
	kept := make(chan result, 1)
	data = bytes.Clone(data)
	go func() {
		r := result{err: errors.New("keeping a blob panicked")}
		defer func() {
			if p := recover(); p != nil {
				k.opts.Log.Error("keeping a blob panicked", "panic", p, "stack", string(debug.Stack()))
			}
			kept <- r
		}()
		r.pointer, r.err = k.opts.Blobs.Put(ctx, data)
	}()
	select {
	case r := <-kept:
		return r.pointer, r.err
	case <-ctx.Done():
		return message.BlobPointer{}, fmt.Errorf("keeping a blob: %w", context.Cause(ctx))
	}
}

// unfit returns what is sent for a message that can't be: an error for a reply. An event
// stays one, with the error as its data, since an outcome is still to come.
func (k *Kernel) unfit(s *Syscall, m *message.Message, err error) message.Message {
	e, ours := errors.AsType[*message.Error](err)
	if !ours {
		k.opts.Log.Error("can't keep a blob", "type", m.Type, "causation", m.Metadata.Causation, "error", err)
		e = message.Errorf(413, tooLong+", and it could not be kept as a blob; the kernel's log says why")
	}
	if s != nil && s.Kind == message.KindCommand && m.Kind == message.KindReply {
		e = message.Errorf(e.Code, "%s is done, but its answer can't be given: %w", m.Type, e)
	}
	failed := message.Message{Kind: message.KindError, Type: m.Type, Data: e.Append(nil), Metadata: m.Metadata, Err: e}
	if m.Kind == message.KindEvent {
		failed.Kind, failed.Err = message.KindEvent, nil
	}
	return failed
}

// properties returns the members that a schema declares, with their schemas.
func properties(s *schema.Schema) jsonvalue.Object {
	return jsonvalue.Members(jsonvalue.Members(s.JSON()).Get("properties"))
}

// movable lists the members of m's data that may go to a blob, largest first.
func movable(declared jsonvalue.Object, m *message.Message) []string {
	if declared == nil || len(m.Data) == 0 || m.Data[0] != '{' {
		return nil
	}
	sizes := make(map[string]int)
	var names []string
	jsonscan.Members(m.Data, 0, func(token, value []byte) bool {
		name := jsonscan.Unquote(token)
		sizes[name] = len(value)
		if declared.Has(name) && declared.Has(name+"Ref") {
			names = append(names, name)
		}
		return true
	})
	names = slices.DeleteFunc(names, func(name string) bool { return sizes[name+"Ref"] > 0 }) // the data already has a pointer of that name
	slices.SortStableFunc(names, func(a, b string) int { return sizes[b] - sizes[a] })
	return names
}

// move puts one member into a blob: the text of a string, the JSON of anything else. With
// extent, how large it is and what it is stands beside the pointer.
func (k *Kernel) move(ctx context.Context, data json.RawMessage, field string, extent bool) (json.RawMessage, error) {
	var err error
	moved := []byte{'{'}
	jsonscan.Members(data, 0, func(token, value []byte) bool {
		name := jsonscan.Unquote(token)
		if extent && (name == "mediaType" || name == "size") {
			return true // both are written with the pointer
		}
		if len(moved) > 1 {
			moved = append(moved, ',')
		}
		if name != field {
			moved = append(append(append(moved, token...), ':'), value...)
			return true
		}
		content, mediaType := value, jsonType
		if value[0] == '"' {
			content, mediaType = []byte(jsonscan.Unquote(value)), textType
		}
		var p message.BlobPointer
		if p, err = k.put(ctx, content); err != nil {
			return false
		}
		moved = jsonscan.AppendQuoted(moved, name+"Ref")
		moved = p.Append(append(moved, ':'))
		if extent {
			moved = appendExtent(moved, int64(len(content)), mediaType)
		}
		return true
	})
	return append(moved, '}'), err
}
