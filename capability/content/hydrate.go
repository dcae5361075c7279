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
	URI string `json:"uri" jsonschema:"minLength=1,example=os://greeting.md" jsonschema_description:"The resource to hydrate, for example os://agents/writer.md. A relative URI starts at the root."`
}

type hydrateOutput struct {
	Content    *string              `json:"content,omitzero" jsonschema_description:"The text of the resource after its front matter, exactly as it stands there."`
	ContentRef *message.BlobPointer `json:"contentRef,omitzero" jsonschema_description:"Where the text is, if it is too long for a message."`
	Metadata   metadata             `json:"metadata" jsonschema_description:"What is known of the resource. In place of a text that is not available: ERROR: and a code."`
}

type metadata struct {
	URI          string       `json:"uri" jsonschema_description:"The resource, absolute."`
	Dependencies dependencies `json:"dependencies" jsonschema_description:"The dependencies that the front matter names, each once, ordered by URI."`
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
	r, err := load(ctx, c, c.resources, abs, c.newResource)
	if err != nil {
		return newOutput("", string(fetchFailed))
	}
	if r.problem != "" {
		return newOutput(r.content, string(r.problem))
	}
	out := newOutput(r.content, abs)
	found := &out.Metadata.Dependencies
	found.Skills, found.Tools = make([]skill, len(r.skills)), make([]tool, len(r.tools))
	inParallel(len(r.skills)+len(r.tools), func(i int) {
		if i < len(r.skills) {
			found.Skills[i] = c.skill(ctx, &r.skills[i])
		} else {
			i -= len(r.skills)
			found.Tools[i] = c.tool(ctx, &r.tools[i])
		}
	})
	return out
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
