package vfs

import (
	"context"

	"kernos/kernel"
	"kernos/message"
)

type resolveInput struct {
	URI  string `json:"uri" jsonschema:"minLength=1" jsonschema_description:"The URI to resolve: os://a/b, /a/b, or relative such as ../b. An https address stays as it is."`
	Base string `json:"base,omitempty" jsonschema_description:"The URI of the resource that a relative uri appears in, or of its directory if it ends with a slash. Default: the root."`
}

type resolveOutput struct {
	URI string `json:"uri" jsonschema_description:"The absolute URI, without . and .. segments. The file need not exist."`
}

var resolve = kernel.DefineQuery[resolveInput, resolveOutput](kernel.Definition{
	Type:    "VFS.Resolve",
	Summary: "Resolve a URI of the os:// tree to its absolute form.",
	Aliases: []message.Type{"FileSystem.Resolve", "Kernel.Resolve"},
})

func (t *Tree) resolveCall(_ context.Context, in resolveInput) (resolveOutput, error) {
	uri, err := t.Resolve(in.URI, in.Base)
	return resolveOutput{uri}, err
}
