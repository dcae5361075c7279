package content

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"

	"deps.dev/util/semver"

	"kernos/kernel"
	"kernos/message"
)

// Folders in which skills and tools are found by name: those beside a resource and beside
// each folder above it, the nearest first, and those at the root.
const (
	root        = "os://"
	skillFolder = "skills"
	toolFolder  = "tools"

	// maxCandidates is how many files of such a folder are looked at.
	maxCandidates = 20_000
)

// lookup finds what the dependencies of one call are. It is safe for concurrent use.
type lookup struct {
	c   *Content
	ctx context.Context

	mu    sync.Mutex
	known map[string]byName // names of each folder, by its URI
}

// byName has the files of a folder that can be found by name.
type byName map[string][]candidate

type candidate struct {
	uri     string
	version *semver.Version // the version in the path, or nil
}

func (c *Content) newLookup(ctx context.Context) *lookup {
	return &lookup{c: c, ctx: ctx, known: make(map[string]byName)}
}

// target is what a dependency is: a file, a syscall, a name of another host, or a problem.
type target struct {
	uri     string          // the URI of the file, or the name
	problem problem         // why a file can't be looked up
	syscall *kernel.Syscall // or nil
	foreign bool            // a tool of the agent's host: no file and no syscall has the name
	found   string          // the versions that exist, for noVersion
}

// find reports what a dependency is, which stands in a list of skills or in one of tools. What isn't there is a file that
// is missing, except for a tool that may be one of the agent's host.
func (l *lookup) find(d *dependency, folder string) target {
	file := target{uri: d.uri, problem: d.problem}
	if d.written == "" {
		if folder == skillFolder && d.problem == "" {
			return l.versionOf(file)
		}
		return file
	}
	if d.problem == "" && !isRemote(d.uri) && l.exists(d.uri) {
		return file
	}
	if folder == skillFolder {
		text, constraint := versioned(d.written)
		return l.choose(text, constraint, folders(d.base, folder), file)
	}
	if s := l.syscall(d.written); s != nil {
		return target{uri: string(s.Type), syscall: s}
	}
	for _, at := range folders(d.base, folder) {
		if files := l.list(at, folder)[d.written]; len(files) > 0 {
			return target{uri: files[0].uri}
		}
	}
	if isHostTool(d.written) {
		return target{uri: d.written, foreign: true}
	}
	return file
}

// versionOf returns the skill that a URI with a version means, such as os://skills/web-search@^2.0.0, unless a file has exactly
// this URI. The file may be named as well: web-search.md@^2.0.0, web-search/SKILL.md@^2.0.0.
func (l *lookup) versionOf(file target) target {
	name, constraint := versioned(path.Base(file.uri))
	if constraint == nil || isRemote(file.uri) || l.exists(file.uri) {
		return file
	}
	folder := folderOf(file.uri)
	if isSkillFile(name) {
		name, folder = path.Base(folder), folderOf(folder)
	} else if ext := path.Ext(name); strings.EqualFold(ext, ".md") {
		name = strings.TrimSuffix(name, ext)
	}
	return l.choose(name, constraint, []string{folder}, file)
}

// exists reports whether there is a file that the caller may read.
func (l *lookup) exists(uri string) bool {
	_, err := l.c.files.Version(l.ctx, uri)
	return err == nil
}

// syscall returns the syscall of a name, as it is written in messages (Memory.Get), in JSON-RPC
// (memory_get) or in MCP (Memory_Get), if the caller may call it.
func (l *lookup) syscall(name string) *kernel.Syscall {
	r := l.c.registry
	if r == nil {
		return nil
	}
	s, ok := r.Lookup(message.Type(name))
	if !ok {
		s, ok = r.Lookup(message.Type(strings.Replace(name, "_", ".", 1)))
	}
	if !ok {
		route, known := r.LookupMethod(name)
		if !known {
			return nil
		}
		s = route.Syscall
	}
	if s.Visibility == kernel.Hidden || kernel.PrincipalOf(l.ctx).May(s.Target()) != nil {
		return nil
	}
	return s
}

// versioned takes a name such as web-search@^2.0.0 apart. The constraint is nil if the name
// has none.
func versioned(text string) (name string, c *semver.Constraint) {
	at := strings.LastIndexByte(text, '@')
	if at <= 0 || at == len(text)-1 {
		return text, nil
	}
	c, err := semver.NPM.ParseConstraint(strings.ReplaceAll(text[at+1:], ",", " ")) // >=1.2, <2 is >=1.2 <2
	if err != nil {
		return text, nil
	}
	return text[:at], c
}

// choose returns the skill of a name whose version is the highest that a constraint allows, in
// the first of some folders that has one. Without a constraint any will do, the highest first,
// and those without a version before all. If no skill has the name, it is the target that is
// given.
func (l *lookup) choose(name string, c *semver.Constraint, folders []string, otherwise target) target {
	var others []string
	for _, folder := range folders {
		var best *candidate
		for _, s := range l.list(folder, skillFolder)[name] {
			if c != nil {
				if s.version == nil {
					s.version = l.declared(s.uri)
				}
				if s.version == nil || !c.MatchVersion(s.version) {
					others = append(others, shownVersion(s.version))
					continue
				}
			}
			if best == nil || s.newer(best) {
				best = &s
			}
		}
		if best != nil {
			return target{uri: best.uri}
		}
	}
	if others == nil {
		return otherwise
	}
	slices.Sort(others)
	return target{uri: otherwise.uri, problem: noVersion, found: strings.Join(slices.Compact(others), ", ")}
}

func shownVersion(v *semver.Version) string {
	if v == nil {
		return "one without a version"
	}
	return v.Canon(true)
}

// newer reports whether a skill comes before another one of its name.
func (s *candidate) newer(than *candidate) bool {
	switch {
	case s.version == nil || than.version == nil:
		return s.version == nil && than.version != nil
	case s.version.Compare(than.version) == 0:
		return s.uri < than.uri
	}
	return s.version.Compare(than.version) > 0
}

// declared returns the version that the front matter of a skill has.
func (l *lookup) declared(uri string) *semver.Version {
	d, err := l.c.load(l.ctx, uri, false)
	if err != nil || d.err != nil {
		return nil
	}
	return parseVersion(d.front.version)
}

// parseVersion returns a version such as 1.2.0, v1.2 or 1, or nil: 1.x is a range.
func parseVersion(text string) *semver.Version {
	v, err := semver.NPM.Parse(text)
	if err != nil || v.IsWildcard() {
		return nil
	}
	return v
}

// folderOf returns the folder that a file is in.
func folderOf(uri string) string {
	if folder := uri[:max(0, strings.LastIndexByte(uri, '/'))]; len(folder) > len(root) {
		return folder
	}
	return root
}

// folders lists where a resource finds skills or tools by name.
func folders(base, folder string) (list []string) {
	if rest, ok := strings.CutPrefix(base, root); ok {
		for at := path.Dir(rest); at != "." && at != "/"; at = path.Dir(at) {
			list = append(list, root+at+"/"+folder)
		}
	}
	return append(list, root+folder)
}

// list returns what a folder has, by name. What can't be listed has nothing.
func (l *lookup) list(folder, kind string) byName {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, ok := l.known[folder]; ok {
		return s
	}
	s, n := make(byName), 0
	for e, err := range l.c.files.Walk(l.ctx, folder) {
		if n++; n > maxCandidates || l.ctx.Err() != nil {
			break
		}
		if err != nil {
			continue
		}
		if name, version, ok := nameOf(strings.TrimPrefix(strings.TrimPrefix(e.URI, folder), "/"), kind); ok {
			s[name] = append(s[name], candidate{e.URI, version})
		}
	}
	for _, files := range s {
		slices.SortFunc(files, func(a, b candidate) int { return strings.Compare(a.uri, b.uri) })
	}
	l.known[folder] = s
	return s
}

// nameOf returns the name by which a file of a folder is found. A tool lies in the folder
// itself: deploy.sh is deploy. A skill is pdf.md or pdf/SKILL.md, and has its version in its
// path where there are several: pdf@1.2.0.md, pdf@1.2.0/SKILL.md, pdf/1.2.0/SKILL.md.
func nameOf(file, kind string) (name string, v *semver.Version, ok bool) {
	folder, base := path.Split(file)
	folder = strings.TrimSuffix(folder, "/")
	ext := path.Ext(base)
	if kind == toolFolder {
		return strings.TrimSuffix(base, ext), nil, folder == "" && base != ext
	}
	switch {
	case folder == "" && strings.EqualFold(ext, ".md"):
		name = strings.TrimSuffix(base, ext)
	case folder != "" && isSkillFile(base):
		parent, last := path.Split(folder)
		name, v = skillName(path.Base(parent), last)
		return name, v, true
	default:
		return "", nil, false
	}
	name, v = skillName(".", name)
	return name, v, true
}

// skillName returns the name of a skill and its version, or nil, by its folder and the folder
// around that: pdf and 1.2.0, or pdf@1.2.0, or pdf.
func skillName(parent, folder string) (name string, v *semver.Version) {
	if v := parseVersion(folder); v != nil && v.Canon(true) == folder && parent != "." {
		return parent, v
	}
	if at := strings.LastIndexByte(folder, '@'); at > 0 {
		if v := parseVersion(folder[at+1:]); v != nil {
			return folder[:at], v
		}
	}
	return folder, nil
}
