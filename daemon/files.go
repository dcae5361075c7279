package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

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
// anything of the home directory but its folder os.
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
	if o.Directory != "" {
		if s.directory, err = filepath.Abs(o.Directory); err != nil {
			return nil, err
		}
	}
	s.files = s.home.Files()
	m, err := mounts.Root(s.folders)
	return append(all, m), err
}

// folders returns the folders whose files are the root of the tree, unless a root is mounted: the folder of the home, whose
// files no other folder hides; the folder of Files.Directory, where new files are made then; and the trusted folders.
func (s *state) folders() []mounts.Folder {
	own := mounts.Folder{Path: s.home.Files(), New: s.directory == "", Private: s.besideFiles()}
	all := []mounts.Folder{own}
	if s.directory != "" {
		all = append(all, mounts.Folder{Path: filepath.Join(s.directory, filesName), New: true, Private: s.private})
	}
	trusted, err := s.home.Trusted()
	s.untrusted.report(s.log, trusted, err)
	for _, t := range trusted {
		if t.Problem == "" {
			all = append(all, mounts.Folder{Path: t.Files(), Optional: true, Programs: t.Execute, Private: s.private})
		}
	}
	return all
}

// isTrusted reports whether a folder with files is at the root because the owner trusts its directory.
func (s *state) isTrusted(folder string) bool {
	trusted, _ := s.home.Trusted()
	return slices.ContainsFunc(trusted, func(t TrustedFolder) bool { return t.Problem == "" && t.Files() == folder })
}

// besideFiles returns what of the home its folder os must not lead to: all else, or all if the folder is a link to
// another place in the home.
func (s *state) besideFiles() []string {
	files := s.home.Files()
	if at, err := filepath.EvalSymlinks(files); err == nil && at != files {
		home, err := filepath.EvalSymlinks(s.home.Dir)
		if err != nil || at != filepath.Join(home, filesName) {
			return s.private
		}
	}
	private := slices.Clone(s.private[1:]) // without the home itself
	entries, _ := os.ReadDir(s.home.Dir)
	for _, e := range entries {
		if e.Name() != filesName {
			private = append(private, filepath.Join(s.home.Dir, e.Name()))
		}
	}
	return private
}

// A problemLog logs problems of trusted folders, each once.
type problemLog struct {
	mu   sync.Mutex
	last map[string]bool
}

func (l *problemLog) report(log *slog.Logger, trusted []TrustedFolder, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := make(map[string]bool)
	note := func(text string) {
		if now[text] = true; !l.last[text] {
			log.Warn("a trusted folder isn't used", "error", text)
		}
	}
	if err != nil {
		note(err.Error())
	}
	for _, t := range trusted {
		if t.Problem != "" {
			note(t.Path + ": " + t.Problem)
		}
	}
	l.last = now
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
