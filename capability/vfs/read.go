package vfs

import (
	"bytes"
	"context"
	"encoding/base64"
	"time"
	"unicode/utf8"

	"kernos/kernel"
	"kernos/message"
)

type readInput struct {
	URI string `json:"uri" jsonschema:"minLength=1,example=os://proc/version" jsonschema_description:"The file to read, for example os://agents/writer.md. A relative URI starts at the root."`
}

type readOutput struct {
	URI        string               `json:"uri" jsonschema_description:"The absolute URI of the file."`
	Content    *string              `json:"content,omitzero" jsonschema_description:"The content, if it is text and small enough for a message."`
	ContentRef *message.BlobPointer `json:"contentRef,omitzero" jsonschema_description:"A pointer to the content otherwise, as it was when it was read."`
	Size       int64                `json:"size" jsonschema_description:"Bytes of the content."`
	Version    string               `json:"version" jsonschema_description:"Changes when the content does. For ifVersion of VFS.Write."`
	Modified   int64                `json:"modified,omitzero" jsonschema_description:"When the file was changed, in milliseconds of Unix time, if that is known."`
}

var read = kernel.DefineQuery[readInput, readOutput](kernel.Definition{
	Type:    "VFS.Read",
	Summary: "Read a file of the os:// tree, of at most 64 MB.",
	Answers: kernel.FromStore,
})

// maxText is how long a text may be that is given inline: no longer one fits into a line.
const maxText = 16 << 10

func (t *Tree) readCall(ctx context.Context, in readInput) (readOutput, error) {
	f, err := t.Read(ctx, in.URI)
	if err != nil {
		return readOutput{}, err
	}
	out := readOutput{URI: f.URI, Size: int64(len(f.Data)), Version: f.Version, Modified: milliseconds(f.Modified)}
	text := isText(f.Data)
	if text && (len(f.Data) <= maxText || t.opts.Blobs == nil) { // the kernel says so if it is too long
		s := string(f.Data)
		out.Content = &s
		return out, nil
	}
	p, err := t.refer(ctx, f.Data)
	out.ContentRef = &p
	return out, err
}

// isText reports whether data is what people can read and a JSON string can hold.
func isText(data []byte) bool { return utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 }

// refer puts data where a pointer can point to it.
func (t *Tree) refer(ctx context.Context, data []byte) (message.BlobPointer, error) {
	if t.opts.Blobs != nil {
		return t.opts.Blobs.Put(ctx, data)
	}
	if len(data) > message.MaxInlineBlob {
		return message.BlobPointer{}, message.Errorf(503, "The file is binary and has %d bytes, and this kernel has no place for blobs", len(data))
	}
	return message.BlobPointer{Scheme: "data", Path: "application/octet-stream;base64," + base64.StdEncoding.EncodeToString(data)}, nil
}

func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
