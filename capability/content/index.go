package content

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"sort"
	"strings"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store/cursor"
)

type indexInput struct {
	URI    string `json:"uri" aliases:"path" jsonschema:"minLength=1" jsonschema_description:"The folder to search recursively, for example os://skills. os:// is the root."`
	Limit  int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=10000" jsonschema_description:"The most entries to return; default: 1000."`
	Cursor string `json:"cursor,omitempty" jsonschema_description:"The cursor of the previous reply, to continue after it."`
}

type indexOutput struct {
	Entries    []indexEntry         `json:"entries,omitzero" jsonschema_description:"Skills and agents, in the order of their URIs."`
	EntriesRef *message.BlobPointer `json:"entriesRef,omitzero" jsonschema_description:"Where the entries are, as JSON, if they are too large for a message."`
	Size       int64                `json:"size,omitzero" jsonschema_description:"With entriesRef: how many bytes it has."`
	MediaType  string               `json:"mediaType,omitzero" jsonschema_description:"With entriesRef: what it is."`
	Cursor     string               `json:"cursor,omitzero" jsonschema_description:"Present if there is more: pass it to the next call. It stays valid when files change."`
	Skipped    int                  `json:"skipped,omitzero" jsonschema_description:"How many folders could not be read, and files that no URI can name."`
	kernel.Narrowed
}

type indexEntry struct {
	URI         string   `json:"uri" jsonschema_description:"For Content.Hydrate."`
	Kind        string   `json:"kind" jsonschema:"enum=skill,enum=agent" jsonschema_description:"What it is."`
	Name        string   `json:"name" jsonschema_description:"Its name, or an empty string."`
	Description string   `json:"description" jsonschema_description:"Its description, or an empty string."`
	Problems    []string `json:"problems" jsonschema_description:"Its problems: each is a code, a colon, and what to do."`
}

const (
	indexCursor = 'i'
	maxURI      = 8192

	defaultIndexed = 1000

	// maxFound is how many Markdown files a folder may have that is indexed.
	maxFound = 200_000

	// batch is how many files are looked at before it is asked whether there are enough.
	batch = 512
)

var index = kernel.DefineQuery[indexInput, indexOutput](kernel.Definition{
	Type:    "Content.Index",
	Summary: "List the skills and agents below a URI, and their problems.",
	Presentation: kernel.Presentation{
		Title: "List skills and agents",
		Words: "agent, skill, prompt, markdown, ls, which skills are there, which agents do i have, which agents are available, show all skills, " +
			"available assistants, which prompts do i have, broken skills",
		Columns: []string{"KIND {kind}", "URI {uri}", "DESCRIPTION {description}[ ({problems})]"},
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "the folder doesn't exist"},
			{Code: 413, When: "there are too many files below the folder"},
			{Code: 422, When: "the URI or the cursor is invalid"},
			{Code: 502, When: "the server of a mount fails, or no mount has the folder"},
		},
	},
	Behavior:  kernel.Behavior{Runs: kernel.Slow, Timeout: hydrateTimeout},
	Journaled: kernel.Journaled{Answers: kernel.FromStore},
})

func (c *Content) index(ctx context.Context, in indexInput) (indexOutput, error) {
	after, err := cursor.Parse(indexCursor, in.Cursor, maxURI)
	if err != nil {
		return indexOutput{}, err
	}
	in.Limit = cmp.Or(in.Limit, defaultIndexed)
	x, files, skipped, err := c.startIndexing(ctx, in.URI)
	if err != nil {
		return indexOutput{}, err
	}
	from := sort.Search(len(files), func(i int) bool { return files[i].URI > after })
	out := indexOutput{Entries: []indexEntry{}, Skipped: skipped, Narrowed: kernel.Narrow(ctx, (*principal.Principal).SeesAllFiles)}
	// One more than asked for shows whether there is more.
	for ; from < len(files) && len(out.Entries) <= in.Limit; from += batch {
		out.Entries = append(out.Entries, x.entries(files[from:min(len(files), from+batch)])...)
		if err := ctx.Err(); err != nil {
			return indexOutput{}, err
		}
	}
	if len(out.Entries) > in.Limit {
		out.Entries = out.Entries[:in.Limit]
		out.Cursor = cursor.New(indexCursor, out.Entries[in.Limit-1].URI)
	}
	return out, nil
}

// startIndexing finds the Markdown files below a folder, and what of them belongs together.
func (c *Content) startIndexing(ctx context.Context, folder string) (x *indexing, files []Entry, skipped int, err error) {
	uri, err := c.files.Resolve(folder, "")
	if err != nil {
		return nil, nil, 0, err
	}
	if files, skipped, err = c.find(ctx, uri); err != nil {
		return nil, nil, 0, err
	}
	x = &indexing{c: c, ctx: ctx, lookup: c.newLookup(ctx), there: make(map[string]bool, len(files)), bundles: make(map[string]bool)}
	for _, e := range files {
		x.there[e.URI] = true
		if folder, name := path.Split(e.URI); isSkillFile(name) {
			x.bundles[folder] = true
		}
	}
	return x, files, skipped, nil
}

// find lists the Markdown files below a folder.
func (c *Content) find(ctx context.Context, uri string) (files []Entry, skipped int, err error) {
	for e, err := range c.files.Walk(ctx, uri) {
		switch {
		case ctx.Err() != nil:
			return nil, 0, ctx.Err()
		case err != nil && e.URI == uri && errors.As(err, new(*message.Error)):
			return nil, 0, err // the folder itself can't be looked into
		case err != nil:
			skipped++
		case len(files) == maxFound:
			return nil, 0, message.Errorf(413, "There are more than %d Markdown files below %s: ask for a folder in it", maxFound, message.Clip(uri, 400))
		case strings.EqualFold(path.Ext(e.URI), ".md"):
			files = append(files, e)
		}
	}
	slices.SortFunc(files, func(a, b Entry) int { return strings.Compare(a.URI, b.URI) })
	return files, skipped, nil
}

// indexing is one call of Content.Index or Content.Search.
type indexing struct {
	c       *Content
	ctx     context.Context
	lookup  *lookup
	there   map[string]bool // the Markdown files
	bundles map[string]bool // folders that are a skill with all that is in them
}

// bundled reports whether a file belongs to a skill that has a folder of its own.
func (x *indexing) bundled(uri string) bool {
	folder, name := path.Split(uri)
	if isSkillFile(name) {
		return false
	}
	for !x.bundles[folder] {
		cut := strings.LastIndexByte(strings.TrimSuffix(folder, "/"), '/')
		if cut < 0 {
			return false
		}
		folder = folder[:cut+1]
	}
	return true
}

// entries returns those of some files that are skills or agents, in their order.
func (x *indexing) entries(files []Entry) []indexEntry {
	found := make([]*indexEntry, len(files))
	inParallel(len(files), func(i int) {
		if !x.bundled(files[i].URI) {
			found[i] = x.entry(&files[i])
		}
	})
	var list []indexEntry
	for _, e := range found {
		if e != nil {
			list = append(list, *e)
		}
	}
	return list
}

// entry returns what the index lists of a file, or nil if it is neither a skill nor an agent.
func (x *indexing) entry(e *Entry) *indexEntry {
	var unread []string
	d, ok := x.c.documents.Get(e.URI)
	if !ok || e.Version == "" || d.version != e.Version { // otherwise the walk has just seen this version
		var err error
		if d, err = x.c.load(x.ctx, e.URI, false); err != nil {
			known, _ := message.ErrorOf(err)
			d, unread = new(document), []string{"FETCH_FAILED: " + known.Message}
		}
	}
	out := &indexEntry{URI: e.URI, Kind: kindOf(e.URI, &d.front), Name: d.name, Description: d.description, Problems: unread}
	if out.Kind == "" {
		return nil
	}
	if unread == nil {
		out.Problems = append(problemsOf(out, d), x.missing(d)...)
	}
	return out
}
