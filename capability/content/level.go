package content

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync/atomic"

	"kernos/kernel"
)

// hydrating is one call of Content.Hydrate. It looks up what documents name, level by level:
// first what the resource names, then what those skills name, and so on. What was seen is not
// looked up again, so it ends where skills name each other in a circle.
type hydrating struct {
	c      *Content
	ctx    context.Context
	in     hydrateInput
	lookup *lookup

	seen   map[string]bool // folders and URIs
	skills []skill
	tools  []tool
	unrun  bool // tools were left alone
}

// A lead is a dependency that is followed.
type lead struct {
	*dependency
	folder string // skillFolder or toolFolder
	owned  bool   // the document that names it is the owner's

	target target
	skill  skill
	tool   tool
	next   *document // the document of a skill that was read
}

// add looks up what some documents name, and returns the skills among it.
func (h *hydrating) add(level []*document) (next []*document) {
	var leads []lead
	for _, d := range level {
		owned := len(d.tools) > 0 && h.c.files.Owned(d.uri)
		for i := range d.skills {
			leads = append(leads, lead{dependency: &d.skills[i], folder: skillFolder})
		}
		for _, o := range d.optional {
			if o.holds(h.in.Conditions) {
				for i := range o.skills {
					leads = append(leads, lead{dependency: &o.skills[i], folder: skillFolder})
				}
			}
		}
		for i := range d.tools {
			leads = append(leads, lead{dependency: &d.tools[i], folder: toolFolder, owned: owned})
		}
	}
	inParallel(len(leads), func(i int) { leads[i].target = h.lookup.find(leads[i].dependency, leads[i].folder) })
	leads = h.unseen(leads)
	var unrun atomic.Bool
	inParallel(len(leads), func(i int) {
		l := &leads[i]
		if l.folder == skillFolder {
			l.skill, l.next = h.skill(&l.target)
			return
		}
		l.tool = h.tool(&l.target, l.owned)
		if l.target.isFile() && !kernel.PrincipalOf(h.ctx).RunsTools() {
			unrun.Store(true)
		}
	})
	for i := range leads {
		l := &leads[i]
		if l.folder == toolFolder {
			h.tools = append(h.tools, l.tool)
			continue
		}
		h.skills = append(h.skills, l.skill)
		if l.next != nil {
			next = append(next, l.next)
		}
	}
	h.unrun = h.unrun || unrun.Load()
	return next
}

// unseen returns the dependencies that were not looked up before, in the order of their URIs
// and each once; of too many, the first.
func (h *hydrating) unseen(leads []lead) []lead {
	slices.SortStableFunc(leads, func(a, b lead) int { return strings.Compare(a.target.uri, b.target.uri) })
	leads = slices.DeleteFunc(leads, func(l lead) bool {
		key := l.folder + " " + l.target.uri
		was := h.seen[key]
		h.seen[key] = true
		return was
	})
	// A document has its own limit. This one is for what several have together.
	if room := max(0, maxDependencies+2-len(h.skills)-len(h.tools)); len(leads) > room {
		leads = leads[:room]
		if key := skillFolder + " " + string(tooManyDependencies); !h.seen[key] {
			h.seen[key] = true
			leads = append(leads, lead{folder: skillFolder, target: target{uri: string(tooManyDependencies), problem: tooManyDependencies}})
		}
	}
	return leads
}

// dependencies returns what was found, in the order of the URIs.
func (h *hydrating) dependencies() dependencies {
	found := dependencies{Skills: h.skills, Tools: h.tools}
	slices.SortStableFunc(found.Skills, func(a, b skill) int { return strings.Compare(a.URI, b.URI) })
	slices.SortStableFunc(found.Tools, func(a, b tool) int { return strings.Compare(a.URI, b.URI) })
	return found
}

// skill looks a skill up.
func (h *hydrating) skill(t *target) (skill, *document) {
	p := t.problem
	if p == "" {
		d, err := h.c.load(h.ctx, t.uri, false)
		switch {
		case err != nil:
			p = fetchFailed
		case d.err != nil:
			p = parseError
		default:
			s := skill{
				URI: t.uri, Name: cmp.Or(d.name, string(missingName)), Description: cmp.Or(d.description, string(missingDescription)),
				Skills: d.front.skills, Tools: d.front.tools,
			}
			if h.in.Checksums {
				s.Checksum = checksum(d.sum)
			}
			return s, d
		}
	}
	return skill{URI: t.uri, Name: string(p), Description: string(p)}, nil
}

// tool looks a tool up. It is executed only if a document of the owner names it: others could have a program run that isn't
// meant to be a tool.
func (h *hydrating) tool(t *target, owned bool) tool {
	switch {
	case t.foreign:
		return tool{URI: t.uri, Description: foreign}
	case t.syscall != nil:
		return tool{URI: t.uri, Description: t.syscall.Summary}
	}
	description, p := "", t.problem
	switch {
	case p != "":
	case !owned && t.isFile():
		p = executionSkipped
	default:
		description, p = h.c.description(h.ctx, t.uri)
	}
	found := tool{URI: t.uri, Description: cmp.Or(string(p), description)}
	if h.in.Checksums && t.problem == "" {
		if f, _, err := h.c.read(h.ctx, t.uri, ""); err == nil {
			found.Checksum = checksum(sha256.Sum256(f.Data))
		}
	}
	return found
}

func (t *target) isFile() bool { return !t.foreign && t.syscall == nil }

func checksum(sum [sha256.Size]byte) string { return "sha256:" + hex.EncodeToString(sum[:]) }
