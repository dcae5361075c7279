package content

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"kernos/kernel"
	"kernos/message"
)

type hydrateInput struct {
	URI string `json:"uri" jsonschema:"minLength=1,example=os://greeting.md" jsonschema_description:"The resource to hydrate, for example os://agents/writer.md. A relative URI starts at the root."`
}

type hydrateOutput struct {
	Content    *string              `json:"content,omitzero" jsonschema_description:"The text of the resource after its front matter, exactly as it stands there."`
	ContentRef *message.BlobPointer `json:"contentRef,omitzero" jsonschema_description:"Where the text is, if it is too long for a message."`
	Size       int64                `json:"size,omitzero" jsonschema_description:"With contentRef: how many bytes it has."`
	MediaType  string               `json:"mediaType,omitzero" jsonschema_description:"With contentRef: what it is."`
	Metadata   metadata             `json:"metadata" jsonschema_description:"What is known of the resource. In place of a text that is not available: ERROR: and a code."`
}

type metadata struct {
	URI          string       `json:"uri" jsonschema_description:"The resource, absolute."`
	Dependencies dependencies `json:"dependencies" jsonschema_description:"The dependencies that the front matter names, each once, ordered by URI."`
	Note         string       `json:"note,omitzero" jsonschema_description:"What this caller is not shown, and why."`
}

type dependencies struct {
	Skills []skill `json:"skills" jsonschema_description:"Skills, with what they depend on as it is written there."`
	Tools  []tool  `json:"tools" jsonschema_description:"Tools, with what they say of themselves."`
}

type skill struct {
	URI         string   `json:"uri" jsonschema_description:"The skill, absolute."`
	Name        string   `json:"name" jsonschema_description:"Its name."`
	Description string   `json:"description" jsonschema_description:"What it is for."`
	Skills      []string `json:"skills" jsonschema_description:"Skills that it names. Hydrate it to see more of them."`
	Tools       []string `json:"tools" jsonschema_description:"Tools that it names."`
}

type tool struct {
	URI         string `json:"uri" jsonschema_description:"The tool, absolute."`
	Description string `json:"description" jsonschema_description:"What it prints for --description, or the first paragraph of its --help."`
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

	// The specification has no code for these two: a script whose runtime is not
	// installed, and a list that was cut.
	noRuntime           problem = "ERROR: NO_RUNTIME"
	tooManyDependencies problem = "ERROR: TOO_MANY_DEPENDENCIES"
)

// unrun is the note for a caller for whom no tool is run.
const unrun = "The tools are not described: a tool is described by running it, and that is done for the owner only. The owner hydrates this over the unix socket of the daemon."

// reserve is what is kept of the time of a call to put the answer together.
const reserve = 2 * time.Second

var hydrate = kernel.DefineQuery[hydrateInput, hydrateOutput](kernel.Definition{
	Type:    "Content.Hydrate",
	Summary: "Read an agent or a skill, with the names and descriptions of the skills and tools that it depends on.",
	Aliases: []message.Type{"FileSystem.Hydrate"},
	Runs:    kernel.Slow,
	Answers: kernel.FromStore,
	Timeout: hydrateTimeout,
})

func (c *Content) hydrate(ctx context.Context, in hydrateInput) (hydrateOutput, error) {
	limited := ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		limited, cancel = context.WithDeadline(ctx, deadline.Add(-min(reserve, time.Until(deadline)/4)))
		defer cancel()
	}
	return c.compose(limited, in.URI), ctx.Err()
}

// compose puts the reply for a URI together. There always is one: what could not be had, or
// not before ctx was done, says so in its place.
func (c *Content) compose(ctx context.Context, uri string) hydrateOutput {
	abs, problem := c.resolve(uri, "")
	if problem != "" {
		return newOutput("", string(problem))
	}
	d, err := c.load(ctx, abs, true)
	switch {
	case err != nil:
		return newOutput("", string(fetchFailed))
	case d.err != nil:
		return newOutput(d.text, string(parseError))
	}
	out := newOutput(d.text, abs)
	found := &out.Metadata.Dependencies
	found.Skills, found.Tools = make([]skill, len(d.skills)), make([]tool, len(d.tools))
	if len(d.tools) > 0 && !kernel.PrincipalOf(ctx).RunsTools() {
		out.Metadata.Note = unrun
	}
	inParallel(len(d.skills)+len(d.tools), func(i int) {
		if i < len(d.skills) {
			found.Skills[i] = c.skill(ctx, &d.skills[i])
		} else {
			i -= len(d.skills)
			found.Tools[i] = c.tool(ctx, &d.tools[i])
		}
	})
	return out
}

// skill looks a skill up.
func (c *Content) skill(ctx context.Context, named *dependency) skill {
	p := named.problem
	if p == "" {
		d, err := c.load(ctx, named.uri, false)
		switch {
		case err != nil:
			p = fetchFailed
		case d.err != nil:
			p = parseError
		default:
			return skill{
				URI: named.uri, Name: cmp.Or(d.name, string(missingName)), Description: cmp.Or(d.description, string(missingDescription)),
				Skills: d.front.skills, Tools: d.front.tools,
			}
		}
	}
	return skill{URI: named.uri, Name: string(p), Description: string(p)}
}

func newOutput(content, uri string) hydrateOutput {
	return hydrateOutput{Content: &content, Metadata: metadata{URI: uri}}
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
		panic(*p) // where the kernel catches it
	}
}
