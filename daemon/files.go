package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"

	"kernos/capability/content"
	"kernos/capability/mcphost"
	"kernos/capability/vfs"
	"kernos/capability/vfs/kernelfs"
	"kernos/capability/vfs/mcpfs"
	"kernos/capability/vfs/memoryfs"
	"kernos/capability/vfs/mounts"
)

// openTree opens the tree of files: the mounts of the options, the state of the kernel under
// /memory, /sys and /proc, and the resources of MCP servers under /mcp.
func (s *state) openTree(o *Files, variables []kernelfs.Variable, servers *mcphost.Host) error {
	mounts, err := s.mounts(o)
	if err != nil {
		return err
	}
	mounts = append(mounts,
		vfs.Mount{Path: "/memory", Driver: memoryfs.New(s.memory, s), Tokens: vfs.TokensWrite},
		vfs.Mount{Path: "/sys", Driver: kernelfs.Sys(variables), Tokens: vfs.TokensWrite},
		vfs.Mount{Path: "/proc", Driver: kernelfs.Proc(s.process.Files)},
		vfs.Mount{Path: "/mcp", Driver: mcpfs.New(servers)},
	)
	s.tree, err = vfs.New(vfs.Options{Mounts: mounts, Blobs: s, Resolve: s.resolve, Code: codeFolders})
	return err
}

// mounts returns the mounts of the options, with a root if none of them is one. None shows
// anything of the home directory.
func (s *state) mounts(o *Files) (all []vfs.Mount, err error) {
	root := false
	for _, text := range o.Mounts {
		m, err := mounts.Parse(text, mounts.Options{Client: s.own, Development: o.Development, Private: s.private})
		if err != nil {
			if at, _, ok := strings.Cut(text, "="); ok { // the target may hold a password
				err = fmt.Errorf("%s=…: %w", at, err)
			}
			return nil, &OptionError{"mount", err}
		}
		root = root || m.Path == "/"
		all = append(all, m)
	}
	if root {
		return all, nil
	}
	if s.directory, err = filepath.Abs(cmp.Or(o.Directory, ".")); err != nil {
		return nil, err
	}
	m, err := mounts.DefaultRoot(s.directory, s.private)
	return append(all, m), err
}

// proc returns the value of a key under proc: the text of the file of this name.
func (s *state) proc(ctx context.Context, key string) (json.RawMessage, error) {
	if s.process == nil {
		return nil, nil
	}
	file, ok := s.process.Files()[strings.TrimPrefix(key, "proc/")]
	if !ok {
		return nil, nil
	}
	text, err := file.Read(ctx)
	if err != nil {
		return nil, err
	}
	return json.Marshal(strings.TrimSuffix(string(text), "\n"))
}

// procKeys lists the keys under proc.
func (s *state) procKeys() (keys []string) {
	if s.process != nil {
		for name := range s.process.Files() {
			keys = append(keys, "proc/"+name)
		}
	}
	return keys
}

// contentFiles is the tree as the hydration of content reads it.
type contentFiles struct{ *vfs.Tree }

// Read implements [content.Files].
func (f contentFiles) Read(ctx context.Context, uri string) (content.File, error) {
	file, err := f.Tree.Read(ctx, uri)
	return content.File{Data: file.Data, Version: file.Version, Modified: file.Modified}, err
}

// Walk implements [content.Files].
func (f contentFiles) Walk(ctx context.Context, uri string) iter.Seq2[content.Entry, error] {
	return func(yield func(content.Entry, error) bool) {
		for info, err := range f.Tree.Walk(ctx, uri) {
			if err == nil && info.Dir || errors.Is(err, vfs.ErrUnnamed) {
				continue
			}
			if !yield(content.Entry{URI: info.URI, Version: info.Version}, err) {
				return
			}
		}
	}
}
