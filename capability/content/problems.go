package content

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"kernos/message"
)

const (
	kindSkill = "skill"
	kindAgent = "agent"
)

// isSkillFile reports whether a name is that of the file of an Agent Skill.
func isSkillFile(name string) bool { return strings.EqualFold(name, "SKILL.md") }

// kindOf reports what a file is: by its name, by what it reports about itself, by the folder that it
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

// problemsOf lists what is wrong with a document by itself.
func problemsOf(e *indexEntry, d *document) []string {
	list := []string{}
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	folder, file := path.Split(e.URI)
	f, isSkill := &d.front, e.Kind == kindSkill
	if d.err != nil {
		add("PARSE_ERROR: %s", message.Clip(d.err.Error(), 300))
		return list
	}
	switch {
	case !f.present:
		add("NO_FRONT_MATTER: begin the file with a name and a description between two lines of three dashes")
	case f.name == "" && isSkill:
		add("MISSING_NAME: add a name to the front matter")
	}
	if f.present && f.description == "" && isSkill {
		add("MISSING_DESCRIPTION: add a description to the front matter that says what it is for and when to use it")
	}
	if f.repaired {
		add("MALFORMED_YAML: other programs may not read it; put texts with colons or special signs into quotes, and indent with blanks")
	}
	for _, field := range f.duplicate {
		add("DUPLICATE_FIELD: %s is there more than once, and the last one counts; remove the others", message.Clip(field, 60))
	}
	if f.unclear {
		add("INVALID_CONDITION: skills_if is {key: value, skills: [uri]}, or a list of these")
	}
	if n := utf8.RuneCountInString(f.description); n > maxDescription && isSkill {
		add("DESCRIPTION_TOO_LONG: it has %d characters, and %d are allowed", n, maxDescription)
	}
	if n := len(f.skills) + len(f.tools); n > maxDependencies {
		add("TOO_MANY_DEPENDENCIES: %d are named, and %d are looked up", n, maxDependencies)
	}
	if isSkillFile(file) {
		if f.name != "" && (len(f.name) > maxSkillName || !skillForm().MatchString(f.name)) {
			add("INVALID_NAME: a skill is named with at most %d small letters, digits and single hyphens between them", maxSkillName)
		}
		if base, _ := skillName(path.Base(path.Dir(path.Clean(folder))), path.Base(folder)); f.name != "" && f.name != base {
			add("NAME_DIFFERS: the skill is named %q and its folder %q; give them one name", message.Clip(f.name, 80), message.Clip(base, 80))
		}
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

// skillForm matches names of small letters, digits and single hyphens between them.
var skillForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`) })

// missing lists the dependencies of a document that are not there. Tools that the agent's host may have are
// not missing.
func (x *indexing) missing(d *document) (list []string) {
	check := func(named []dependency, folder string) {
		for i := range named {
			if said := x.missed(&named[i], folder); said != "" {
				list = append(list, said)
			}
		}
	}
	check(d.skills, skillFolder)
	for _, o := range d.optional {
		check(o.skills, skillFolder)
	}
	check(d.tools, toolFolder)
	return list
}

func (x *indexing) missed(named *dependency, folder string) string {
	if x.there[named.uri] {
		return ""
	}
	t := x.lookup.find(named, folder)
	shown := message.Clip(t.uri, 200)
	switch {
	case t.problem == tooManyDependencies: // reported before
	case t.problem == noVersion:
		return "NO_MATCHING_VERSION: " + shown + " is named, and there is " + message.Clip(t.found, 200)
	case t.problem == unsupportedScheme:
		return "UNSUPPORTED_SCHEME: " + shown + " is neither os:// nor https://"
	case t.problem != "":
		return "INVALID_URI: " + shown + " can't be resolved"
	case t.isFile() && !isRemote(t.uri) && !x.there[t.uri] && !x.lookup.exists(t.uri):
		return "MISSING_DEPENDENCY: " + shown + " is named, and can't be read"
	}
	return ""
}
