package mcp

import (
	"cmp"
	"encoding/json"
	"path"
	"strings"

	"kernos/message"
)

// A file is what VFS.Read and Content.Hydrate reply.
type file struct {
	Content    *string
	ContentRef *message.BlobPointer
	MediaType  string
}

// readTree reads a file of the tree.
func (x *exchange) readTree(uri string) (data []byte, mediaType string, err error) {
	return x.readBy("VFS.Read", uri)
}

// readBy reads a file by a syscall that replies one.
func (x *exchange) readBy(t message.Type, uri string) (data []byte, mediaType string, err error) {
	f, err := call[file](x, t, map[string]string{"uri": uri})
	switch {
	case err != nil:
		return nil, "", err
	case f.Content != nil:
		return []byte(*f.Content), f.MediaType, nil
	case f.ContentRef != nil:
		data, err = x.fetch(f.ContentRef)
	}
	return data, f.MediaType, err
}

func readFile(x *exchange, uri string) ([]contents, error) {
	data, mediaType, err := x.readTree(uri)
	if err != nil {
		return nil, err
	}
	return []contents{dataContents(uri, cmp.Or(mediaType, mediaTypeOf(uri)), data)}, nil
}

// mediaTypeOf returns what a file is by its name, as far as that matters here; "" if it isn't known.
func mediaTypeOf(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".md":
		return markdown
	case ".json":
		return "application/json"
	}
	return ""
}

// An entry is one that VFS.List lists.
type entry struct {
	URI, Name, Kind string
	Size            *int64
}

// A listing is what a syscall replies that lists something.
type listing[T any] struct {
	Entries    []T
	EntriesRef *message.BlobPointer
	Cursor     string
}

// list calls a syscall that lists something.
func list[T any](x *exchange, t message.Type, data map[string]any) (listing[T], error) {
	found, err := call[listing[T]](x, t, data)
	if err == nil && found.EntriesRef != nil {
		var text []byte
		if text, err = x.fetch(found.EntriesRef); err == nil {
			err = json.Unmarshal(text, &found.Entries)
		}
	}
	return found, err
}

// listFiles lists the files of the tree, but not those that are resources of other kinds, or change all the time.
func listFiles(x *exchange, after string) (some []resource, next string, err error) {
	found, err := list[entry](x, "VFS.List", map[string]any{"uri": fileScheme, "recursive": true, "cursor": after, "limit": pageSize})
	for _, e := range found.Entries {
		if e.Kind == "file" && !strings.HasPrefix(e.URI, "os://memory/") && !strings.HasPrefix(e.URI, "os://proc/") && !strings.HasPrefix(e.URI, "os://sys/") {
			some = append(some, resource{URI: e.URI, Name: e.Name, MimeType: mediaTypeOf(e.URI), Size: e.Size})
		}
	}
	return some, found.Cursor, err
}

func completeFiles(x *exchange, begin string) (names []string, err error) {
	found, err := list[entry](x, "VFS.List", map[string]any{"uri": fileScheme + strings.TrimPrefix(path.Dir("/"+begin), "/"), "limit": 1000})
	for _, e := range found.Entries {
		name := strings.TrimPrefix(e.URI, fileScheme)
		if e.Kind == "directory" {
			name += "/"
		}
		names = append(names, name)
	}
	return beginning(names, begin), err
}
