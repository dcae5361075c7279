package mcp

import (
	"encoding/json"

	"kernos/message"
)

// contentRoots are the folders whose agents and skills are shown.
var contentRoots = []string{"os://agents", "os://skills"}

// An indexed is an agent or a skill, as Content.Index lists it.
type indexed struct{ URI, Kind, Name, Description string }

// A contentIndex is what Content.Index replies.
type contentIndex struct {
	Entries    []indexed
	EntriesRef *message.BlobPointer
	Cursor     string
}

// indexContent lists the agents and skills that the caller may read, in the order of their URIs.
func (x *exchange) indexContent() (all []indexed, err error) {
	for _, root := range contentRoots {
		for next := ""; ; {
			page, err := call[contentIndex](x, "Content.Index", map[string]string{"uri": root, "cursor": next})
			if err == nil && page.EntriesRef != nil {
				var text []byte
				if text, err = x.fetch(page.EntriesRef); err == nil {
					err = json.Unmarshal(text, &page.Entries)
				}
			}
			if err != nil && !nothingThere(err) {
				return nil, err
			}
			all = append(all, page.Entries...)
			if next = page.Cursor; next == "" {
				break
			}
		}
	}
	return all, nil
}

// hydrated returns the text of an agent or a skill.
func (x *exchange) hydrated(uri string) (string, error) {
	h, err := call[file](x, "Content.Hydrate", map[string]string{"uri": uri})
	switch {
	case err != nil:
		return "", err
	case h.Content != nil:
		return *h.Content, nil
	case h.ContentRef != nil:
		text, err := x.fetch(h.ContentRef)
		return string(text), err
	}
	return "", nil
}
