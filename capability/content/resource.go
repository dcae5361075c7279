package content

import (
	"slices"
	"strings"
)

// resource is what is kept of a resource.
type resource struct {
	content       string
	problem       problem // why there is nothing but the content, or ""
	skills, tools []dependency
}

// A dependency is something that a resource names. If it can't be looked up its URI is what
// is written there.
type dependency struct {
	uri     string
	problem problem
}

func (c *Content) newResource(uri string, data []byte) (*resource, int) {
	f, body, err := parse(data)
	if err != nil {
		// All of the text, since it is not known where the front matter ends.
		text := strings.ToValidUTF8(string(data), "\uFFFD")
		return &resource{content: text, problem: parseError}, len(text)
	}
	r := &resource{content: string(body)}
	r.skills = c.dependencies(uri, f.skills, MaxDependencies)
	r.tools = c.dependencies(uri, f.tools, MaxDependencies-min(len(f.skills), MaxDependencies))
	size := len(r.content)
	for _, list := range [][]dependency{r.skills, r.tools} {
		for _, d := range list {
			size += len(d.uri) + 32
		}
	}
	return r, size
}

// dependencies resolves the URIs of a list, and returns them sorted and each once. Of more
// than a limit, those that come first by their URIs are taken, so that the order in which
// they are written does not matter; and an entry of its own says so.
func (c *Content) dependencies(base string, declared []string, limit int) []dependency {
	list := make([]dependency, 0, len(declared))
	for _, uri := range declared {
		abs, problem := c.resolve(uri, base)
		list = append(list, dependency{abs, problem})
	}
	sortDependencies(list)
	if len(list) > limit {
		list = append(list[:limit], dependency{string(tooManyDependencies), tooManyDependencies})
		sortDependencies(list)
	}
	return slices.CompactFunc(list, func(a, b dependency) bool { return a.uri == b.uri })
}

func sortDependencies(list []dependency) {
	slices.SortFunc(list, func(a, b dependency) int { return strings.Compare(a.uri, b.uri) })
}
