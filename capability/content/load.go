package content

import (
	"context"
	"strings"
	"time"
)

// settled is how long ago a file must have been changed for its version to be relied on.
// The clocks of file systems tick in milliseconds: a file that is changed twice within a
// tick may keep its version.
const settled = 100 * time.Millisecond

// A maker makes of a file what is to be kept of it, and says how many bytes that has.
type maker[V any] func(uri string, data []byte) (value V, size int)

// load returns what is made of a file as it is now: what was kept, if the file has not
// changed.
func load[V any](ctx context.Context, c *Content, cache *cache[V], uri string, from maker[V]) (V, error) {
	value, version, known := cache.get(uri)
	file, same, err := c.read(ctx, uri, version)
	if err != nil {
		cache.drop(uri)
		var none V
		return none, err
	}
	if known && same {
		return value, nil
	}
	value, size := from(uri, file.Data)
	if reliable(&file) {
		cache.put(uri, file.Version, value, size)
	} else if known {
		cache.drop(uri)
	}
	return value, nil
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
	switch strings.ToLower(schemeOf(uri)) {
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

// schemeOf returns what stands before the colon of an absolute URI, or "". One letter is no
// scheme but the drive of a path.
func schemeOf(uri string) string {
	for i := range len(uri) {
		c := uri[i]
		switch {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
		case i > 0 && (c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'):
		case c == ':' && i > 1:
			return uri[:i]
		default:
			return ""
		}
	}
	return ""
}
