package blobs

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"

	"kernos/internal/jsonscan"
	"kernos/message"
)

// A Remote is how a caller sees blobs that is not on this machine, or may not be. Its file
// pointers are confined to the blobs of the kernel ([Resolver]). If blobs can be fetched
// from here over https, pointers to them are of that form on its side of the wire, and of
// the form file on ours, so that every peer can follow those that a message carries on.
type Remote struct {
	Dir *Dir

	// Authority is the host, and the port if it is not 443, from which the caller can fetch
	// blobs over https. "" means that it can't: a BlobPointer has no plain http.
	Authority string
}

// PathPrefix is where blobs are served, each under its hash.
const PathPrefix = "/v1/blobs/"

type remoteKey struct{}

// WithRemote marks calls under a context as made by a remote caller.
func WithRemote(ctx context.Context, r *Remote) context.Context {
	return context.WithValue(ctx, remoteKey{}, r)
}

// RemoteOf returns the caller of a context; nil if it is the owner of this
// machine.
func RemoteOf(ctx context.Context) *Remote {
	r, _ := ctx.Value(remoteKey{}).(*Remote)
	return r
}

// Outward returns JSON text with pointers to blobs as the caller can fetch them. It may be
// the text itself. A nil Remote changes nothing.
func (r *Remote) Outward(data []byte) []byte {
	if r == nil || r.Authority == "" {
		return data
	}
	root := jsonscan.AppendQuoted(nil, r.Dir.path+string(filepath.Separator))
	before := append([]byte(`{"scheme":"file","path":`), root[:len(root)-1]...)
	const rest = 2 + 1 + 2*len(Hash{}) // ab/abcd…
	return replace(data, before, rest, func(name []byte) []byte {
		h, err := ParseHash(string(name[3:]))
		if err != nil || r.Dir.Path(h) != filepath.Join(r.Dir.path, string(name)) {
			return nil
		}
		return message.BlobPointer{Scheme: "https", Authority: r.Authority, Path: PathPrefix + h.String()}.Append(nil)
	})
}

// Inward returns JSON text with pointers as Outward writes them turned into those that they
// were. It may be the text itself. A nil Remote changes nothing.
func (r *Remote) Inward(data []byte) []byte {
	if r == nil || r.Authority == "" {
		return data
	}
	before := message.BlobPointer{Scheme: "https", Authority: r.Authority, Path: PathPrefix}.Append(nil)
	before = bytes.TrimSuffix(before, []byte(`"}`))
	return replace(data, before, 2*len(Hash{}), func(name []byte) []byte {
		h, err := ParseHash(string(name))
		if err != nil {
			return nil
		}
		return r.Dir.Pointer(h).Append(nil)
	})
}

// replace looks for pointers in JSON text: before, a name of length bytes, and the end of
// an object. Quotation marks stand in no string of JSON text as they are, so what looks
// like an object is one. A pointer whose members are written in another order or with
// spaces is left alone.
func replace(data, before []byte, length int, pointer func(name []byte) []byte) []byte {
	const after = `"}`
	var changed []byte
	done := 0
	for at := 0; ; {
		i := bytes.Index(data[at:], before)
		if i < 0 {
			break
		}
		start := at + i
		at = start + len(before)
		if len(data)-at < length+len(after) || string(data[at+length:at+length+len(after)]) != after {
			continue
		}
		p := pointer(data[at : at+length])
		if p == nil {
			continue
		}
		changed = append(append(changed, data[done:start]...), p...)
		at += length + len(after)
		done = at
	}
	if changed == nil {
		return data
	}
	return append(changed, data[done:]...)
}

// own returns the blob that an https pointer of a remote caller means, if it is one of ours:
// to fetch it from ourselves would need the caller's token.
func (r *Remote) own(p message.BlobPointer) (Hash, bool) {
	name, ok := strings.CutPrefix(p.Path, PathPrefix)
	if !ok || r == nil || r.Authority == "" || p.Authority != r.Authority || p.Query != "" {
		return Hash{}, false
	}
	h, err := ParseHash(name)
	return h, err == nil
}
