package client

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"kernos/internal/durable"
)

// A Cache keeps what servers offer, in one file for each server, <dir>/<server>/catalog.json,
// that all processes of a user share. No process ever reads half of a file. What can't be
// written is not kept, and nothing else happens. The zero Cache keeps nothing.
type Cache struct{ dir string }

// OpenCache returns the cache in a directory; "" means kernos/servers in the user's cache
// directory.
func OpenCache(dir string) *Cache {
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return new(Cache)
		}
		dir = filepath.Join(base, "kernos", "servers")
	}
	return &Cache{dir: dir}
}

// A cached is what a server offered when it had a hash.
type cached struct {
	Hash    string
	Service json.RawMessage            // the answer to service_schema
	Schemas map[string]json.RawMessage // schemas of modules that were asked for, by namespace
}

// keptHashes is how many states of a server are kept: an older one may still be in use by
// another process, or come back with a server that goes back a version.
const keptHashes = 3

// directory returns the directory of a server; "" if nothing is kept.
func (c *Cache) directory(t Target) string {
	if c.dir == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(t.URL))
	return filepath.Join(c.dir, hex.EncodeToString(sum[:10]))
}

// read returns the states that are kept, the latest first.
func (c *Cache) read(t Target) (states []cached) {
	text, err := os.ReadFile(filepath.Join(c.directory(t), "catalog.json"))
	if err != nil || c.dir == "" || json.Unmarshal(text, &states) != nil {
		return nil // the server is asked instead
	}
	return states
}

// keep makes a state the latest one.
func (c *Cache) keep(t Target, s cached) {
	states := slices.DeleteFunc(c.read(t), func(old cached) bool { return old.Hash == s.Hash })
	states = append([]cached{s}, states...)
	text, err := json.Marshal(states[:min(len(states), keptHashes)])
	if dir := c.directory(t); err == nil && dir != "" && os.MkdirAll(dir, 0o700) == nil {
		_ = durable.WriteFile(filepath.Join(dir, "catalog.json"), text) // if it fails, the server is asked again
	}
}
