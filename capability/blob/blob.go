// Package blob reads large data that messages refer to.
//
//	Blob.Read {"ref":{"scheme":"file","path":"…"}}  →  {"text":"…","offset":0,"size":20000,"next":12000}
//
// A reply that doesn't fit into a line is a reference to a blob. A caller on this machine may
// open the file, and one with a token may fetch it over HTTP; a caller that has only the pipe
// reads it with Blob.Read, part by part.
package blob

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"unicode/utf8"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/store/blobs"
)

// Options are the settings of the module.
type Options struct {
	Dir *blobs.Dir

	// Reaches reports whether the caller of ctx may read a blob. Nil means that every caller
	// may read every blob.
	Reaches func(ctx context.Context, h blobs.Hash) (bool, error)

	Log *slog.Logger // warnings for the operator; nil means silence
}

type readInput struct {
	Ref    message.BlobPointer `json:"ref" jsonschema_description:"The pointer, as it stands in the reply: the value of dataRef, bodyRef, contentRef, …"`
	Offset int64               `json:"offset,omitempty" jsonschema:"minimum=0" jsonschema_description:"The byte to begin with; default: 0. The next of the previous reply continues."`
	Length int                 `json:"length,omitempty" jsonschema:"minimum=1,maximum=12000" jsonschema_description:"How many bytes at most; default: as many as fit into a reply."`
}

type readOutput struct {
	Text   *string `json:"text,omitzero" jsonschema_description:"The part, if it is text."`
	Base64 *string `json:"base64,omitzero" jsonschema_description:"The part otherwise, in base64."`
	Offset int64   `json:"offset" jsonschema_description:"The byte that the part begins with."`
	Size   int64   `json:"size" jsonschema_description:"How many bytes the whole data has."`
	Next   int64   `json:"next,omitzero" jsonschema_description:"The offset of the next part; absent if this is the last one."`
}

// Module returns the module.
func Module(opts Options) kernel.Module {
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	return kernel.Module{
		Name:     "blob",
		Version:  "1.0.0",
		Summary:  "Large data that messages refer to.",
		Domains:  []string{"Blob"},
		Syscalls: []kernel.Syscall{read.Bind(opts.read)},
	}
}

// maxPart is how many bytes the JSON text of a part may have, so that the reply fits into a
// line, and maxBinary how many bytes have a base64 of that length.
const (
	maxPart   = 12_000
	maxBinary = maxPart / 4 * 3
)

// ReadType is the syscall that reads a blob.
const ReadType message.Type = "Blob.Read"

var read = kernel.DefineQuery[readInput, readOutput](kernel.Definition{
	Type:    ReadType,
	Summary: "Read data that a reply refers to (dataRef, bodyRef, contentRef, …), part by part.",
	Input:   schema.Input[readInput]().Example(`{"ref":{"scheme":"file","path":"/…/blobs/ab/abcd…"},"offset":12000}`),
	Presentation: kernel.Presentation{
		Title: "Read data that a reply refers to",
		Words: "attachment, download a reference, open an attachment, the reply was too long, read the rest of a result, get a picture from a reply, " +
			"fetch a large result, the output was cut off, show the whole reply, binary data",
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "the blob doesn't exist, was removed, or isn't for this caller"},
			{Code: 422, When: "the pointer doesn't point to a blob of this kernel, or the offset is behind its end"},
		},
	},
	Behavior:  kernel.Behavior{Short: true},
	Journaled: kernel.Journaled{Answers: kernel.FromJournal}, // the data is on disk already
})

func (o Options) read(ctx context.Context, in readInput) (readOutput, error) {
	if in.Ref.Scheme == "data" {
		_, data, err := in.Ref.Inline()
		if err != nil {
			return readOutput{}, err
		}
		return part(&in, int64(len(data)), func(b []byte) (int, error) { return copy(b, data[min(in.Offset, int64(len(data))):]), nil })
	}
	found := o.Dir.Mentions(in.Ref.Append(nil))
	if len(found) != 1 {
		return readOutput{}, message.Invalid("ref", "ref: expected a pointer to a blob of this kernel, as replies have it; got %s (VFS.Read reads files, and Http.Fetch the web)", message.Clip(in.Ref.String(), 200))
	}
	missing := message.Errorf(404, "Blob not found: %s (it may have been removed because nothing refers to it; repeat the call that returned it)", found[0])
	if o.Reaches != nil {
		if reaches, err := o.Reaches(ctx, found[0]); err != nil || !reaches {
			return readOutput{}, cmp.Or(err, error(missing))
		}
	}
	f, err := o.Dir.Open(found[0])
	if errors.Is(err, fs.ErrNotExist) {
		return readOutput{}, missing
	}
	if err != nil {
		return readOutput{}, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return readOutput{}, err
	}
	return part(&in, info.Size(), func(b []byte) (int, error) {
		n, err := f.ReadAt(b, in.Offset)
		if err == io.EOF {
			err = nil
		}
		return n, err
	})
}

// part reads the part that is asked for.
func part(in *readInput, size int64, readAt func([]byte) (int, error)) (readOutput, error) {
	out := readOutput{Offset: in.Offset, Size: size}
	if in.Offset > size {
		return out, message.Invalid("offset", "offset: expected at most %d, the size of the blob, got %d", size, in.Offset)
	}
	data := make([]byte, min(int64(cmp.Or(in.Length, maxPart)), size-in.Offset))
	n, err := readAt(data)
	if err != nil {
		return out, err
	}
	data = data[:n]
	if text, ok := textOf(data, in.Offset+int64(n) == size); ok {
		n = len(text)
		out.Text = &text
	} else {
		n = min(n, maxBinary)
		encoded := base64.StdEncoding.EncodeToString(data[:n])
		out.Base64 = &encoded
	}
	if next := in.Offset + int64(n); next < size {
		out.Next = next
	}
	return out, nil
}

// textOf returns the beginning of data as text that fits into a reply, if it is text. Unless the
// data is the last, a character at its end may be incomplete; it belongs to the next part.
func textOf(data []byte, last bool) (string, bool) {
	for n := len(data); n > 0 && !last && n > len(data)-utf8.UTFMax; n-- {
		if utf8.RuneStart(data[n-1]) {
			if !utf8.FullRune(data[n-1:]) && n > 1 {
				data = data[:n-1]
			}
			break
		}
	}
	for _, c := range data {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' && c != '\f' {
			return "", false
		}
	}
	if !utf8.Valid(data) {
		return "", false
	}
	for {
		excess := len(jsonscan.AppendQuoted(nil, string(data))) - maxPart
		if excess <= 0 {
			return string(data), true
		}
		n := len(data) - max(1, excess/6) // an escape has six bytes at most
		for !utf8.RuneStart(data[n]) {
			n--
		}
		data = data[:n]
	}
}
