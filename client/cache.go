package client

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Cache keeps what servers offer, in files that all processes of a user share:
//
//	<dir>/<server>/latest                 the hash that the server had last
//	<dir>/<server>/<hash>/service.json    its modules
//	<dir>/<server>/<hash>/m-<name>.json   the schema of a module
//
// Files are written beside their place and moved there, so no process ever reads half of one.
// What can't be written is not kept, and nothing else happens.
type Cache struct{ dir string }

// OpenCache returns the cache in a directory; "" means kernos/servers in the user's cache
// directory.
func OpenCache(dir string) *Cache {
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return &Cache{} // it keeps nothing
		}
		dir = filepath.Join(base, "kernos", "servers")
	}
	return &Cache{dir: dir}
}

var errNoCache = errors.New("the cache does not have it")

// keptHashes is how many states of a server are kept: an older one may still be in use by
// another process, or come back with a server that goes back a version.
const keptHashes = 3

// Dir returns the directory of a server.
func (c *Cache) Dir(t Target) string {
	if c.dir == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(t.URL))
	return filepath.Join(c.dir, hex.EncodeToString(sum[:10]))
}

var plainName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) })

// fileName makes a file name of what a server says. It never leaves its directory.
func fileName(text string) string {
	if plainName().MatchString(text) {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "x-" + hex.EncodeToString(sum[:16])
}

// Latest returns what a server offered when it was last asked.
func (c *Cache) Latest(t Target) (*Catalog, error) {
	hash := c.latest(t)
	if hash == "" {
		return nil, errNoCache
	}
	return c.load(t, hash)
}

// latest returns the hash that a server had last, or "".
func (c *Cache) latest(t Target) string {
	var latest struct{ Hash string }
	text, err := c.read(c.Dir(t), "latest")
	if err != nil || json.Unmarshal(text, &latest) != nil {
		return ""
	}
	return latest.Hash
}

// remember takes note of the hash that a server has.
func (c *Cache) remember(t Target, hash string) {
	dir := c.Dir(t)
	if dir == "" || c.latest(t) == hash {
		return
	}
	text, _ := json.Marshal(struct{ Hash, URL string }{hash, t.URL})
	if c.write(text, dir, "latest") == nil {
		c.prune(dir, fileName(hash))
	}
}

func (c *Cache) load(t Target, hash string) (*Catalog, error) {
	text, err := c.read(c.Dir(t), fileName(hash), "service.json")
	if err != nil {
		return nil, err
	}
	catalog, err := readCatalog(hash, text)
	if err != nil {
		return nil, err
	}
	catalog.cache, catalog.target = c, t
	return catalog, nil
}

func (c *Cache) loadModule(t Target, hash, namespace string) (json.RawMessage, error) {
	text, err := c.read(c.Dir(t), fileName(hash), "m-"+fileName(namespace)+".json")
	if err != nil || !json.Valid(text) {
		return nil, errNoCache
	}
	return text, nil
}

func (c *Cache) storeService(t Target, hash string, data json.RawMessage) {
	dir := c.Dir(t)
	if dir == "" {
		return
	}
	if c.write(data, dir, fileName(hash), "service.json") == nil {
		c.remember(t, hash)
	}
}

func (c *Cache) storeModule(t Target, hash, namespace string, data json.RawMessage) {
	if dir := c.Dir(t); dir != "" {
		_ = c.write(data, dir, fileName(hash), "m-"+fileName(namespace)+".json") // then it is asked for again
	}
}

func (c *Cache) read(dir string, path ...string) ([]byte, error) {
	if dir == "" {
		return nil, errNoCache
	}
	return os.ReadFile(filepath.Join(dir, filepath.Join(path...)))
}

// write puts a file into its place at once, with all of its content.
func (c *Cache) write(data []byte, dir string, path ...string) error {
	name := filepath.Join(dir, filepath.Join(path...))
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// prune removes the oldest states of a server, and what a process that was killed has left.
func (c *Cache) prune(dir, current string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	type state struct {
		name string
		at   time.Time
	}
	var states []state
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil:
		case strings.HasPrefix(e.Name(), ".new-") && time.Since(info.ModTime()) > time.Hour:
			_ = os.Remove(filepath.Join(dir, e.Name()))
		case e.IsDir() && e.Name() != current:
			states = append(states, state{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(states, func(a, b state) int { return b.at.Compare(a.at) })
	for i := keptHashes - 1; i < len(states); i++ {
		_ = os.RemoveAll(filepath.Join(dir, states[i].name))
	}
}
