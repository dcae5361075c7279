package content

import (
	"context"
	"strings"
	"time"

	"kernos/internal/recent"
	of "kernos/internal/uri"
)

// limits are what is kept at most of each sort.
var limits = recent.Limits{Values: 20_000, Bytes: 16 << 20, Each: 2 << 20}

// keptCost is about what keeping a value costs beside its bytes.
const keptCost = 256

// made is what was made of a version of a file.
type made[V any] struct {
	version string
	value   V
}

// A cache has what was made of files, by URI.
type cache[V any] = recent.Cache[made[V]]

// settled is how long ago a file must have been changed for its version to be relied on.
// The clocks of file systems tick in milliseconds: a file that is changed twice within a
// tick may keep its version.
const settled = 100 * time.Millisecond

// A maker makes of a file what is to be kept of it, and says how many bytes that has.
type maker[V any] func(uri string, data []byte) (value V, size int)

// load returns what is made of a file as it is now: what was kept, if the file has not
// changed.
func load[V any](ctx context.Context, c *Content, cache *cache[V], uri string, from maker[V]) (V, error) {
	old, known := cache.Get(uri)
	file, same, err := c.read(ctx, uri, old.version)
	if err != nil {
		cache.Drop(uri)
		var none V
		return none, err
	}
	if known && same {
		return old.value, nil
	}
	value, size := from(uri, file.Data)
	if reliable(&file) {
		keep(cache, uri, file.Version, value, size)
	} else if known {
		cache.Drop(uri)
	}
	return value, nil
}

// keep keeps a value of some bytes that was made of a version.
func keep[V any](c *cache[V], uri, version string, value V, size int) {
	c.Put(uri, made[V]{version, value}, size+len(uri)+len(version)+keptCost)
}

// reliable reports whether the version of a file will be another one when its content is.
func reliable(f *File) bool {
	return f.Version != "" && (f.Modified.IsZero() || time.Since(f.Modified) > settled)
}

// read reads a file, unless it still has the version that is known; "" is none.
func (c *Content) read(ctx context.Context, uri, known string) (f File, same bool, err error) {
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
