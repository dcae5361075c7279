// Package mcpfs shows the resources and prompts of mounted MCP servers as files, read-only:
// os://mcp/NAME/SCHEME/PATH and os://mcp/NAME/prompts/PROMPT.md.
package mcpfs

import (
	"context"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"kernos/capability/mcphost"
	"kernos/capability/vfs"
)

// New returns the driver of the servers of a host. Listing starts no server; reading does.
func New(h *mcphost.Host) vfs.Driver { return driver{h} }

type driver struct{ host *mcphost.Host }

func (driver) Can() vfs.Can {
	return vfs.Can{Read: true, Because: "the resources of MCP servers are read only"}
}

func (driver) String() string { return "resources of MCP servers" }

func (d driver) Read(ctx context.Context, name string) (vfs.File, error) {
	data, err := d.host.Read(ctx, name)
	if err == fs.ErrNotExist {
		if _, stat := d.Stat(ctx, name); stat == nil {
			err = vfs.ErrDirectory
		}
	}
	return vfs.File{Data: data, Version: vfs.Digest(data)}, err
}

// Stat knows what the servers have listed. Whether a template names something else shows when it is
// read.
func (d driver) Stat(_ context.Context, name string) (vfs.Info, error) {
	files, err := d.host.Files()
	if err != nil {
		return vfs.Info{}, err
	}
	for _, f := range files {
		if f.Path == name {
			return vfs.Info{Size: size(f)}, nil
		}
	}
	if slices.ContainsFunc(files, func(f mcphost.File) bool { return strings.HasPrefix(f.Path, name+"/") }) {
		return vfs.Info{Dir: true}, nil
	}
	return vfs.Info{}, fs.ErrNotExist
}

// List implements [vfs.Lister].
func (d driver) List(ctx context.Context, name, from string) iter.Seq2[vfs.Info, error] {
	return func(yield func(vfs.Info, error) bool) {
		files, err := d.host.Files()
		if err == nil && name != "" {
			var info vfs.Info
			if info, err = d.Stat(ctx, name); err == nil && !info.Dir {
				err = vfs.ErrNotDirectory
			}
		}
		if err != nil {
			yield(vfs.Info{}, err)
			return
		}
		for _, info := range children(files, name) {
			if info.Key() >= from && !yield(info, nil) {
				return
			}
		}
	}
}

// children returns what is in a folder, in the order of its keys.
func children(files []mcphost.File, folder string) []vfs.Info {
	if folder != "" {
		folder += "/"
	}
	var all []vfs.Info
	for _, f := range files {
		rest, ok := strings.CutPrefix(f.Path, folder)
		if !ok {
			continue
		}
		first, _, below := strings.Cut(rest, "/")
		info := vfs.Info{Name: first, Dir: below}
		if !below {
			info.Size = size(f)
		}
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b vfs.Info) int { return strings.Compare(a.Key(), b.Key()) })
	return slices.CompactFunc(all, func(a, b vfs.Info) bool { return a.Key() == b.Key() })
}

// size returns that of a file, or -1 if it isn't known before it is read.
func size(f mcphost.File) int64 {
	if f.Size == 0 {
		return -1
	}
	return f.Size
}
