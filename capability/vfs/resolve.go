package vfs

import (
	"context"

	"kernos/kernel"
	"kernos/message"
)

type resolveInput struct {
	URI  string `json:"uri" jsonschema:"minLength=1" jsonschema_description:"What to resolve: os://a/b, /a/b, or relative such as ../b. An https address stays as it is."`
	Base string `json:"base,omitempty" jsonschema_description:"URI of the resource that a relative uri stands in; with a slash at its end, the directory. Without it, the root."`
}

type resolveOutput struct {
	URI string `json:"uri" jsonschema_description:"The same, absolute: os://a/b without . and .. in it. Nothing needs to be there."`
}

var resolve = kernel.DefineQuery[resolveInput, resolveOutput](kernel.Definition{
	Type:    "VFS.Resolve",
	Summary: "Make a URI absolute.",
	Aliases: []message.Type{"FileSystem.Resolve", "Kernel.Resolve"},
})

func (t *Tree) resolveCall(_ context.Context, in resolveInput) (resolveOutput, error) {
	uri, err := t.Resolve(in.URI, in.Base)
	return resolveOutput{uri}, err
}
