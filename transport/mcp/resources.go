package mcp

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"kernos/internal/jsonscan"
	"kernos/internal/mcp"
	"kernos/kernel"
	"kernos/message"
	"kernos/store/blobs"
	"kernos/transport/mcp/jsonrpc"
)

// A resource is one that a list names.
type resource struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MimeType    string `json:"mimeType,omitempty"`
	Size        *int64 `json:"size,omitempty"`
}

// contents are what a resource holds.
type contents struct {
	URI      string  `json:"uri"`
	MimeType string  `json:"mimeType,omitempty"`
	Text     *string `json:"text,omitempty"`
	Blob     *string `json:"blob,omitempty"` // in base64
	Meta     any     `json:"_meta,omitempty"`
}

// textContents and dataContents make contents of text, and of bytes that may be text.
func textContents(uri, mimeType, text string) contents {
	return contents{URI: uri, MimeType: mimeType, Text: &text}
}

func dataContents(uri, mimeType string, data []byte) contents {
	if utf8.Valid(data) {
		return textContents(uri, cmp.Or(mimeType, "text/plain"), string(data))
	}
	text := base64.StdEncoding.EncodeToString(data)
	return contents{URI: uri, MimeType: cmp.Or(mimeType, "application/octet-stream"), Blob: &text}
}

// A resourceKind is what has resources of one kind.
type resourceKind struct {
	template    string // template of the URIs; "" if there is one resource
	name        string
	description string
	mimeType    string

	// read returns what a resource of the kind holds, or a 404. matches determines which are of the kind.
	matches func(uri string) bool
	read    func(x *exchange, uri string) ([]contents, error)

	// list returns some resources of the kind, and where to continue: "" means that there are no more.
	// Nil means that they can't be listed.
	list func(x *exchange, after string) (some []resource, next string, err error)

	// complete returns values for the variable of the template that begin with some text. May be nil.
	complete func(x *exchange, begin string) ([]string, error)

	// fixed means that a resource that isn't there won't come to be, so that it can't be watched.
	fixed bool
}

func scheme(prefix string) func(string) bool {
	return func(uri string) bool { return strings.HasPrefix(uri, prefix) }
}

// The beginnings of URIs.
const (
	memoryScheme  = "memory://"
	fileScheme    = "os://"
	messageScheme = "message://"
	blobScheme    = "blob://"
	skillScheme   = "skill://"
	docsScheme    = "docs://"
)

const markdown = "text/markdown"

func readMemory(x *exchange, uri string) ([]contents, error) {
	key, err := url.PathUnescape(uri[len(memoryScheme):])
	if err != nil {
		return nil, message.Errorf(404, "The URI is invalid: %v", err)
	}
	value, err := x.invoke("Memory.Get", map[string]string{"key": key}, nil)
	if err != nil {
		return nil, err
	}
	if value[0] == '"' {
		return []contents{textContents(uri, "text/plain", jsonscan.Unquote(value))}, nil
	}
	return []contents{textContents(uri, "application/json", string(value))}, nil
}

type memoryList struct {
	Keys   []string
	Cursor string
}

func listMemory(x *exchange, after string) (some []resource, next string, err error) {
	found, err := call[memoryList](x, "Memory.List", map[string]any{"recursive": true, "cursor": after, "limit": pageSize})
	for _, key := range found.Keys {
		some = append(some, resource{URI: memoryScheme + escapePath(key), Name: key})
	}
	return some, found.Cursor, err
}

func completeMemory(x *exchange, begin string) (names []string, err error) {
	found, err := call[memoryList](x, "Memory.List", map[string]any{"prefix": path.Dir("/" + begin), "limit": 1000})
	return beginning(found.Keys, begin), err
}

// escapePath escapes the segments of a path.
func escapePath(p string) string { return (&url.URL{Path: p}).EscapedPath() }

// beginning returns the texts that begin with some text.
func beginning(texts []string, begin string) (found []string) {
	for _, t := range texts {
		if strings.HasPrefix(t, begin) {
			found = append(found, t)
		}
	}
	return found
}

func readMessage(x *exchange, uri string) ([]contents, error) {
	text, err := x.invoke("Message.Get", map[string]string{"id": uri[len(messageScheme):]}, nil)
	if err != nil {
		return nil, err
	}
	return []contents{textContents(uri, "application/json", string(text))}, nil
}

func readBlob(x *exchange, uri string) ([]contents, error) {
	absent := message.Errorf(404, "The blob doesn't exist, or isn't for this caller")
	name, part, isPart := strings.Cut(uri[len(blobScheme):], "?")
	hash, err := blobs.ParseHash(name)
	if err != nil || x.s.opts.Blobs == nil {
		return nil, absent
	}
	p := x.s.opts.Blobs.Pointer(hash)
	if isPart {
		return readPart(x, uri, p, part)
	}
	if reaches := x.s.opts.ReachesBlob; reaches != nil {
		if ok, err := reaches(kernel.SenderIn(x.ctx).Principal(), hash); err != nil || !ok {
			return nil, cmp.Or(err, error(absent))
		}
	}
	data, err := x.fetch(&p)
	if err != nil {
		return nil, err
	}
	return []contents{dataContents(uri, "", data)}, nil
}

// readPart reads a part of a blob, which a query of a URI names.
func readPart(x *exchange, uri string, p message.BlobPointer, query string) ([]contents, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, message.Errorf(404, "The URI is invalid: %v", err)
	}
	in := map[string]any{"ref": p}
	for name := range values {
		if in[name], err = strconv.ParseInt(values.Get(name), 10, 64); err != nil {
			return nil, message.Errorf(404, "The URI is invalid: %s must be a number", name)
		}
	}
	part, err := call[struct {
		Text, Base64 *string
		Next, Size   int64
	}](x, "Blob.Read", in)
	if err != nil {
		return nil, err
	}
	c := contents{URI: uri, MimeType: "text/plain", Text: part.Text, Blob: part.Base64}
	if part.Text == nil {
		c.MimeType = "application/octet-stream"
	}
	meta := map[string]int64{"kernos/size": part.Size}
	if part.Next > 0 {
		meta["kernos/next"] = part.Next
	}
	c.Meta = meta
	return []contents{c}, nil
}

// kindOf finds the kind of a resource.
func (s *Server) kindOf(uri string) *resourceKind {
	for i := range s.kinds {
		if s.kinds[i].matches(uri) {
			return &s.kinds[i]
		}
	}
	return nil
}

// readResource answers resources/read.
func readResource(x *exchange) {
	if x.resume() {
		return
	}
	uri, bad := x.text("uri")
	if bad != nil {
		x.refuse("VFS.Read", bad)
		return
	}
	kind := x.s.kindOf(uri)
	if kind == nil {
		x.refuse("VFS.Read", x.noResource(uri, "Resource not found"))
		return
	}
	all, err := kind.read(x, uri)
	if err != nil {
		if e, _ := message.ErrorOf(err); e.Code == 404 || e.Code == 422 || e.Code == 403 {
			x.fail(x.noResource(uri, e.Message))
			return
		}
		x.fail(x.failedCall(err))
		return
	}
	x.respondFor(never, membersOf(map[string][]contents{"contents": all}))
}

// noResource returns the failure for a resource that isn't there, or not for this caller.
func (x *exchange) noResource(uri, text string) *jsonrpc.Failure {
	f := &jsonrpc.Failure{Code: mcp.ResourceNotFound, Text: text, Data: aboutURI(uri)}
	if x.client.modern {
		f.Code = mcp.InvalidParams
	}
	return f
}

// aboutURI returns the data of what is about a URI.
func aboutURI(uri string) []byte { return marshal(map[string]string{"uri": uri}) }

// pageSize is how many entries a page of a list has, where pages are made here.
const pageSize = 500

// listResources answers resources/list. A page is of one kind; a cursor has the kind and where to continue in it.
func listResources(x *exchange) {
	kind, after, ok := x.cursor()
	if !ok {
		x.fail(jsonrpc.Invalid("Invalid params: cursor is not from resources/list"))
		return
	}
	all := []resource{}
	for ; kind < len(x.s.kinds) && len(all) < pageSize/2; kind++ {
		if x.s.kinds[kind].list == nil {
			continue
		}
		some, next, err := x.s.kinds[kind].list(x, after)
		if err != nil && !nothingThere(err) {
			x.fail(x.failedCall(err))
			return
		}
		all, after = append(all, some...), next
		if next != "" {
			break
		}
	}
	page := struct {
		Resources  []resource `json:"resources"`
		NextCursor string     `json:"nextCursor,omitempty"`
	}{Resources: all}
	if kind < len(x.s.kinds) {
		page.NextCursor = newCursor(kind, after)
	}
	x.respondFor(soon, membersOf(page))
}

// listTemplates answers resources/templates/list.
func listTemplates(x *exchange) {
	type template struct {
		URITemplate string `json:"uriTemplate"`
		Name        string `json:"name"`
		Description string `json:"description,omitempty"`
		MimeType    string `json:"mimeType,omitempty"`
	}
	all := []template{}
	for _, k := range x.s.kinds {
		if k.template != "" {
			all = append(all, template{k.template, k.name, k.description, k.mimeType})
		}
	}
	x.respondFor(hour, membersOf(map[string][]template{"resourceTemplates": all}))
}

// complete answers completion/complete.
func complete(x *exchange) {
	begin := jsonscan.Unquote(jsonscan.Member(jsonscan.Member(x.Params, "argument"), "value"))
	template := jsonscan.Unquote(jsonscan.Member(jsonscan.Member(x.Params, "ref"), "uri"))
	values := []string{}
	for _, k := range x.s.kinds {
		if k.template == template && k.complete != nil {
			found, err := k.complete(x, begin)
			if err == nil {
				values = append(values, found...)
			}
		}
	}
	type completion struct {
		Values  []string `json:"values"`
		Total   int      `json:"total"`
		HasMore bool     `json:"hasMore"`
	}
	total := len(values)
	x.respond(membersOf(map[string]completion{"completion": {values[:min(total, 100)], total, total > 100}}))
}
