package vfs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/http"
	"path"
	"time"
	"unicode/utf8"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

type readInput struct {
	URI string `json:"uri" aliases:"path" jsonschema:"minLength=1,example=os://proc/version" jsonschema_description:"The file to read, for example os://agents/writer.md. A relative URI starts at the root."`
}

type readOutput struct {
	URI        string               `json:"uri" jsonschema_description:"The absolute URI of the file."`
	Content    *string              `json:"content,omitzero" jsonschema_description:"The content, if it is text and small enough for a message."`
	ContentRef *message.BlobPointer `json:"contentRef,omitzero" jsonschema_description:"A pointer to the content otherwise, as it was when it was read."`
	Size       int64                `json:"size" jsonschema_description:"Bytes of the content."`
	MediaType  string               `json:"mediaType,omitzero" jsonschema_description:"What contentRef points to, by the name of the file or by its content."`
	Version    string               `json:"version" jsonschema_description:"Changes when the content does. For ifVersion of VFS.Write."`
	Modified   int64                `json:"modified,omitzero" jsonschema_description:"When the file was changed, in milliseconds of Unix time, if that is known."`
}

var read = kernel.DefineQuery[readInput, readOutput](kernel.Definition{
	Type:    "VFS.Read",
	Summary: "Read a file of the os:// tree, of at most 64 MB.",
	Presentation: kernel.Presentation{
		Title: "Read a file",
		Words: "cat, open, open a file, show what is in a file, contents of a file, file, fs, filesystem, disk, path, document, type out, show a file, " +
			"read a document, what does the file say, print a text file, look inside a file, what is inside a file, view a file, display a document, load a file, " +
			"let me see the file",
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "the file doesn't exist"},
			{Code: 413, When: "the file is larger than 64 MB"},
			{Code: 502, When: "the server of a mount fails, or no mount has the file"},
		},
	},
	Behavior:  kernel.Behavior{Volatile: []string{"version", "modified"}},
	Journaled: kernel.Journaled{Answers: kernel.FromStore},
})

// maxText is how long a text may be that is given inline: no longer one fits into a line.
const maxText = 16 << 10

func (t *Tree) readCall(ctx context.Context, in readInput) (readOutput, error) {
	f, err := t.Read(ctx, in.URI)
	if err != nil {
		return readOutput{}, t.suggest(ctx, in.URI, err)
	}
	out := readOutput{URI: f.URI, Size: int64(len(f.Data)), Version: f.Version, Modified: milliseconds(f.Modified)}
	text := isText(f.Data)
	if text && (len(f.Data) <= maxText || t.opts.Blobs == nil) { // the kernel refuses it if it is too long
		s := string(f.Data)
		out.Content = &s
		return out, nil
	}
	p, err := t.refer(ctx, f.Data)
	out.ContentRef, out.MediaType = &p, mediaType(f.URI, f.Data)
	return out, err
}

// mediaType reports what a file is: by the ending of its name or, failing that, by its content.
func mediaType(uri string, data []byte) string {
	return cmp.Or(mime.TypeByExtension(path.Ext(uri)), http.DetectContentType(data))
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

type writeInput struct {
	URI        string               `json:"uri" aliases:"path" jsonschema:"minLength=1" jsonschema_description:"File to write, for example os://memory/notes/today.md. Directories above it are made."`
	Content    *string              `json:"content,omitempty" aliases:"text" jsonschema:"oneof_required=content" jsonschema_description:"The new content. Either this or contentRef."`
	ContentRef *message.BlobPointer `json:"contentRef,omitempty" jsonschema:"oneof_required=contentRef" jsonschema_description:"A pointer to the new content, if it is binary or too large for a message: at most 64 MB."`
	IfVersion  string               `json:"ifVersion,omitempty" jsonschema_description:"Write only if the file has this version, which VFS.Read returns; none: only if it does not exist. Otherwise the reply is a 409 error."`
}

type writeOutput struct {
	URI     string `json:"uri" jsonschema_description:"The absolute URI of the file, which is on disk."`
	Size    int64  `json:"size" jsonschema_description:"Bytes that were written."`
	Version string `json:"version,omitzero" jsonschema_description:"The new version; left out if another writer has changed the file since."`
	Note    string `json:"note,omitzero" jsonschema_description:"How to keep the content encrypted, if it is a value of the memory and sounds like a credential. It is stored as it is."`
}

var write = kernel.DefineCommand[writeInput, writeOutput](kernel.Definition{
	Type:    "VFS.Write",
	Summary: "Write a file of the os:// tree atomically.",
	Input:   schema.Input[writeInput]().Example(`{"uri":"os://memory/notes/today.md","content":"milk"}`).Quiet(), // the vault's secrets may come through it
	Presentation: kernel.Presentation{
		Title: "Write a file",
		Words: "save, create a file, new file, text file, file, fs, filesystem, disk, path, document, touch, create a document, put text into a file, " +
			"change a file, edit a file, overwrite a file, store this in a file, save as a file, make a text file, update a document",
		Stdin: "content", Result: "Wrote {uri} ({size} bytes)[. {note}]",
		Arguments: []string{"uri", "content"},
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the mount can't be written"},
			{Code: 404, When: "no setting has this name, or the file of contentRef doesn't exist"},
			{Code: 409, When: "the file isn't at ifVersion"},
			{Code: 413, When: "the content is larger than 64 MB"},
			{Code: 502, When: "no mount has the file, or contentRef can't be fetched"},
		},
	},
	Behavior: kernel.Behavior{
		Volatile: []string{"version"},
		Reaches:  []kernel.Reach{kernel.ToFile},
		Effect:   kernel.External,
		Repeat:   kernel.Idempotent,
	},
})

func (t *Tree) writeCall(ctx context.Context, in writeInput) (writeOutput, error) {
	if (in.Content == nil) == (in.ContentRef == nil) {
		return writeOutput{}, message.Errorf(422, "VFS.Write takes either content or contentRef: give exactly one of them")
	}
	// Nothing is fetched for a place that can't be written to.
	at, _, err := t.change(ctx, in.URI, "written")
	if err != nil {
		return writeOutput{}, err
	}
	var data []byte
	if in.Content != nil {
		data = []byte(*in.Content)
	} else if data, err = t.opts.Resolve(ctx, *in.ContentRef); err != nil {
		return writeOutput{}, err
	}
	info, err := t.Write(ctx, at.uri, data, Expect(in.IfVersion))
	out := writeOutput{URI: info.URI, Size: info.Size, Version: info.Version}
	if s, ok := at.mount.Driver.(SecretChecker); ok && err == nil {
		out.Note = s.Sounds(at.name, data)
	}
	return out, err
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
	if at, err := t.locate(uri); err == nil && at.mount != nil {
		if s, ok := at.mount.Driver.(SecretChecker); !ok || !s.Secret(at.name) {
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

type deleteInput struct {
	URI       string `json:"uri" aliases:"path" jsonschema:"minLength=1,example=os://memory/notes/today.md" jsonschema_description:"File or directory to delete."`
	Recursive bool   `json:"recursive,omitempty" jsonschema_description:"true: delete a directory with everything in it. Otherwise it must be empty."`
}

type deleteOutput struct {
	Success bool `json:"success" jsonschema_description:"True: it is deleted. A failure is an error message."`
}

var remove = kernel.DefineCommand[deleteInput, deleteOutput](kernel.Definition{
	Type:    "VFS.Delete",
	Summary: "Delete a file or a directory of the os:// tree.",
	Presentation: kernel.Presentation{
		Title: "Delete a file",
		Words: "remove a file, delete a document, rm, rmdir, unlink, get rid of a file, throw a file away, trash a file, delete a folder, " +
			"remove a directory, erase a document, clean up a folder, drop a file, empty a folder",
		Result: "Deleted {request.uri}",
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the mount can't be written"},
			{Code: 404, When: "the file doesn't exist"},
			{Code: 409, When: "the directory isn't empty"},
			{Code: 502, When: "no mount has the file"},
		},
	},
	Behavior: kernel.Behavior{Destroys: true, Repeat: kernel.Idempotent, Reaches: []kernel.Reach{kernel.ToFile}, Effect: kernel.External},
})

func (t *Tree) deleteCall(ctx context.Context, in deleteInput) (deleteOutput, error) {
	err := t.Delete(ctx, in.URI, in.Recursive)
	return deleteOutput{Success: err == nil}, t.suggest(ctx, in.URI, err)
}

type resolveInput struct {
	URI  string `json:"uri" aliases:"path" jsonschema:"minLength=1" jsonschema_description:"The URI to resolve: os://a/b, /a/b, or relative such as ../b. An https address stays as it is."`
	Base string `json:"base,omitempty" jsonschema_description:"The URI of the resource that a relative uri appears in, or of its directory if it ends with a slash. Default: the root."`
}

type resolveOutput struct {
	URI string `json:"uri" jsonschema_description:"The absolute URI, without . and .. segments. The file need not exist."`
}

var resolve = kernel.DefineQuery[resolveInput, resolveOutput](kernel.Definition{
	Type:    "VFS.Resolve",
	Summary: "Resolve a URI of the os:// tree to its absolute form.",
	Presentation: kernel.Presentation{
		Title: "Resolve a path",
		Words: "absolute path, full path, realpath, normalize, where a path leads, full location of a file, absolute uri, expand a relative path, " +
			"complete path, canonical path",
		Arguments: []string{"uri", "base"},
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the caller may not reach the URI"},
			{Code: 422, When: "the URI or the base isn't one of the tree"},
		},
		Aliases: []message.Type{"FileSystem.Resolve", "Kernel.Resolve"},
	},
})

func (t *Tree) resolveCall(ctx context.Context, in resolveInput) (resolveOutput, error) {
	uri, err := t.Resolve(in.URI, in.Base)
	if err != nil {
		return resolveOutput{}, err
	}
	if e := kernel.PrincipalOf(ctx).Directory(uri); e != nil {
		return resolveOutput{}, e
	}
	return resolveOutput{uri}, nil
}
