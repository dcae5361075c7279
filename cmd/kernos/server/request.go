package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"kernos/internal/exit"
	"kernos/internal/visible"
	"kernos/message"
)

// A Caller sends a request to a kernel, calls event, which may be nil, with the data of the
// events that come for it, and returns the data of the reply. The error is a *[message.Error] if
// the kernel has answered with one. An error of event ends the request, and is returned with an exit status.
type Caller = func(ctx context.Context, request message.Message, event func(json.RawMessage) error) (json.RawMessage, error)

// An Opener finds a kernel to call, and returns the function that closes it.
type Opener = func(context.Context) (Caller, func() error, error)

// Send sends a request and returns the data of its reply. The event function may be nil. An
// error has the exit status that fits it.
func Send(ctx context.Context, call Caller, kind message.Kind, t message.Type, input any, event func(json.RawMessage) error) (json.RawMessage, error) {
	data, err := json.Marshal(input)
	if err != nil {
		return nil, err
	}
	data, err = call(ctx, message.Message{Kind: kind, Type: t, Data: data}, event)
	if err == nil {
		return data, nil
	}
	if _, has := errors.AsType[*exit.Error](err); has {
		return nil, err // such as Forbidden, if the server does not accept the token
	}
	e, answered := errors.AsType[*message.Error](err)
	if !answered {
		return nil, &exit.Error{Status: exit.Unreachable, Cause: err}
	}
	cause := &message.Error{Code: e.Code, Message: visible.Text(e.Error())}
	if e.Code == 413 {
		cause.Reason = ErrTooLong
	}
	status := exit.StatusOf(e.Code)
	if e.Code == 404 {
		status = exit.Failure // the user did not choose the syscall, but what to ask it for
	}
	return nil, &exit.Error{Status: status, Cause: cause}
}

// Read is Send for a reply that is decoded into a value.
func Read(ctx context.Context, call Caller, kind message.Kind, t message.Type, input, reply any) error {
	data, err := Send(ctx, call, kind, t, input, nil)
	if err != nil {
		return err
	}
	return Decode(t, data, reply)
}

// Decode decodes the data of a reply to a syscall.
func Decode(t message.Type, data json.RawMessage, reply any) error {
	err := json.Unmarshal(data, reply)
	if other, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("it is a %s, and %s is expected", other.Value, expected(other.Type))
		if other.Field != "" {
			err = fmt.Errorf("%s: %w", other.Field, err)
		}
	}
	if err != nil {
		return exit.Wrap(fmt.Errorf("the answer of %s can't be read: %w", t, err))
	}
	return nil
}

// expected says in words of JSON what a Go type is decoded from.
func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	}
	return "a number"
}

// ErrTooLong is the reason of an error for an answer that is too long to be sent, so that the
// command may ask for less. It happens when the disk takes no blobs.
var ErrTooLong = errors.New("the answer is too long")
