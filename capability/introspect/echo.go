package introspect

import (
	"context"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

type echoInput struct {
	Message string `json:"message" jsonschema_description:"Message to echo back. Any string value is accepted."`
}

type echoOutput struct {
	Echo string `json:"echo" jsonschema_description:"The echoed message, identical to input."`
}

// echo gives a message back.
var echo = kernel.Command(
	kernel.Definition{
		Type:         message.Echo,
		Summary:      "Return a message unchanged.",
		Presentation: kernel.Presentation{Title: "Echo a message", Words: "say, repeat, say it back, send it back, return what i sent, parrot, repeat after me", Stdin: "message"},
		Behavior:     kernel.Behavior{Short: true, Stateless: true},
	},
	func(_ context.Context, in echoInput) (echoOutput, error) {
		return echoOutput{Echo: in.Message}, nil
	},
)

type pingData struct {
	Payload any `json:"payload" jsonschema_description:"Any JSON value. It comes back exactly as it was written: numbers, key order, escapes and all."`
}

// Ping gives any value back, byte for byte. It is the test of a wire, so its data is
// never decoded: the reply has the same form as the request.
var Ping = kernel.Syscall{
	Definition: kernel.Definition{
		Type:    message.Ping,
		Kind:    message.KindQuery,
		Summary: "Return any JSON value unchanged.",
		Input:   schema.Input[pingData]().Example(`{"payload":[1,"two"]}`),
		Output:  schema.Output[pingData](),
		Presentation: kernel.Presentation{
			Title:   "Ping",
			Words:   "alive, are you there, hello, are you alive, still there, is someone there, does it answer, sign of life, round trip",
			Aliases: []message.Type{"Syscall.Ping"},
		},
		Behavior: kernel.Behavior{Short: true, Stateless: true},
		Access:   principal.ForAll,
	},
	Handler: func(_ context.Context, m message.Message, emit kernel.Emit) {
		emit(m.Reply(m.Data))
	},
}
