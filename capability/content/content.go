// Package content reads agents and skills: Markdown files whose YAML front matter names
// what they depend on.
//
//	Content.Hydrate {"uri":"os://agents/writer.md"}
//	  →  {"content":"…","metadata":{"uri":"os://agents/writer.md","dependencies":{"skills":[…],"tools":[…]}}}
//	Content.Index {"uri":"os://skills"}
//	  →  {"entries":[{"uri":"os://skills/pdf/SKILL.md","kind":"skill","name":"pdf",…}]}
//
// Hydration never fails because of the files: in place of a skill that is missing, malformed
// or nameless, or of a tool that does not run, the reply has ERROR: and a code. Hydration goes
// one level deep: the dependencies of a dependency are listed as they are written. With
// "flatten" it follows skills to their end.
//
// A dependency is a URI or a name. A tool's name is looked up among the syscalls and in the
// folders tools, a skill's in the folders skills, where it may ask for a version
// (web-search@^2.0.0), as a URI may. Tools with plain names that are found nowhere are those of the agent's host, and no
// error; all else that isn't there is one.
//
// What was read is cached, and checked before it is used again: a file by its version, a page
// of a server by its ETag. So a change is seen at once, and a repeated call costs little.
//
// # Goroutines
//
//   - Reading files, fetching pages and running tools that describe themselves, 10 per hydration, which waits for them:
//     the process group of a tool is killed after 5 s.
package content

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"time"

	"kernos/internal/ranked"
	"kernos/internal/recent"
	"kernos/kernel"
)

// Limits of a hydration.
const (
	// maxDependencies is how many dependencies of a resource are looked up.
	maxDependencies = 1000

	// maxDescription is how many characters a description may have.
	maxDescription = 1024

	// toolTimeout is how long a tool may take to describe itself.
	toolTimeout = 5 * time.Second

	// hydrateTimeout is how long a hydration may take. What is not looked up by then has
	// its error in its place.
	hydrateTimeout = time.Minute

	// fetchTimeout is how long a server may take for one page.
	fetchTimeout = 10 * time.Second

	// concurrent is how many dependencies of a call are looked up at a time, and how many
	// tools run at a time for all calls.
	concurrent = 10
)

// Files is the tree of files that content is read from. Its errors are *message.Error
// where they are for the caller. It is safe for concurrent use.
type Files interface {
	// Resolve makes a URI absolute, os://… or https://…, in the one form in which it is
	// printed. A relative one starts beside the base, or at the root if that is "".
	Resolve(uri, base string) (string, error)

	// Read returns a file whole.
	Read(ctx context.Context, uri string) (File, error)

	// Version returns the version of a file that Read would return, without reading it
	// where that is possible. The reason of the error for a directory is syscall.EISDIR.
	Version(ctx context.Context, uri string) (string, error)

	// Walk gives the files below a directory. What can't be read is an error with its URI
	// in the entry, and the walk continues if the loop does. The error for the directory itself
	// is a *message.Error.
	Walk(ctx context.Context, uri string) iter.Seq2[Entry, error]

	// Program returns the path of a file of this machine that may be executed.
	Program(uri string) (path string, ok bool)

	// Owned reports whether a file is the owner's: a file of this machine that tokens can't write. Only such a document
	// causes the tools that it names to be executed.
	Owned(uri string) bool
}

// A File is a file that was read.
type File struct {
	Data     []byte
	Version  string    // another one when the content is another one
	Modified time.Time // zero if it is not known
}

// An Entry is a file that was found.
type Entry struct {
	URI     string
	Version string // "" if it is not known
}

// Policy decides which tools are executed.
type Policy string

const (
	// ExecuteLocal executes tools that are files of this machine.
	ExecuteLocal Policy = "local"
	// ExecuteNone executes nothing.
	ExecuteNone Policy = "none"
)

// Options are the settings of the module. The zero value is usable.
type Options struct {
	// Client fetches pages of servers by https. Its cookies, its timeout and its rule for
	// redirects are not used. Nil means that nothing is fetched.
	Client *http.Client

	// Registry has the syscalls that a tool may be the name of. Nil means none.
	Registry *kernel.Registry

	// Meaning finds skills and agents by what they are for. Nil means by the model that is inside.
	Meaning *ranked.Meaning

	// Execute decides which tools are executed. "" means ExecuteLocal.
	Execute Policy
}

// Content reads content. It is safe for concurrent use and starts no goroutines that
// outlive a call.
type Content struct {
	files    Files
	registry *kernel.Registry // or nil
	client   *http.Client     // nil if nothing is fetched
	meaning  *ranked.Meaning
	execute  Policy
	running  chan struct{} // one element for each tool that runs

	documents *recent.Cache[*document]
	tools     *recent.Cache[describedTool]
}

// New returns a Content that reads from a tree of files. Nil options mean defaults.
func New(files Files, opts *Options) *Content {
	opts = cmp.Or(opts, new(Options))
	c := &Content{
		files: files, registry: opts.Registry, meaning: opts.Meaning, execute: cmp.Or(opts.Execute, ExecuteLocal), running: make(chan struct{}, concurrent),
		documents: recent.New[*document](limits), tools: recent.New[describedTool](limits),
	}
	if c.meaning == nil {
		c.meaning = ranked.NewMeaning(nil)
	}
	if opts.Client != nil {
		c.client = httpsClient(opts.Client)
	}
	return c
}

// Module returns the syscalls.
func (c *Content) Module() kernel.Module {
	return kernel.Module{
		Name:     "content",
		Version:  "1.0.0",
		Summary:  "Agents and skills, with their dependencies.",
		Domains:  []string{"Content", "FileSystem"},
		Syscalls: []kernel.Syscall{hydrate.Bind(c.hydrate), index.Bind(c.index), search.Bind(c.search)},
	}
}
