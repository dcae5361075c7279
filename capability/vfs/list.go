package vfs

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store/cursor"
)

type listInput struct {
	URI       string `json:"uri,omitempty" aliases:"path" jsonschema_description:"The directory to list, for example os://agents. Default: the root."`
	Recursive bool   `json:"recursive,omitempty" jsonschema_description:"true: everything below it. Links to directories are not followed."`
	Cursor    string `json:"cursor,omitempty" jsonschema_description:"The cursor of the previous reply, to continue after it."`
	Limit     int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=10000" jsonschema_description:"The most entries to return; default: 100."`
}

type listOutput struct {
	Entries    []entry              `json:"entries,omitzero" jsonschema_description:"What is there, in the order of the URIs; a directory counts as if its URI had a slash at its end."`
	EntriesRef *message.BlobPointer `json:"entriesRef,omitzero" jsonschema_description:"Where the entries are, as JSON, if they are too large for a message."`
	Size       int64                `json:"size,omitzero" jsonschema_description:"With entriesRef: how many bytes it has."`
	MediaType  string               `json:"mediaType,omitzero" jsonschema_description:"With entriesRef: what it is."`
	Cursor     string               `json:"cursor,omitzero" jsonschema_description:"Present if there is more: pass it to the next call. It stays valid when files change."`
	Skipped    int                  `json:"skipped,omitzero" jsonschema_description:"How many entries were left out: names that no URI can express, and directories that can't be read."`
	kernel.Narrowed
}

type entry struct {
	URI      string `json:"uri" jsonschema_description:"Absolute."`
	Name     string `json:"name" jsonschema_description:"Last segment of the URI."`
	Kind     string `json:"kind" jsonschema:"enum=file,enum=directory" jsonschema_description:"What it is."`
	Size     *int64 `json:"size,omitzero" jsonschema_description:"Bytes of a file, if that is known before it is read."`
	Modified int64  `json:"modified,omitzero" jsonschema_description:"When it was changed, in milliseconds of Unix time, if that is known."`
	Version  string `json:"version,omitzero" jsonschema_description:"Of a file: changes when the content does."`
	Writable bool   `json:"writable" jsonschema_description:"Whether its mount can be written to."`
}

var list = kernel.DefineQuery[listInput, listOutput](kernel.Definition{
	Type:    "VFS.List",
	Summary: "List a directory of the os:// tree, or everything below it.",
	Presentation: kernel.Presentation{
		Title: "List files",
		Words: "ls, dir, file, fs, filesystem, disk, directory, folder, path, document, tree, which files are there, what is in this folder, " +
			"what is in the directory, browse files, which documents do i have, files in a directory, subfolders, how many files, find a file, " +
			"where is my file",
		Columns:   []string{"NAME {name}", "KIND {kind}", "SIZE {size}", "MODIFIED {modified:time}", "URI {uri}"},
		Arguments: []string{"uri"},
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "the directory doesn't exist"},
			{Code: 502, When: "the server of a mount fails, or no mount has the directory"},
		},
	},
	Behavior:  kernel.Behavior{Volatile: []string{"entries.version", "entries.modified"}},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows},
})

const defaultListed = 100

func (t *Tree) listCall(ctx context.Context, in listInput) (listOutput, error) {
	in.Limit = cmp.Or(in.Limit, defaultListed)
	at, err := t.locate(cmp.Or(in.URI, scheme))
	if err != nil {
		return listOutput{}, err
	}
	after, err := parseCursor(in.Cursor, in.Recursive)
	if err != nil {
		return listOutput{}, err
	}
	out := listOutput{Entries: make([]entry, 0, min(in.Limit, defaultListed)), Narrowed: kernel.Narrow(ctx, (*principal.Principal).SeesAllFiles)}
	last := ""
	for i, err := range t.walk(ctx, at.path, after, in.Recursive) {
		_, refusal := errors.AsType[*message.Error](err)
		switch {
		case err == nil && len(out.Entries) == in.Limit:
			out.Cursor = cursor.New(cursorKind(in.Recursive), last)
			return out, nil
		case err == nil:
			e := entryOf(&i)
			if e.Writable {
				_, refusal := t.reach(ctx, i.URI, true)
				e.Writable = refusal == nil
			}
			out.Entries = append(out.Entries, e)
			last = strings.TrimPrefix(strings.TrimPrefix(i.URI[len(scheme):], at.path), "/")
			if i.Dir {
				last += "/"
			}
		case errors.Is(err, ErrUnnamed), refusal && i.URI != at.uri:
			out.Skipped++
		default:
			return listOutput{}, err
		}
	}
	return out, nil
}

func entryOf(i *Info) entry {
	e := entry{URI: i.URI, Name: i.Name, Kind: "directory", Modified: milliseconds(i.Modified), Version: i.Version, Writable: i.Writable}
	if !i.Dir {
		e.Kind = "file"
		if i.Size >= 0 {
			e.Size = &i.Size
		}
	}
	return e
}

// cursorKind returns the byte that distinguishes the cursors of the two kinds of listings.
func cursorKind(recursive bool) byte {
	if recursive {
		return 'r'
	}
	return 'c'
}

func parseCursor(text string, recursive bool) (after string, err error) {
	if after, err = cursor.Parse(cursorKind(recursive), text, maxURI); after == "" {
		return "", err
	}
	if name := strings.TrimSuffix(after, "/"); !recursive && strings.Contains(name, "/") || name == "" || checkText(name) != nil {
		return "", cursor.ErrInvalid
	}
	return after, nil
}
