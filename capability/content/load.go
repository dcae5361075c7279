package content

import (
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"kernos/internal/recent"
	of "kernos/internal/uri"
	"kernos/kernel"
)

// limits are what each cache holds at most.
var limits = recent.Limits{Values: 20_000, Bytes: 16 << 20, Each: 2 << 20}

// keptCost is about what keeping a value costs beside its bytes.
const keptCost = 256

// settled is how long ago a file must have been changed for its version to be relied on.
// The clocks of file systems tick in milliseconds: a file that is changed twice within a
// tick may keep its version.
const settled = 100 * time.Millisecond

// A document is a Markdown file that was read.
type document struct {
	front
	uri           string
	version       string
	err           error  // why the front matter can't be read, or nil
	text          string // the text after the front matter; all of the file if err is set
	hasText       bool   // text is kept
	skills, tools []dependency
	optional      []optional
	sum           [sha256.Size]byte // hash of the file
}

// A dependency is what a document names. If it can't be resolved, its URI is what is written
// there.
type dependency struct {
	uri     string
	problem problem
	written string // if it may be a name: as it is written
	base    string // the document; likewise
}

// optional are skills that are for some circumstances only.
type optional struct {
	conditional
	skills []dependency
}

// load returns a document as it is now: the kept one, if the file has not changed. Its text
// may be left out unless withText is set.
func (c *Content) load(ctx context.Context, uri string, withText bool) (*document, error) {
	kept, known := c.documents.Get(uri)
	version := ""
	if known && (kept.hasText || !withText) {
		version = kept.version
	}
	file, same, err := c.read(ctx, uri, version)
	if err != nil {
		c.documents.Drop(uri)
		return nil, err
	}
	if same {
		return kept, nil
	}
	d := c.newDocument(uri, &file, withText)
	if reliable(&file) {
		c.documents.Put(uri, d, d.size()+len(uri))
	} else if known {
		c.documents.Drop(uri)
	}
	return d, nil
}

func (c *Content) newDocument(uri string, file *File, withText bool) *document {
	d := &document{uri: uri, version: file.Version, hasText: withText, sum: sha256.Sum256(file.Data)}
	var body []byte
	if d.front, body, d.err = parse(file.Data); d.err != nil {
		d.front, body = front{present: true}, file.Data // the end of the front matter isn't known
	}
	if withText {
		d.text = strings.ToValidUTF8(string(body), "\uFFFD")
	}
	d.skills = c.dependencies(uri, d.front.skills, maxDependencies)
	d.tools = c.dependencies(uri, d.front.tools, maxDependencies-min(len(d.front.skills), maxDependencies))
	for _, listed := range d.front.conditional {
		d.optional = append(d.optional, optional{listed, c.dependencies(uri, listed.skills, maxDependencies)})
	}
	return d
}

// size is about how many bytes the document has in memory.
func (d *document) size() int {
	size := keptCost + len(d.version) + len(d.text) + len(d.name) + len(d.description) + len(d.compatibility)
	for _, list := range [][]dependency{d.skills, d.tools} {
		for _, dependency := range list {
			size += 2*len(dependency.uri) + 80 // the URI as it is written, and as it is resolved
		}
	}
	for _, o := range d.optional {
		size += len(o.when)*keptCost + len(o.skills)*keptCost
	}
	return size
}

// dependencies resolves the URIs of a list, and returns them sorted and each once. Of more
// than a limit, those that come first by their URIs are taken, so that the order in which
// they are written does not matter; an entry of its own reports that some are left out.
func (c *Content) dependencies(base string, declared []string, limit int) []dependency {
	list := make([]dependency, 0, len(declared))
	for _, uri := range declared {
		abs, problem := c.resolve(uri, base)
		named := dependency{uri: abs, problem: problem}
		if !meansFile(uri) {
			named.written, named.base = uri, base
		}
		list = append(list, named)
	}
	byURI := func(a, b dependency) int { return strings.Compare(a.uri, b.uri) }
	slices.SortFunc(list, byURI)
	if len(list) > limit {
		list = append(list[:limit], dependency{uri: string(tooManyDependencies), problem: tooManyDependencies})
		slices.SortFunc(list, byURI)
	}
	return slices.CompactFunc(list, func(a, b dependency) bool { return a.uri == b.uri })
}

// reliable reports whether the version of a file will be another one when its content is.
func reliable(f *File) bool {
	return f.Version != "" && (f.Modified.IsZero() || time.Since(f.Modified) > settled)
}

// read reads a file, unless it still has the version that is known; "" is none.
func (c *Content) read(ctx context.Context, uri, known string) (f File, same bool, err error) {
	if e := kernel.PrincipalOf(ctx).File(uri, false); e != nil {
		return File{}, false, e
	}
	if isRemote(uri) {
		return c.fetch(ctx, uri, known)
	}
	if known != "" {
		version, err := c.files.Version(ctx, uri)
		if err != nil || version == known {
			return File{}, err == nil, err
		}
	}
	f, err = c.files.Read(ctx, uri)
	return f, false, err
}

// resolve makes a URI absolute if its scheme is one that is served. If there is a problem,
// the URI is given back as it is.
func (c *Content) resolve(uri, base string) (string, problem) {
	switch strings.ToLower(of.Scheme(uri)) {
	case "", "os", "https":
	default:
		return uri, unsupportedScheme
	}
	abs, err := c.files.Resolve(uri, base)
	if err != nil {
		return uri, fetchFailed
	}
	return abs, ""
}

func isRemote(uri string) bool {
	return strings.HasPrefix(strings.ToLower(uri[:min(len(uri), 6)]), "https:")
}
