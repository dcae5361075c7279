package kernel

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/message"
	"kernos/schema"
)

// Query makes a syscall that changes nothing from a function on Go types: it is
// [DefineQuery] and Bind in one step. An error that is a *message.Error goes to the caller
// as it is; see [message.ErrorOf] for others. An input may have a method UnmarshalJSON of its own,
// which is called with data that fits the schema.
func Query[In, Out any](d Definition, f func(context.Context, In) (Out, error)) Syscall {
	return DefineQuery[In, Out](d).Bind(f)
}

// Command makes a syscall that may change something from a function on Go types.
func Command[In, Out any](d Definition, f func(context.Context, In) (Out, error)) Syscall {
	return DefineCommand[In, Out](d).Bind(f)
}

// A Typed is a definition whose input and output are Go types. It is data, and needs
// nothing that a handler needs; Bind makes a syscall of it when a kernel is built.
type Typed[In, Out any] struct{ Definition }

// DefineQuery completes the definition of a query: the schemas that it lacks are derived
// from the Go types.
func DefineQuery[In, Out any](d Definition) Typed[In, Out] {
	return define[In, Out](d, message.KindQuery)
}

// DefineCommand is DefineQuery for a command.
func DefineCommand[In, Out any](d Definition) Typed[In, Out] {
	return define[In, Out](d, message.KindCommand)
}

func define[In, Out any](d Definition, kind message.Kind) Typed[In, Out] {
	d.Kind = kind
	if d.Input == nil {
		d.Input = schema.Input[In]()
	}
	if d.Output == nil {
		d.Output = schema.Output[Out]()
	}
	return Typed[In, Out]{d}
}

// Bind makes a syscall of the definition and a function.
func (t Typed[In, Out]) Bind(f func(context.Context, In) (Out, error)) Syscall {
	return t.BindHandler(func(ctx context.Context, m message.Message, emit Emit) {
		var in In
		if read(ctx, &m, &in, emit) {
			out, err := f(ctx, in)
			answer(ctx, &m, out, err, emit)
		}
	})
}

// BindStream is Bind for a function that also reports progress and emits events.
func (t Typed[In, Out]) BindStream(f func(context.Context, In, *Stream) (Out, error)) Syscall {
	return t.BindHandler(func(ctx context.Context, m message.Message, emit Emit) {
		var in In
		if read(ctx, &m, &in, emit) {
			out, err := f(ctx, in, NewStream(&m, emit))
			answer(ctx, &m, out, err, emit)
		}
	})
}

// read decodes the input of a request. If it can't, the request is answered with the error.
func read[In any](ctx context.Context, m *message.Message, in *In, emit Emit) bool {
	err := decode(m.Data, in)
	if err != nil {
		emit(m.Fail(unreadable(ctx, m, err)))
	}
	return err == nil
}

// answer answers a request with an output, or with an error.
func answer[Out any](ctx context.Context, m *message.Message, out Out, err error, emit Emit) {
	raw, isRaw := any(out).(Raw) // passed to encode, it would be allocated
	data := stdjson.RawMessage(raw)
	if err == nil && !isRaw {
		data, err = encode(out)
	}
	if err != nil {
		Fail(ctx, *m, emit, err)
		return
	}
	emit(m.Reply(data))
}

// Raw is JSON text that a typed syscall replies exactly as it is, such as a
// recorded message. A syscall that replies with it states its Output schema itself.
type Raw stdjson.RawMessage

func encode(v any) (stdjson.RawMessage, error) {
	if raw, ok := v.(Raw); ok {
		return stdjson.RawMessage(raw), nil
	}
	return json.Marshal(v, sorted)
}

// sorted writes maps in the order of their keys: the same reply is the same text each time.
var sorted = json.Deterministic(true)

// RequestOf returns the request that the call of ctx answers, or nil if ctx belongs to no
// call. It must not be changed, and its data is valid as long as that of the handler's message.
func RequestOf(ctx context.Context) *message.Message {
	if c, ok := CallOf(ctx); ok {
		return &c.request
	}
	return nil
}

func decode(data stdjson.RawMessage, in any) error {
	if own, ok := in.(stdjson.Unmarshaler); ok { // json.Unmarshal would read the data twice
		return own.UnmarshalJSON(data)
	}
	err := json.Unmarshal(data, in)
	if err != nil {
		// A schema's integer may be written as 1.0 or 1e2, and its number may be beyond
		// floating point. Go is stricter; this is rare enough for a second try.
		err = json.Unmarshal(data, in, json.WithUnmarshalers(json.UnmarshalFromFunc(decodeNumber)))
	}
	return err
}

// unreadable returns the error for input that fits its schema and not its Go type. The
// decoder's own words quote the input and speak of Go: they are for the log.
func unreadable(ctx context.Context, m *message.Message, err error) *message.Error {
	if own, ok := errors.AsType[*message.Error](err); ok {
		return own // the input's own UnmarshalJSON has said what is wrong
	}
	if c, ok := CallOf(ctx); ok {
		c.k.opts.Log.Warn("input fits its schema and can't be decoded", "type", m.Type, "id", m.Metadata.ID, "error", err)
	}
	e := message.Errorf(422, "Schema validation failed: %s can't read its input", m.Type)
	if at, ok := errors.AsType[*json.SemanticError](err); ok && at.JSONPointer != "" {
		e.Field = string(at.JSONPointer)
		e.Message += " at " + e.Field
	}
	return e
}

// decodeNumber takes a number in any notation into any Go number. A derived schema has
// bounds for integers within which floating point is exact. For what is larger than any
// floating-point number, the largest one stands.
func decodeNumber(d *jsontext.Decoder, pointer any) error {
	v := reflect.ValueOf(pointer).Elem()
	if d.PeekKind() != '0' || !v.CanInt() && !v.CanUint() && !v.CanFloat() {
		return errors.ErrUnsupported // the decoder then decodes as usual
	}
	token, err := d.ReadValue()
	if err != nil {
		return err
	}
	f, _ := strconv.ParseFloat(string(token), 64) // infinite if it is out of range
	whole := f == math.Trunc(f) && math.Abs(f) < 1<<63
	switch {
	case v.CanInt() && whole && !v.OverflowInt(int64(f)):
		v.SetInt(int64(f))
	case v.CanUint() && whole && f >= 0 && !v.OverflowUint(uint64(f)):
		v.SetUint(uint64(f))
	case !v.CanFloat():
		return fmt.Errorf("a number that a %v can't hold", v.Type())
	case v.Kind() == reflect.Float32:
		v.SetFloat(max(-math.MaxFloat32, min(f, math.MaxFloat32)))
	default:
		v.SetFloat(max(-math.MaxFloat64, min(f, math.MaxFloat64)))
	}
	return nil
}

// A Stream is how a typed syscall speaks before it is done. It is safe for
// concurrent use.
type Stream struct {
	request *message.Message
	emit    Emit
}

// NewStream returns the stream of a raw handler's call.
func NewStream(request *message.Message, emit Emit) *Stream {
	return &Stream{request: request, emit: emit}
}

// Progress reports how far the work is to the caller: a note, and a fraction from 0 to 1.
func (s *Stream) Progress(note string, fraction float64) {
	fraction = max(0, min(fraction, 1))
	if math.IsNaN(fraction) {
		fraction = 0
	}
	data := jsonscan.AppendQuoted([]byte(`{"message":`), note)
	data = strconv.AppendFloat(append(data, `,"percentage":`...), fraction, 'f', -1, 64)
	s.emit(s.request.Event(Progressed, append(data, '}')))
}

// Recoverable reports an error after which the work continues.
func (s *Stream) Recoverable(e *message.Error) { s.emit(s.request.Event(ErrorOccurred, e.Append(nil))) }

// Emit sends an event that the syscall's definition names.
func (s *Stream) Emit(t message.Type, data any) error {
	text, err := encode(data)
	if err != nil {
		return err
	}
	s.EmitText(t, text)
	return nil
}

// EmitText is Emit for JSON text, which may be overwritten when EmitText has returned.
func (s *Stream) EmitText(t message.Type, data []byte) { s.emit(s.request.Event(t, data)) }
