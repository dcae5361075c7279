package model

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	nethttp "net/http"

	"kernos/capability/model/cassette"
	"kernos/capability/model/demo"
	"kernos/internal/outbound"
	"kernos/internal/sealed"
	"kernos/kernel"
	"kernos/message"
)

// Options are the settings of the module. The zero value is usable, and knows no models.
type Options struct {
	// Read returns the value of models/NAME in the memory, or an error with the code 404. Names
	// lists these names. Nil means that the memory has none.
	Read  func(name string) (json.RawMessage, error)
	Names func() ([]string, error)

	// Write stages the settings of a model that has none, or another value for one that has some; Delete stages that
	// they are removed. Both belong to the call of ctx, and have its rights. Nil means that they can't be changed.
	Write  func(ctx context.Context, name string, settings json.RawMessage, isNew bool) error
	Delete func(ctx context.Context, name string) error

	// Seal seals a key for the host of a provider. Nil means that keys can't be taken.
	Seal func(ctx context.Context, plaintext string, to sealed.Destination) (string, error)

	// Configured are providers by name, beside those of the memory, which come first.
	Configured map[string]json.RawMessage

	// Client sends the requests to providers. Nil means one that goes to public addresses only.
	Client *nethttp.Client

	// Open opens a sealed key for a use; see capability/crypto. Nil means that providers with a
	// key can't be used.
	Open func(ctx context.Context, text string, use sealed.Use) ([]byte, sealed.Destination, error)

	// Resolve returns what a pointer in a message points to. Nil means data pointers only.
	Resolve func(context.Context, message.BlobPointer) ([]byte, error)

	// Blobs keeps what doesn't fit into a request to a program. Nil means that such a request fails.
	Blobs kernel.BlobPutter

	// BuiltIn reports whether a syscall is one that programs can't serve, which can't be a model. Nil means that programs can serve
	// whatever isn't the framework's.
	BuiltIn func(message.Type) bool

	// Cassettes is the directory of recorded exchanges. "" means that there are none.
	Cassettes string

	// Log is for the operator. Nil means silence.
	Log *slog.Logger
}

// models answers the syscalls of the module.
type models struct {
	Options
	cassettes cassette.Dir
	demo      *demo.Model
}

// newModels returns what asks providers. Nil options mean defaults.
func newModels(opts *Options) *models {
	m := new(models)
	if opts != nil {
		m.Options = *opts
	}
	m.cassettes.Path = m.Cassettes
	m.Log = cmp.Or(m.Log, slog.New(slog.DiscardHandler))
	if m.Client == nil {
		m.Client = outbound.NewClient(outbound.Policy{}, nil)
	}
	if m.BuiltIn == nil {
		m.BuiltIn = kernel.Reserved
	}
	return m
}
