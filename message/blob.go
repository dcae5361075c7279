package message

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"kernos/internal/jsonscan"
)

// A BlobPointer is the address of data that is too large, or not of a kind, to stand in
// a message: the parts of a URI. Three schemes are known:
//
//	file   an absolute path on the kernel's machine
//	https  a host and a path on it
//	data   the data itself: a media type and a payload, at most 4,096 bytes of it
//
// It is written with its members in this order, and without the empty ones.
type BlobPointer struct {
	Scheme    string `json:"scheme" jsonschema:"enum=file,enum=https,enum=data" jsonschema_description:"Where the data is: a file, an https server, or the pointer itself."`
	Authority string `json:"authority,omitempty" jsonschema_description:"Host, and port if it is not 443. For https only."`
	Path      string `json:"path" jsonschema_description:"Absolute path; for data, a media type, a comma and the data."`
	Query     string `json:"query,omitempty" jsonschema_description:"Query of an https address."`
	Fragment  string `json:"fragment,omitempty" jsonschema_description:"Part of the data that is meant."`
}

// SchemaName returns what a pointer is called in schemas, which all have the same.
func (BlobPointer) SchemaName() string { return "BlobPointer" }

// MaxInlineBlob is how many bytes a data pointer may hold, decoded.
const MaxInlineBlob = 4096

// FileBlob points to a file.
func FileBlob(path string) BlobPointer { return BlobPointer{Scheme: "file", Path: path} }

// ParseBlobPointer reads a pointer from JSON. The error is an *Error with code 422
// that names which rule the pointer breaks.
func ParseBlobPointer(data json.RawMessage) (BlobPointer, error) {
	var scan jsonscan.Scanner
	if err := scan.Text(data); err != nil {
		return BlobPointer{}, badBlob("it is not JSON: %v", err)
	}
	data = data[jsonscan.Space(data, 0):]
	if data[0] != '{' {
		return BlobPointer{}, badBlob("it must be an object, got %s", Describe(data))
	}
	var p BlobPointer
	var problem *Error
	parts := map[string]*string{"scheme": &p.Scheme, "authority": &p.Authority, "path": &p.Path, "query": &p.Query, "fragment": &p.Fragment}
	jsonscan.Members(data, 0, func(name, value []byte) bool {
		part := parts[jsonscan.Unquote(name)]
		switch {
		case part == nil:
			problem = badBlob("unknown field %s (it may have scheme, authority, path, query and fragment)", Clip(string(name), 64))
		case value[0] != '"':
			problem = badBlob("%s must be a string, got %s", name, Describe(value))
		case len(value) == len(`""`):
			problem = badBlob("%s is empty; leave it out", name)
		default:
			*part = jsonscan.Unquote(value)
		}
		return problem == nil
	})
	if problem != nil {
		return BlobPointer{}, problem
	}
	return p.normal()
}

func badBlob(format string, args ...any) *Error {
	return Errorf(422, "Invalid BlobPointer: "+format, args...)
}

type blobPart struct{ name, value string }

// parts returns the members after the scheme, in their order.
func (p BlobPointer) parts() [4]blobPart {
	return [...]blobPart{
		{"authority", p.Authority}, {"path", p.Path}, {"query", p.Query}, {"fragment", p.Fragment},
	}
}

// normal checks p and writes it in its one normal form.
func (p BlobPointer) normal() (BlobPointer, error) {
	for _, part := range p.parts() {
		for _, r := range part.value {
			if r < ' ' || r == 0x7F {
				return BlobPointer{}, badBlob("%s has the control character U+%04X", part.name, r)
			}
		}
	}
	var err error
	switch local := p.Scheme != "https"; {
	case p.Scheme == "":
		err = badBlob("scheme is missing (file, https or data)")
	case local && p.Scheme != "file" && p.Scheme != "data":
		err = badBlob("scheme must be file, https or data, got %q", Clip(p.Scheme, 40))
	case p.Path == "":
		err = badBlob("path is missing")
	case local && p.Authority != "":
		err = badBlob("a %s pointer has no authority", p.Scheme)
	case local && p.Query != "":
		err = badBlob("a %s pointer has no query", p.Scheme)
	case p.Scheme == "data":
		_, _, err = p.Inline()
	case !local && p.Authority == "":
		err = badBlob("an https pointer needs an authority, such as example.com")
	case !local:
		p.Authority, err = authority(p.Authority)
	}
	if err == nil && p.Scheme != "data" && p.Path[0] != '/' {
		err = badBlob("path must start with a slash, got %q", Clip(p.Path, 64))
	}
	if err != nil {
		return BlobPointer{}, err
	}
	return p, nil
}

// authority checks a host with an optional port, and drops the port of https.
func authority(s string) (string, error) {
	host, port := s, uint64(0)
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		var err error
		if port, err = strconv.ParseUint(s[i+1:], 10, 16); err != nil || port == 0 {
			return "", badBlob("authority has the invalid port %q", Clip(s[i+1:], 20))
		}
		host = s[:i]
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if a, err := netip.ParseAddr(inner); !ok || err != nil || !a.Is6() || a.Zone() != "" {
			return "", badBlob("authority has an address in brackets that is not IPv6")
		}
	} else {
		for _, r := range host {
			if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_' {
				return "", badBlob("authority must be a host with an optional port, without user names; it has %q", r)
			}
		}
		if strings.Trim(host, ".") == "" {
			return "", badBlob("authority has no host")
		}
	}
	host = strings.ToLower(host)
	if port == 0 || port == 443 {
		return host, nil
	}
	return host + ":" + strconv.FormatUint(port, 10), nil
}

// Inline returns the media type and the bytes of a data pointer.
func (p BlobPointer) Inline() (mediaType string, data []byte, err error) {
	mediaType, payload, ok := strings.Cut(p.Path, ",")
	if p.Scheme != "data" || !ok {
		return "", nil, badBlob("the path of a data pointer is a media type, a comma and the data, such as text/plain,Hello%%20world")
	}
	mediaType, encoded := strings.CutSuffix(mediaType, ";base64")
	mediaType = cmp.Or(mediaType, "text/plain;charset=US-ASCII")
	if name, _, err := mime.ParseMediaType(mediaType); err != nil || !strings.Contains(name, "/") {
		return "", nil, badBlob("%q is not a media type", Clip(mediaType, 64))
	}
	if encoded {
		data, err = base64.StdEncoding.DecodeString(payload)
		if err != nil {
			return "", nil, badBlob("the payload is not base64")
		}
	} else {
		text, err := url.PathUnescape(payload)
		if err != nil {
			return "", nil, badBlob("the payload has a percent sign that starts no escape; write %%25")
		}
		data = []byte(text)
	}
	if len(data) > MaxInlineBlob {
		return "", nil, badBlob("a data pointer holds at most %d bytes, got %d; use a file or https pointer", MaxInlineBlob, len(data))
	}
	return mediaType, data, nil
}

// Append appends p as JSON.
func (p BlobPointer) Append(dst []byte) []byte {
	dst = jsonscan.AppendQuoted(append(dst, `{"scheme":`...), p.Scheme)
	for _, part := range p.parts() {
		if part.value != "" {
			dst = append(append(append(dst, `,"`...), part.name...), `":`...)
			dst = jsonscan.AppendQuoted(dst, part.value)
		}
	}
	return append(dst, '}')
}

// MarshalJSON implements [json.Marshaler].
func (p BlobPointer) MarshalJSON() ([]byte, error) { return p.Append(nil), nil }

// UnmarshalJSON implements [json.Unmarshaler] with the rules of [ParseBlobPointer].
func (p *BlobPointer) UnmarshalJSON(data []byte) error {
	q, err := ParseBlobPointer(data)
	if err == nil {
		*p = q
	}
	return err
}

// String returns p as a URI.
func (p BlobPointer) String() string {
	u := url.URL{Scheme: p.Scheme, Host: p.Authority, RawQuery: p.Query, Fragment: p.Fragment}
	switch p.Scheme {
	case "data":
		u.Opaque = p.Path
	case "file":
		u.Path = p.Path
	default: // the path is part of a URI already
		u.RawPath = p.Path
		u.Path, _ = url.PathUnescape(p.Path)
	}
	return u.String()
}
