package mcp

import (
	"cmp"
	"encoding/json"
	"path"
	"strings"

	"kernos/message"
)

// A file is what VFS.Read replies.
type file struct {
	Content    *string
	ContentRef *message.BlobPointer
	MediaType  string
}

// readTree reads a file of the tree.
func (x *exchange) readTree(uri string) (data []byte, mediaType string, err error) {
	f, err := call[file](x, "VFS.Read", map[string]string{"uri": uri})
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

// A fileList is what VFS.List replies.
type fileList struct {
	Entries []struct {
		URI, Name, Kind string
		Size            *int64
	}
	EntriesRef *message.BlobPointer
	Cursor     string
}

func (x *exchange) listTree(data map[string]any) (fileList, error) {
	found, err := call[fileList](x, "VFS.List", data)
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
	found, err := x.listTree(map[string]any{"uri": fileScheme, "recursive": true, "cursor": after, "limit": pageSize})
	for _, e := range found.Entries {
		if e.Kind == "file" && !strings.HasPrefix(e.URI, "os://memory/") && !strings.HasPrefix(e.URI, "os://proc/") && !strings.HasPrefix(e.URI, "os://sys/") {
			some = append(some, resource{URI: e.URI, Name: e.Name, MimeType: mediaTypeOf(e.URI), Size: e.Size})
		}
	}
	return some, found.Cursor, err
}

func completeFiles(x *exchange, begin string) (names []string, err error) {
	found, err := x.listTree(map[string]any{"uri": fileScheme + strings.TrimPrefix(path.Dir("/"+begin), "/"), "limit": 1000})
	for _, e := range found.Entries {
		name := strings.TrimPrefix(e.URI, fileScheme)
		if e.Kind == "directory" {
			name += "/"
		}
		names = append(names, name)
	}
	return beginning(names, begin), err
}
