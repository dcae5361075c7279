// Package vfs is the kernel's one tree of files: directories, https servers, the memory,
// settings and computed values, mounted side by side under os://.
//
//	tree, err := vfs.New(vfs.Options{Mounts: []vfs.Mount{
//		{Path: "/", Driver: directory},
//		{Path: "/memory", Driver: vfs.Memory(values, blobs)},
//	}})
//	VFS.Read {"uri":"os://agents/writer.md"}  →  {"uri":"os://agents/writer.md","content":"…",…}
//
// A URI is resolved first: what [Tree.Resolve] returns has neither . nor .. in it, and no
// spelling that another program would take for one. Then the mount with the longest prefix
// gets the rest of the path. A [Driver] declares what it can do, and everything else is
// refused with a 403 before the driver is asked.
//
// Nothing leaves a mount. For directories [os.Root] enforces that; what it can't know (pipes,
// devices, links that a write would replace) is refused here.
package vfs

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"kernos/kernel"
	"kernos/message"
	"kernos/store/blobs"
)

// MaxFile is how many bytes a file may have that is read or written whole.
const MaxFile = 64 << 20

// Options are the settings of a Tree. The zero value is a tree without mounts.
type Options struct {
	// Mounts are what the tree is made of, in any order. The tree closes those drivers
	// that can be closed.
	Mounts []Mount

	// Blobs keeps what VFS.Read can't put into a message. Nil means that only small
	// binary files, which fit into a pointer, and texts can be read.
	Blobs kernel.BlobPutter

	// Resolve fetches what a contentRef points to; see [blobs.Resolver]. Nil takes data
	// pointers only.
	Resolve func(context.Context, message.BlobPointer) ([]byte, error)

	// Code returns the folders whose files are registered as code, as URIs, or as paths of this machine.
	// What changes them reaches code. Nil means none.
	Code func() []string
}

// A Tree is a set of mounts seen as one tree of files. It is safe for concurrent use and
// starts no goroutines.
type Tree struct {
	mounts []Mount // the longest path first
	opts   Options

	mu      sync.Mutex
	written map[string]chan struct{} // closed by the next change below a URI
}

// New returns the tree of some mounts. The error names which mount is at fault; the drivers
// are the caller's then.
func New(opts Options) (*Tree, error) {
	t := &Tree{opts: opts}
	if t.opts.Resolve == nil {
		t.opts.Resolve = (&blobs.Resolver{Confined: true, Limit: MaxFile}).Resolve
	}
	var err error
	t.mounts, err = arrange(t.opts.Mounts)
	return t, err
}

// Close lets go of what the drivers hold.
func (t *Tree) Close() error {
	var err error
	for _, m := range t.mounts {
		if c, ok := m.Driver.(io.Closer); ok {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}

// Mounts returns the mounts, sorted by path.
func (t *Tree) Mounts() []Mount {
	all := slices.Clone(t.mounts)
	for i := range all {
		all[i].Path = "/" + all[i].Path
	}
	slices.SortFunc(all, func(a, b Mount) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// Written returns a channel that is closed after the next change that is made through the tree below a
// URI. Changes of other programs aren't seen.
func (t *Tree) Written(below string) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.written[below]
	if !ok {
		if t.written == nil {
			t.written = make(map[string]chan struct{})
		}
		c = make(chan struct{})
		t.written[below] = c
	}
	return c
}

// wrote notifies about a change.
func (t *Tree) wrote(uri string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for below, c := range t.written {
		if strings.HasPrefix(uri, below) {
			close(c)
			delete(t.written, below)
		}
	}
}

// Module returns the syscalls of the tree.
func (t *Tree) Module() kernel.Module {
	write := write
	write.Redact = t.redact // the mounts decide what may be a secret
	return kernel.Module{
		Name:    "vfs",
		Version: "1.0.0",
		Summary: "One tree of files, os://: directories, https servers, the memory, settings and the state of the kernel.",
		Domains: []string{"VFS", "FileSystem"},
		Syscalls: []kernel.Syscall{
			read.Bind(t.readCall), write.Bind(t.writeCall), list.Bind(t.listCall), remove.Bind(t.deleteCall),
			resolve.Bind(t.resolveCall),
		},
	}
}
