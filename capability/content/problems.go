package content

import (
	"context"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"kernos/message"
)

// summary is what is kept of a file for the index.
type summary struct {
	kind              string // "" if it is neither a skill nor an agent
	name, description string
	problems          []string // that the file has by itself
	skills, tools     []dependency
}

// summary returns what there is to say of a file that a walk has found.
func (c *Content) summary(ctx context.Context, e *Entry) (*summary, error) {
	// The walk has just said which version it has.
	if old, ok := c.summaries.Get(e.URI); ok && old.version == e.Version && old.version != "" {
		return old.value, nil
	}
	return load(ctx, c, c.summaries, e.URI, c.newSummary)
}

func (c *Content) newSummary(uri string, data []byte) (*summary, int) {
	f, _, err := parse(data)
	if err != nil {
		f = front{present: true}
	}
	s := &summary{kind: kindOf(uri, &f), name: f.name, description: f.description}
	switch {
	case s.kind == "":
		return s, 0
	case err != nil:
		s.problems = []string{"PARSE_ERROR: " + message.Clip(err.Error(), 300)}
	default:
		s.problems = problemsOf(uri, &f)
		s.skills = c.dependencies(uri, f.skills, MaxDependencies)
		s.tools = c.dependencies(uri, f.tools, MaxDependencies-min(len(f.skills), MaxDependencies))
	}
	size := len(s.name) + len(s.description)
	for _, p := range s.problems {
		size += len(p) + 16
	}
	for _, list := range [][]dependency{s.skills, s.tools} {
		for _, d := range list {
			size += len(d.uri) + 32
		}
	}
	return s, size
}

const (
	kindSkill = "skill"
	kindAgent = "agent"
)

// isSkillFile reports whether a name is that of the file of an Agent Skill.
func isSkillFile(name string) bool { return strings.EqualFold(name, "SKILL.md") }

// kindOf says what a file is: by its name, by what it says of itself, by the folder that it
// is in, and last by what its front matter has.
func kindOf(uri string, f *front) string {
	folder, name := path.Split(uri)
	lower := strings.ToLower(name)
	switch {
	case lower == "skill.md", strings.EqualFold(f.kind, kindSkill):
		return kindSkill
	case strings.HasSuffix(lower, ".agent.md"), lower == "agent.md", strings.EqualFold(f.kind, kindAgent):
		return kindAgent
	}
	if lower == "readme.md" {
		return ""
	}
	folders := strings.Split(strings.ToLower(strings.Trim(folder, "/")), "/")
	for i := len(folders) - 1; i >= 0; i-- {
		// Without front matter, only what is right there was put there as one.
		if direct := i == len(folders)-1; !f.present && !direct {
			return ""
		}
		switch folders[i] {
		case "skills":
			return kindSkill
		case "agents":
			return kindAgent
		}
	}
	switch {
	case f.name != "" && f.description != "":
		return kindSkill
	case len(f.skills)+len(f.tools) > 0:
		return kindAgent
	}
	return ""
}

// problemsOf lists what is wrong with front matter that could be read.
func problemsOf(uri string, f *front) []string {
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	folder, file := path.Split(uri)
	isSkill := kindOf(uri, f) == kindSkill
	switch {
	case !f.present:
		add("NO_FRONT_MATTER: begin the file with a name and a description between two lines of three dashes")
	case f.name == "" && isSkill:
		add("MISSING_NAME: add a name to the front matter")
	}
	if f.present && f.description == "" && isSkill {
		add("MISSING_DESCRIPTION: add a description to the front matter that says what it is for and when to use it")
	}
	if f.mended {
		add("MALFORMED_YAML: other programs may not read it; put texts with colons or special signs into quotes, and indent with blanks")
	}
	for _, field := range f.duplicate {
		add("DUPLICATE_FIELD: %s is there more than once, and the last one counts; remove the others", message.Clip(field, 60))
	}
	if n := utf8.RuneCountInString(f.description); n > MaxDescription {
		add("DESCRIPTION_TOO_LONG: it has %d characters, and %d are allowed", n, MaxDescription)
	}
	if n := len(f.skills) + len(f.tools); n > MaxDependencies {
		add("TOO_MANY_DEPENDENCIES: %d are named, and %d are looked up", n, MaxDependencies)
	}
	if isSkillFile(file) {
		list = append(list, nameProblems(f.name, path.Base(folder))...)
		if n := utf8.RuneCountInString(f.compatibility); n > maxCompatibility {
			add("COMPATIBILITY_TOO_LONG: it has %d characters, and %d are allowed", n, maxCompatibility)
		}
	}
	return list
}

// What Agent Skills allows.
const (
	maxSkillName     = 64
	maxCompatibility = 500
)

// nameProblems lists what is wrong with the name of an Agent Skill.
func nameProblems(name, folder string) []string {
	if name == "" {
		return nil // said before
	}
	var list []string
	if len(name) > maxSkillName || !isSkillName(name) {
		list = append(list, fmt.Sprintf("INVALID_NAME: a skill is named with at most %d small letters, digits and single hyphens between them", maxSkillName))
	}
	if name != folder {
		list = append(list, fmt.Sprintf("NAME_DIFFERS: the skill is named %q and its folder %q; give them one name", message.Clip(name, 80), message.Clip(folder, 80)))
	}
	return list
}

func isSkillName(name string) bool {
	last := '-'
	for _, r := range name {
		if r != '-' && (r < 'a' || r > 'z') && (r < '0' || r > '9') || r == '-' && last == '-' {
			return false
		}
		last = r
	}
	return last != '-'
}

// missing lists the dependencies of a file that are not there.
func (x *indexing) missing(uri string, s *summary) []string {
	var list []string
	for _, d := range append(append([]dependency{}, s.skills...), s.tools...) {
		shown := message.Clip(d.uri, 200)
		switch {
		case d.problem == tooManyDependencies: // said before
		case d.problem == unsupportedScheme:
			list = append(list, "UNSUPPORTED_SCHEME: "+shown+" is neither os:// nor https://")
		case d.problem != "":
			list = append(list, "INVALID_URI: "+shown+" can't be resolved")
		case x.there[d.uri], isRemote(d.uri):
		default:
			if _, err := x.c.files.Version(x.ctx, d.uri); err != nil {
				list = append(list, "MISSING_DEPENDENCY: "+shown+" is named, and can't be read")
			}
		}
	}
	return list
}
