package mcp

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"kernos/internal/jsonscan"
	"kernos/internal/mcp"
	"kernos/message"
	"kernos/transport/mcp/jsonrpc"
)

// skillFile is the file that makes a folder a skill.
const skillFile = "SKILL.md"

// A skill is one that skills/list names.
type skill struct {
	URI         string          `json:"uri"`
	Frontmatter json.RawMessage `json:"frontmatter"`
	Resources   []skillResource `json:"resources"`

	folder string // folder in the tree
	name   string
}

type skillResource struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
	Size   int    `json:"size"`
}

var skillName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`) })

// skillFolders returns the skills that the caller may read and that have a good name, which is that of
// their folder, the first of each name.
func (x *exchange) skillFolders() (all []skill, err error) {
	entries, err := x.indexContent()
	for _, e := range entries {
		folder, file := path.Split(e.URI)
		folder = strings.TrimSuffix(folder, "/")
		name := path.Base(folder)
		if e.Kind != "skill" || file != skillFile || e.Name != name || e.Description == "" || !skillName().MatchString(name) || len(name) > 64 ||
			slices.ContainsFunc(all, func(s skill) bool { return s.name == name }) {
			continue
		}
		all = append(all, skill{URI: skillScheme + name + "/" + skillFile, folder: folder, name: name})
	}
	return all, err
}

// maxSkillFiles is how many files of a skill are listed.
const maxSkillFiles = 512

// read fills in what a skill reports about itself, and its files.
func (s *skill) read(x *exchange) error {
	text, _, err := x.readTree(s.folder + "/" + skillFile)
	if err != nil {
		return err
	}
	if s.Frontmatter, err = mcp.Frontmatter(text); err != nil {
		return message.Errorf(422, "%s can't be served: %v", s.URI, err)
	}
	files, err := list[entry](x, "VFS.List", map[string]any{"uri": s.folder, "recursive": true, "limit": maxSkillFiles})
	if err != nil {
		return err
	}
	for _, f := range files.Entries {
		if f.Kind != "file" {
			continue
		}
		data, _, err := x.readTree(f.URI)
		if err != nil {
			return err
		}
		s.Resources = append(s.Resources, skillResource{s.clientURI(f.URI), mcp.Digest(data), len(data)})
	}
	return nil
}

// clientURI returns the URI that a file of the skill's folder has for clients.
func (s *skill) clientURI(uri string) string {
	return skillScheme + s.name + strings.TrimPrefix(uri, s.folder)
}

// listSkills answers skills/list.
func listSkills(x *exchange) {
	all, err := x.skillFolders()
	found := []skill{}
	for i := range all {
		if all[i].read(x) == nil { // a skill that can't be read isn't served
			found = append(found, all[i])
		}
	}
	if err != nil {
		x.fail(x.failedCall(err))
		return
	}
	x.respondFor(soon, membersOf(map[string][]skill{"skills": found}))
}

// getSkill answers skills/get.
func getSkill(x *exchange) {
	uri := jsonscan.Unquote(jsonscan.Member(x.Params, "uri"))
	all, err := x.skillFolders()
	i := slices.IndexFunc(all, func(s skill) bool { return s.URI == uri })
	if err == nil && i >= 0 {
		err = all[i].read(x)
	}
	switch {
	case err != nil:
		x.fail(x.failedCall(err))
	case i < 0:
		x.fail(&jsonrpc.Failure{Code: mcp.InvalidParams, Text: "Unknown skill", Data: aboutURI(uri)})
	default:
		x.respondFor(soon, membersOf(map[string]skill{"skill": all[i]}))
	}
}

// inTree returns where a resource of a skill is in the tree, or "".
func (x *exchange) inTree(uri string) (string, error) {
	all, err := x.skillFolders()
	name, rest, _ := strings.Cut(strings.TrimPrefix(uri, skillScheme), "/")
	for _, s := range all {
		if s.name == name && !strings.Contains("/"+rest+"/", "/../") {
			return strings.TrimSuffix(s.folder+"/"+rest, "/"), nil
		}
	}
	return "", err
}

func readSkillFile(x *exchange, uri string) ([]contents, error) {
	inside, err := x.inTree(uri)
	if err != nil {
		return nil, err
	}
	if inside == "" {
		return nil, message.Errorf(404, "Resource not found")
	}
	data, mediaType, err := x.readTree(inside)
	if err != nil {
		return nil, err
	}
	if of := mediaTypeOf(uri); of != "" {
		mediaType = of
	}
	return []contents{dataContents(uri, mediaType, data)}, nil
}

// listSkillFiles lists the file of each skill that describes it; the others are in skills/list.
func listSkillFiles(x *exchange, _ string) (some []resource, next string, err error) {
	entries, err := x.indexContent()
	folders, _ := x.skillFolders()
	for _, s := range folders {
		i := slices.IndexFunc(entries, func(e indexed) bool { return e.URI == s.folder+"/"+skillFile })
		if i >= 0 {
			some = append(some, resource{URI: s.URI, Name: s.name, Description: entries[i].Description, MimeType: markdown})
		}
	}
	return some, "", err
}

// directory is the media type of folders.
const directory = "inode/directory"

// readDirectory answers resources/directory/read: what is in a folder of a skill.
func readDirectory(x *exchange) {
	uri := strings.TrimSuffix(jsonscan.Unquote(jsonscan.Member(x.Params, "uri")), "/")
	inside, err := x.inTree(uri)
	var files listing[entry]
	if err == nil && inside != "" {
		files, err = list[entry](x, "VFS.List", map[string]any{"uri": inside, "limit": maxSkillFiles})
	}
	if err != nil || inside == "" {
		x.fail(&jsonrpc.Failure{Code: mcp.InvalidParams, Text: "The URI isn't that of a folder", Data: aboutURI(uri)})
		return
	}
	all := []resource{}
	for _, f := range files.Entries {
		r := resource{URI: uri + "/" + f.Name, Name: f.Name, MimeType: mediaTypeOf(f.Name), Size: f.Size}
		if f.Kind == "directory" {
			r.MimeType = directory
		}
		all = append(all, r)
	}
	x.respondFor(soon, membersOf(map[string][]resource{"resources": all}))
}
