package vfs

import (
	"context"
	"encoding/json"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

type writeInput struct {
	URI        string               `json:"uri" jsonschema:"minLength=1" jsonschema_description:"File to write, for example os://memory/notes/today.md. Directories above it are made."`
	Content    *string              `json:"content,omitempty" jsonschema_description:"The new content. Either this or contentRef."`
	ContentRef *message.BlobPointer `json:"contentRef,omitempty" jsonschema_description:"A pointer to the new content, if it is binary or too large for a message: at most 64 MB."`
	IfVersion  string               `json:"ifVersion,omitempty" jsonschema_description:"Write only if the file has this version, which VFS.Read returns; none: only if it does not exist. Otherwise the reply is a 409 error."`
}

type writeOutput struct {
	URI     string `json:"uri" jsonschema_description:"The absolute URI of the file, which is on disk."`
	Size    int64  `json:"size" jsonschema_description:"Bytes that were written."`
	Version string `json:"version,omitzero" jsonschema_description:"The new version; left out if another writer has changed the file since."`
}

var write = kernel.DefineCommand[writeInput, writeOutput](kernel.Definition{
	Type:    "VFS.Write",
	Summary: "Write a file of the os:// tree atomically.",
	Input:   schema.Input[writeInput]().Example(`{"uri":"os://memory/notes/today.md","content":"milk"}`).Quiet(), // the vault's secrets may come through it
	Effect:  kernel.External,
})

func (t *Tree) writeCall(ctx context.Context, in writeInput) (writeOutput, error) {
	if (in.Content == nil) == (in.ContentRef == nil) {
		return writeOutput{}, message.Errorf(422, "VFS.Write takes either content or contentRef: give exactly one of them")
	}
	// Nothing is fetched for a place that can't be written to.
	uri, p, m, _, err := t.locate(in.URI)
	if err == nil {
		_, err = t.writer(uri, p, m, "written")
	}
	if err != nil {
		return writeOutput{}, err
	}
	var data []byte
	if in.Content != nil {
		data = []byte(*in.Content)
	} else if data, err = t.opts.Resolve(ctx, *in.ContentRef); err != nil {
		return writeOutput{}, err
	}
	info, err := t.Write(ctx, uri, data, Expect(in.IfVersion))
	return writeOutput{URI: info.URI, Size: info.Size, Version: info.Version}, err
}

// redact returns the data of a write as it may be recorded: without its content, if that may
// be a secret, or if its place is not known.
func (t *Tree) redact(data json.RawMessage) json.RawMessage {
	if len(data) == 0 || data[0] != '{' {
		return json.RawMessage(kernel.RedactedData)
	}
	uri := ""
	jsonscan.Members(data, 0, func(name, value []byte) bool {
		if jsonscan.Unquote(name) == "uri" && value[0] == '"' {
			uri = jsonscan.Unquote(value)
		}
		return true
	})
	if _, _, m, name, err := t.locate(uri); err == nil && m != nil {
		if s, ok := m.driver.(Secretive); !ok || !s.Secret(name) {
			return data
		}
	}
	return jsonscan.ReplaceMembers(data, func(name string, _ []byte) string {
		if name == "uri" || name == "ifVersion" {
			return ""
		}
		return kernel.RedactedData
	})
}
