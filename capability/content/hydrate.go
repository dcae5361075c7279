package content

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"kernos/kernel"
	"kernos/message"
)

type hydrateInput struct {
	URI        string            `json:"uri" aliases:"path" jsonschema:"minLength=1,example=os://greeting.md" jsonschema_description:"The resource to hydrate, for example os://agents/writer.md. A relative URI starts at the root."`
	Conditions map[string]string `json:"conditions,omitzero" jsonschema_description:"What holds for the caller, for example {\"platform\":\"web\"}. Skills under skills_if are included if each of their keys has its value here."`
	Flatten    bool              `json:"flatten,omitzero" jsonschema_description:"Also list what skills depend on, to the end; each skill and tool once. Default: false, and only what the resource itself names is listed."`
	Lazy       bool              `json:"lazy,omitzero" jsonschema_description:"Leave the text of the resource out, and return the metadata alone; ask again without this for the text. Default: false."`
	Checksums  bool              `json:"checksums,omitzero" jsonschema_description:"Add the checksum of each file that was read. Default: false."`
}

type hydrateOutput struct {
	Content    *string              `json:"content,omitzero" jsonschema_description:"The text of the resource after its front matter, exactly as it stands there. Left out if lazy is set."`
	ContentRef *message.BlobPointer `json:"contentRef,omitzero" jsonschema_description:"Where the text is, if it is too long for a message."`
	Size       int64                `json:"size,omitzero" jsonschema_description:"With contentRef: how many bytes it has."`
	MediaType  string               `json:"mediaType,omitzero" jsonschema_description:"With contentRef: what it is."`
	Metadata   metadata             `json:"metadata" jsonschema_description:"What is known of the resource. In place of a text that is not available: ERROR: and a code."`
}

type metadata struct {
	URI          string       `json:"uri" jsonschema_description:"The resource, absolute."`
	Dependencies dependencies `json:"dependencies" jsonschema_description:"The dependencies that the front matter names, each once, ordered by URI."`
	Checksum     string       `json:"checksum,omitzero" jsonschema_description:"sha256: and the hash of the file in hexadecimal digits, if checksums were asked for."`
	Note         string       `json:"note,omitzero" jsonschema_description:"What this caller is not shown, and why."`
}

type dependencies struct {
	Skills []skill `json:"skills" jsonschema_description:"Skills, with what they depend on as it is written there."`
	Tools  []tool  `json:"tools" jsonschema_description:"Tools, with their own descriptions."`
}

type skill struct {
	URI         string   `json:"uri" jsonschema_description:"The skill, absolute."`
	Name        string   `json:"name" jsonschema_description:"Its name."`
	Description string   `json:"description" jsonschema_description:"What it is for."`
	Skills      []string `json:"skills" jsonschema_description:"Skills that it names. Hydrate it to see more of them."`
	Tools       []string `json:"tools" jsonschema_description:"Tools that it names."`
	Checksum    string   `json:"checksum,omitzero" jsonschema_description:"The checksum of its file, if it was asked for."`
}

type tool struct {
	URI         string `json:"uri" jsonschema_description:"The tool, absolute; or the name of a syscall, which can be called; or a name that only the host of the agent knows."`
	Description string `json:"description" jsonschema_description:"What it prints for --description, or the first paragraph of its --help; the summary of a syscall."`
	Checksum    string `json:"checksum,omitzero" jsonschema_description:"The checksum of its file, if it was asked for and the file can be read."`
}

// A problem is what stands in a field of the output whose value could not be had. Those of
// the specification are spelled as it spells them.
type problem string

const (
	fetchFailed        problem = "ERROR: FETCH_FAILED"
	parseError         problem = "ERROR: PARSE_ERROR"
	missingName        problem = "ERROR: MISSING_NAME"
	missingDescription problem = "ERROR: MISSING_DESCRIPTION"
	unsupportedScheme  problem = "ERROR: UNSUPPORTED_SCHEME"

	timedOut         problem = "ERROR: TIMEOUT"
	permissionDenied problem = "ERROR: PERMISSION_DENIED"
	notFound         problem = "ERROR: NOT_FOUND"
	executionFailed  problem = "ERROR: EXECUTION_FAILED"
	noOutput         problem = "ERROR: NO_OUTPUT"
	executionSkipped problem = "ERROR: EXECUTION_SKIPPED"

	// The specification has no code for these: a script whose runtime is not installed, the
	// entry that stands for the dependencies left out after the first 1,000 by URI, and a skill of
	// which no version is the one that is wanted.
	noRuntime           problem = "ERROR: NO_RUNTIME"
	tooManyDependencies problem = "ERROR: TOO_MANY_DEPENDENCIES"
	noVersion           problem = "ERROR: NO_MATCHING_VERSION"
)

// foreign describes a tool that is found nowhere.
const foreign = "Not known to this kernel; the host that runs the agent may have it."

// unrun is the note for a caller for whom no tool is run.
const unrun = "The tools are not described: a tool is described by running it, and that is done for the owner only. The owner hydrates this over the unix socket of the daemon."

// reserve is what is kept of the time of a call to put the answer together.
const reserve = 2 * time.Second

var hydrate = kernel.DefineQuery[hydrateInput, hydrateOutput](kernel.Definition{
	Type:    "Content.Hydrate",
	Summary: "Read an agent or a skill, with the names and descriptions of the skills and tools that it depends on.",
	Presentation: kernel.Presentation{
		Title: "Read an agent or a skill",
		Words: "agent, skill, prompt, markdown, load a skill, what does this agent do, show a skill, open a skill, instructions of an agent, read a prompt, " +
			"which tools does an agent use, what a skill depends on, definition of an agent",
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "the resource doesn't exist"},
			{Code: 502, When: "the server of a mount fails, or no mount has the resource"},
		},
		Aliases: []message.Type{"FileSystem.Hydrate"},
	},
	Behavior:  kernel.Behavior{Runs: kernel.Slow, Timeout: hydrateTimeout},
	Journaled: kernel.Journaled{Answers: kernel.FromStore},
})

func (c *Content) hydrate(ctx context.Context, in hydrateInput) (hydrateOutput, error) {
	limited := ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		limited, cancel = context.WithDeadline(ctx, deadline.Add(-min(reserve, time.Until(deadline)/4)))
		defer cancel()
	}
	return c.compose(limited, in), ctx.Err()
}

// compose puts the reply for a URI together. There always is one: a part that could not be had, or
// not before ctx was done, is replaced by a note that explains it.
func (c *Content) compose(ctx context.Context, in hydrateInput) hydrateOutput {
	abs, problem := c.resolve(in.URI, "")
	if problem != "" {
		return in.output("", string(problem))
	}
	lookup := c.newLookup(ctx)
	file := lookup.versionOf(target{uri: abs})
	if file.problem != "" {
		return in.output("", string(file.problem))
	}
	d, err := c.load(ctx, file.uri, !in.Lazy)
	switch {
	case err != nil:
		return in.output("", string(fetchFailed))
	case d.err != nil:
		return in.output(d.text, string(parseError))
	}
	out := in.output(d.text, file.uri)
	if in.Checksums {
		out.Metadata.Checksum = checksum(d.sum)
	}
	h := hydrating{c: c, ctx: ctx, in: in, lookup: lookup, seen: make(map[string]bool)}
	for level := []*document{d}; len(level) > 0; {
		level = h.add(level)
		if !in.Flatten {
			break
		}
	}
	out.Metadata.Dependencies = h.dependencies()
	if h.unrun {
		out.Metadata.Note = unrun
	}
	return out
}

func (in *hydrateInput) output(content, uri string) hydrateOutput {
	out := hydrateOutput{Content: &content, Metadata: metadata{URI: uri}}
	if in.Lazy {
		out.Content = nil
	}
	return out
}

// inParallel calls f with the numbers from 0 to n-1, some at a time.
func inParallel(n int, f func(int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	var panicked atomic.Pointer[any]
	for range min(n, concurrent) {
		group.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					panicked.CompareAndSwap(nil, &p)
				}
			}()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	group.Wait()
	if p := panicked.Load(); p != nil {
		panic(*p) // on this goroutine the kernel catches it
	}
}
