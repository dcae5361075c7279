package content

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxFrontMatter is how many bytes front matter may have.
const maxFrontMatter = 256 << 10

// front is parsed front matter.
type front struct {
	present     bool // the file has front matter
	name        string
	description string
	skills      []string // as they are written
	tools       []string // likewise
	conditional []conditional
	version     string

	kind          string // the field type
	compatibility string

	repaired  bool     // the text was not valid YAML, and was repaired
	unclear   bool     // skills_if can't be read
	duplicate []string // fields that it has more than once
}

// conditional is a list of skills that are for some circumstances only: those in which each key
// has one of its values.
type conditional struct {
	when   map[string][]string
	skills []string // as they are written
}

var (
	errEncoding = errors.New("the file is not UTF-8")
	errNoEnd    = errors.New("the front matter has no end: put a line of three dashes after it")
	errTooLong  = fmt.Errorf("the front matter has more than %d bytes", maxFrontMatter)
	errNoFields = errors.New("the front matter has no fields: write them as name: value")
)

// parse takes a file apart into front matter and body. Front matter begins with a first
// line of three dashes and ends with the next such line; without a first one, all of the
// file is its body. The body is exactly what stands after the line break of the second.
//
// A first line without a second is an error, since the beginning of the body can't be found.
func parse(data []byte) (f front, body []byte, err error) {
	if !utf8.Valid(data) {
		return front{}, nil, errEncoding
	}
	text, body, err := split(data)
	if err != nil || text == nil {
		return front{}, body, err
	}
	f, err = parseFields(string(text))
	f.present = true
	return f, body, err
}

const byteOrderMark = "\uFEFF"

// split finds the front matter; text is nil if there is none.
func split(data []byte) (text, body []byte, err error) {
	rest := bytes.TrimPrefix(data, []byte(byteOrderMark))
	begin, at := 0, 0 // offsets of the front matter, which is never at 0, and of the line
	for line := range bytes.Lines(rest) {
		next := at + len(line)
		switch dashes := isDelimiter(line); {
		case begin == 0 && !dashes:
			return nil, data, nil
		case begin == 0:
			begin = next
		case dashes && at-begin > maxFrontMatter:
			return nil, nil, errTooLong
		case dashes:
			return rest[begin:at:at], rest[next:], nil
		}
		at = next
	}
	if begin == 0 {
		return nil, data, nil
	}
	return nil, nil, errNoEnd
}

// isDelimiter reports whether a line is one of three dashes.
func isDelimiter(line []byte) bool {
	after, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && len(bytes.TrimRight(after, " \t\r\n")) == 0
}

// parseFields reads front matter as YAML, and repairs it first if it is not valid.
func parseFields(text string) (front, error) {
	root, err := parseYAML(text)
	repaired := false
	if err != nil {
		again, other := parseYAML(repair(text))
		if other != nil {
			return front{}, err
		}
		root, repaired = again, true
	}
	f, err := fields(root)
	f.repaired = repaired
	return f, err
}

// parseYAML returns a tree whose aliases are not expanded: nothing in it is larger than the
// text is.
func parseYAML(text string) (root *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil { // the text is not trusted
			root, err = nil, fmt.Errorf("the front matter can't be read: %v", p)
		}
	}()
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 {
		return nil, nil // nothing but blanks and comments
	}
	return document.Content[0], nil
}

// fields takes the fields that matter here out of front matter. The last of several with
// one name counts, as in most programs.
func fields(root *yaml.Node) (f front, err error) {
	root = dealias(root)
	if isNull(root) {
		return f, nil
	}
	if root.Kind != yaml.MappingNode {
		return f, errNoFields
	}
	seen := make(map[string]bool, len(root.Content)/2)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := dealias(root.Content[i]), dealias(root.Content[i+1])
		if key.Kind != yaml.ScalarNode {
			continue
		}
		switch key.Value {
		case "name":
			f.name = scalar(value)
		case "description":
			f.description = scalar(value)
		case "type":
			f.kind = scalar(value)
		case "compatibility":
			f.compatibility = scalar(value)
		case "version":
			f.version = scalar(value)
		case "metadata":
			f.version = cmp.Or(f.version, versionIn(value))
		case "skills_if":
			f.conditional, f.unclear = conditions(value)
		case "skills":
			f.skills, err = texts(value)
		case "tools":
			f.tools, err = texts(value)
		}
		if err != nil {
			return front{}, fmt.Errorf("the field %s %w", key.Value, err)
		}
		if seen[key.Value] {
			f.duplicate = append(f.duplicate, key.Value)
		}
		seen[key.Value] = true
	}
	return f, nil
}

// versionIn returns the version in the field metadata, where Agent Skills have it.
func versionIn(n *yaml.Node) string {
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == "version" {
				return scalar(dealias(n.Content[i+1]))
			}
		}
	}
	return ""
}

// conditions reads the field skills_if: {platform: web, skills: […]}, or a list of these. A
// value may be a list: one of them is enough. What can't be read is left out.
func conditions(n *yaml.Node) (list []conditional, unclear bool) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	for _, item := range items {
		if item = dealias(item); isNull(item) {
			continue
		}
		c := conditional{when: make(map[string][]string)}
		ok := item.Kind == yaml.MappingNode
		for i := 0; ok && i+1 < len(item.Content); i += 2 {
			key := dealias(item.Content[i]).Value
			values, err := texts(dealias(item.Content[i+1]))
			ok = err == nil
			if key == "skills" {
				c.skills = values
			} else {
				c.when[key] = values
			}
		}
		if !ok || len(c.skills) == 0 || len(c.when) == 0 {
			unclear = true
			continue
		}
		list = append(list, c)
	}
	return list, unclear
}

// holds reports whether each key has one of its values.
func (c *conditional) holds(facts map[string]string) bool {
	for key, values := range c.when {
		if fact, ok := facts[key]; !ok || !slices.Contains(values, fact) {
			return false
		}
	}
	return true
}

// dealias returns the node that an alias stands for.
func dealias(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool {
	return n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// scalar returns the text of a value, or "" if it has none.
func scalar(n *yaml.Node) string {
	if isNull(n) || n.Kind != yaml.ScalarNode || strings.TrimSpace(n.Value) == "" {
		return ""
	}
	return n.Value
}

var (
	errNoList   = errors.New("is not a list of texts")
	errListSize = errors.New("is too long")
)

// switched returns the names in a mapping such as {read: true, bash: false} or {github:
// {toolsets: […]}}: those that are not switched off.
func switched(n *yaml.Node) (list []string, err error) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := dealias(n.Content[i]), dealias(n.Content[i+1])
		switch {
		case key.Kind != yaml.ScalarNode, value.Kind == yaml.ScalarNode && !isNull(value) && value.ShortTag() != "!!bool":
			return nil, errNoList
		case value.ShortTag() == "!!bool" && strings.EqualFold(value.Value, "false"):
		default:
			list = append(list, key.Value)
		}
	}
	return list, nil
}

// texts returns a list, which may also be written as one text with commas, or as a mapping of
// names. Together they are no longer than front matter may be: aliases could make them so.
func texts(n *yaml.Node) ([]string, error) {
	if isNull(n) {
		return nil, nil
	}
	switch n.Kind {
	case yaml.ScalarNode:
		return words(n.Value), nil
	case yaml.MappingNode:
		return switched(n)
	}
	if n.Kind != yaml.SequenceNode {
		return nil, errNoList
	}
	list := make([]string, 0, len(n.Content))
	size := 0
	for _, item := range n.Content {
		item = dealias(item)
		switch {
		case isNull(item):
			continue // a dash with nothing after it
		case item.Kind != yaml.ScalarNode:
			return nil, errNoList
		}
		if size += len(item.Value); size > maxFrontMatter {
			return nil, errListSize
		}
		list = append(list, item.Value)
	}
	return list, nil
}
