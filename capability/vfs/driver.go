package vfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"strings"
	"time"
)

// Can describes what a driver can do.
type Can struct {
	Read, Write bool
	Execute     bool // tools in it are executed, so that they describe themselves
	Code        bool // files in it may be registered as the owner's code; no sign shows it

	// Because is why it can't be written, and what would change that; "" if nothing would.
	Because string
}

// String returns three signs, as ls does: r-x.
func (c Can) String() string {
	s := []byte("---")
	for i, ok := range []bool{c.Read, c.Write, c.Execute} {
		if ok {
			s[i] = "rwx"[i]
		}
	}
	return string(s)
}

// A Driver is what is behind a mount. It is asked only for what Can lists, with
// names that have single slashes between their segments, none around them, and neither . nor
// ..; the name of its root is "", for which only List is asked. It is safe for concurrent use.
//
// What not every driver can do is an optional interface, which a [Tree] finds by a type assertion:
//
//	[Lister]         lists directories. Without it, a listing has what is mounted there, or is refused with a 403.
//	[Writer]         writes and deletes. Without it, both are refused with a 403, as they are if Can has no Write.
//	[Locator]        has files of this machine. Without it, none of its files is executed.
//	[SecretChecker]  knows where secrets may be written. Without it, what is written is recorded as it is.
//	[io.Closer]      is closed with the tree. Without it, there is nothing to close.
//
// A driver around another one implements an interface only if the inner driver does, or answers as above in its place.
//
// A name may lead to another one, by a link. [Landing] decides whether the caller reaches that.
//
// Its errors are *message.Error for the caller, or wrap [fs.ErrNotExist],
// [fs.ErrPermission] or an error of the context. The texts of other errors go to the log only.
type Driver interface {
	// Can describes what the driver can do now.
	Can() Can

	// String reports what is mounted, for people: directory /srv/os. No secrets.
	String() string

	// Read returns a file whole. The data belongs to the caller. The tree fills in the URI.
	Read(ctx context.Context, name string) (File, error)

	// Stat returns what is known of a file or a directory.
	Stat(ctx context.Context, name string) (Info, error)
}

// A Lister is a driver that can list a directory: its children, from a name on,
// with their names filled in and in the order of their keys. Some are left out that no URI
// can name; they are reported with the error [ErrUnnamed], and the listing continues.
type Lister interface {
	List(ctx context.Context, name, from string) iter.Seq2[Info, error]
}

// A Writer is a driver that can be written to.
type Writer interface {
	// Write gives a file its content, whole or not at all, so that it lasts. Directories
	// above it are made. It returns the new version.
	Write(ctx context.Context, name string, data []byte, expect Expect) (version string, err error)

	// Delete removes a file, or an empty directory, or any directory if recursive.
	Delete(ctx context.Context, name string, recursive bool) error
}

// A Locator is a driver whose files are files of this machine.
type Locator interface {
	// Local returns where a file is.
	Local(name string) (p Place, ok bool)

	// Roots returns the directories that are mounted now.
	Roots() []string

	// Writes reports whether a file of this machine, by its path without links, can be written by way of the driver.
	Writes(path string) bool
}

// A Place is where a file of this machine is.
type Place struct {
	Path string // without symbolic links in it, and not outside of Root
	Root string // the directory that is mounted
	Can  Can    // what may be done with the files of Root
}

// A SecretChecker is a driver under some of whose names secrets may be written by mistake.
type SecretChecker interface {
	// Secret reports whether what is written under a name may be a secret, which must not be recorded.
	Secret(name string) bool

	// Sounds returns how to keep a content encrypted, if it is stored as it is and sounds like a credential, and "" otherwise.
	Sounds(name string, data []byte) string
}

// Expect is what the version of a file must be for it to be written: "" means any, and
// [Absent] that the file must not exist.
type Expect string

// Absent is the version of a file that does not exist.
const Absent Expect = "none"

// A File is a file that was read.
type File struct {
	URI      string
	Data     []byte
	Version  string // another one when the content is another one
	Modified time.Time
}

// Info is what is known of a file or a directory without reading it.
type Info struct {
	URI        string
	Name       string // last segment of the URI
	Dir        bool
	Size       int64     // -1 if the size is not known before the file is read
	Version    string    // the same as in File; "" for a directory, and if it is not known
	Modified   time.Time // zero if it is not known
	Writable   bool      // the mount can be written to, and the file isn't ReadOnly
	ReadOnly   bool      // the file can't be written, although its mount may have others that can
	Executable bool      // a file that this machine can run
	Link       bool      // reached by a symbolic link
}

// Key returns what entries are ordered by: with it, a walk that goes down where a directory
// stands gives URIs in plain order.
func (i *Info) Key() string {
	if i.Dir {
		return i.Name + "/"
	}
	return i.Name
}

// Digest returns the version of a content that has no other.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:12])
}

// After returns the least name that comes after one and all that is in it.
func After(name string) string {
	if dir, ok := strings.CutSuffix(name, "/"); ok {
		return dir + string('/'+1)
	}
	return name + "\x00"
}

// Join returns the name of what is in a directory.
func Join(p, name string) string {
	if p == "" {
		return name
	}
	return p + "/" + name
}

// Nameable reports whether a name of a file can be a segment of a URI.
func Nameable(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.Contains(name, "/") && checkText(name) == nil
}
