package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Discover finds out what a server offers: it asks for the hash and, if the cache does not
// know it, for the list of modules. If that fails, it makes do with what the cache has,
// however old, and reports that in Stale.
func Discover(ctx context.Context, c *Client, cache *Cache) (*Catalog, error) {
	fresh, err := discover(ctx, c, cache)
	if err == nil {
		return fresh, nil
	}
	if ctx.Err() != nil {
		return nil, err
	}
	old, cacheErr := cache.Latest(c.target)
	if cacheErr != nil {
		return nil, err
	}
	old.Stale, old.client = err, c
	return old, nil
}

func discover(ctx context.Context, c *Client, cache *Cache) (*Catalog, error) {
	data, err := c.Call(ctx, methodHash)
	if err != nil {
		return nil, err
	}
	var said struct {
		Hash string `json:"hash"`
	}
	if err := json.Unmarshal(data, &said); err != nil || said.Hash == "" {
		return nil, &Broken{fmt.Sprintf("%s answers with %.100s", methodHash, data)}
	}
	if known := cache.find(c.target, said.Hash); known != nil {
		known.client = c
		return known, nil
	}
	data, err = c.Call(ctx, methodSchema)
	if err != nil {
		return nil, err
	}
	catalog, err := readCatalog(said.Hash, data)
	if err != nil {
		return nil, err
	}
	catalog.client, catalog.cache, catalog.target = c, cache, c.target
	cache.keep(c.target, catalog.cached())
	return catalog, nil
}

// Latest returns what a server offered when it was last asked.
func (c *Cache) Latest(t Target) (*Catalog, error) {
	states := c.read(t)
	if len(states) == 0 {
		return nil, errors.New("the cache does not have it")
	}
	return c.catalog(t, states[0])
}

// find returns what a server offers with this hash, nil if it isn't kept, and makes it the latest.
func (c *Cache) find(t Target, hash string) *Catalog {
	states := c.read(t)
	i := slices.IndexFunc(states, func(s cached) bool { return s.Hash == hash })
	if i < 0 {
		return nil
	}
	catalog, err := c.catalog(t, states[i])
	if err != nil {
		return nil
	}
	if i > 0 {
		c.keep(t, states[i])
	}
	return catalog
}

func (c *Cache) catalog(t Target, s cached) (*Catalog, error) {
	catalog, err := readCatalog(s.Hash, s.Service)
	if err != nil {
		return nil, err
	}
	catalog.cache, catalog.target = c, t
	maps.Copy(catalog.schemas, s.Schemas)
	return catalog, nil
}
