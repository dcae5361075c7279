package kernel

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"kernos/internal/jsonscan"
	"kernos/message"
)

// A Moved is a value of a reply that is in a blob.
type Moved struct {
	Name    string // the member that the value would be; "data" is the whole reply
	Pointer message.BlobPointer
	Size    int64 // bytes of the value
}

// Excerpt returns what a model is shown of a reply. Beside each member that points to a blob, as [Kernel.Fit] makes them, it has
// the beginning of the value, of at most begin bytes, and a note on how large the value is and how to read on.
func (k *Kernel) Excerpt(ctx context.Context, reply []byte, begin int) (shown []byte, moved []Moved) {
	blobs := k.opts.Blobs
	if blobs == nil || len(reply) == 0 || reply[0] != '{' || !bytes.Contains(reply, []byte(`Ref"`)) {
		return reply, nil
	}
	shown = append(shown, reply[:bytes.LastIndexByte(reply, '}')]...)
	var note []byte
	jsonscan.Members(reply, 0, func(token, value []byte) bool {
		name, isRef := strings.CutSuffix(jsonscan.Unquote(token), "Ref")
		if !isRef || value[0] != '{' || jsonscan.Member(reply, name) != nil {
			return true
		}
		p, err := message.ParseBlobPointer(value)
		if err != nil {
			return true
		}
		data, size, err := blobs.Beginning(ctx, p, begin)
		if err != nil {
			return true
		}
		moved = append(moved, Moved{name, p, size})
		first, isText := beginning(data, begin)
		note = fmt.Appendf(note, "%s has %d bytes", name, size)
		if isText {
			shown = jsonscan.AppendQuoted(append(shown, ','), name+"Beginning")
			shown = jsonscan.AppendQuoted(append(shown, ':'), first)
			note = fmt.Appendf(note, ", and %sBeginning the first %d", name, len(first))
		}
		if k.opts.ReadBlob != "" {
			note = fmt.Appendf(note, "; %s {ref: %sRef, offset: %d} reads on", k.opts.ReadBlob, name, len(first))
		}
		note = append(note, ". "...)
		return true
	})
	if moved == nil {
		return reply, nil
	}
	shown = jsonscan.AppendQuoted(append(shown, `,"note":`...), strings.TrimSpace(string(note)))
	return append(shown, '}'), moved
}

// beginning returns the beginning of data, up to the end of a character, that has at most limit bytes as JSON. It reports
// false if the data isn't text.
func beginning(data []byte, limit int) (string, bool) {
	n := len(data)
	for cut := 0; cut < utf8.UTFMax && n > 0 && !utf8.Valid(data[:n]); cut++ {
		n-- // the last character may be incomplete
	}
	if !utf8.Valid(data[:n]) || bytes.IndexByte(data[:n], 0) >= 0 {
		return "", false
	}
	for {
		excess := len(jsonscan.AppendQuoted(nil, string(data[:n]))) - 2 - limit
		if excess <= 0 {
			return string(data[:n]), true
		}
		n -= max(1, excess/6) // an escape has six bytes at most
		for n > 0 && !utf8.RuneStart(data[n]) {
			n--
		}
	}
}
