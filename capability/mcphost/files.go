package mcphost

import (
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/mcphost/client"
	"kernos/internal/visible"
	"kernos/message"
)

// uri returns the address of a file of the server in the tree of files.
func (s *server) uri(path string) string { return "os://mcp/" + s.name + "/" + path }

// A File is a resource or a prompt of a server.
type File struct {
	Path string // server, then the path below its folder
	Size int64  // 0 if it isn't known
}

// Files lists the files of all servers, by their paths. No server is started for it.
func (h *Host) Files() ([]File, error) {
	err := h.lock()
	defer h.mu.Unlock()
	var all []File
	for _, s := range h.sorted() {
		r := s.now.Load()
		for _, one := range r.Resources {
			all = append(all, File{s.name + "/" + one.Path, one.Size})
		}
		for _, p := range r.Prompts {
			all = append(all, File{s.name + "/" + folderOfPrompts + "/" + p.File, 0})
		}
	}
	slices.SortFunc(all, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return all, err
}

// Read reads a file of a server: a resource that it lists, one that a template of it names, or a
// prompt, whose arguments follow a question mark. The error for one that doesn't exist is
// [fs.ErrNotExist].
func (h *Host) Read(ctx context.Context, path string) ([]byte, error) {
	name, rest, _ := strings.Cut(path, "/")
	s, err := h.find(name)
	if err != nil {
		return nil, fs.ErrNotExist
	}
	if file, ok := strings.CutPrefix(rest, folderOfPrompts+"/"); ok {
		return s.readPrompt(ctx, file)
	}
	r := s.now.Load()
	if i := slices.IndexFunc(r.Resources, func(one resource) bool { return one.Path == rest }); i >= 0 {
		data, err := s.readResource(ctx, r.Resources[i].URI)
		if err != nil {
			return nil, err
		}
		return data, r.Resources[i].verify(s.name, data)
	}
	uri, ok := r.templated(rest)
	if !ok {
		return nil, fs.ErrNotExist
	}
	return s.readResource(ctx, uri)
}

// trusted reports whether the owner has allowed all that the server offers.
func (r *record) trusted() bool {
	return len(r.Tools) > 0 && !slices.ContainsFunc(r.Tools, func(t tool) bool { return !t.Allowed || t.Next != nil })
}

var templateVariable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\\\{[^{}]*\\\}`) })

// templated returns the URI that a path means by one of the templates of the server.
func (r *record) templated(path string) (string, bool) {
	scheme, rest, ok := strings.Cut(path, "/")
	if !ok {
		return "", false
	}
	for _, template := range r.Templates {
		form, err := regexp.Compile("^" + templateVariable().ReplaceAllString(regexp.QuoteMeta(template), ".+") + "$")
		if err != nil {
			continue
		}
		for _, uri := range []string{scheme + "://" + rest, scheme + ":///" + rest, scheme + ":" + rest} {
			if form.MatchString(uri) {
				return uri, true
			}
		}
	}
	return "", false
}

// readResource reads a resource. One of several contents is all of them, one after the other.
func (s *server) readResource(ctx context.Context, uri string) ([]byte, error) {
	var result struct {
		Contents []struct {
			Text *string `json:"text"`
			Blob string  `json:"blob"`
		} `json:"contents"`
	}
	if err := s.ask(ctx, client.Request{Method: "resources/read", URI: uri}, &result); err != nil {
		return nil, err
	}
	data := []byte{}
	for _, c := range result.Contents {
		if c.Text != nil {
			data = append(data, *c.Text...)
			continue
		}
		bytes, err := base64.StdEncoding.DecodeString(c.Blob)
		if err != nil {
			return nil, message.Errorf(502, "The MCP server %s has answered with a resource that isn't base64: %s", s.name, message.Clip(uri, 200))
		}
		data = append(data, bytes...)
	}
	return data, nil
}

// ask sends a request to the server, which is started if it has to be.
func (s *server) ask(ctx context.Context, r client.Request, into any) error {
	ctx, cancel := context.WithTimeout(ctx, s.now.Load().timeout())
	defer cancel()
	err := s.use(ctx, func(conn *client.Conn) error { return conn.Do(ctx, r, into) })
	if e, ok := err.(*client.Error); ok {
		return message.Errorf(502, "The MCP server %s has refused %s: %s", s.name, r.Method, visible.Short(e.Message, 1000))
	}
	if err != nil {
		return s.explain(err)
	}
	s.answered()
	return nil
}

// readPrompt makes a file of a prompt: its name and its description as frontmatter, and the text that
// the server makes of it and of the arguments.
func (s *server) readPrompt(ctx context.Context, file string) ([]byte, error) {
	file, query, _ := strings.Cut(file, "?")
	r := s.now.Load()
	i := slices.IndexFunc(r.Prompts, func(p prompt) bool { return p.File == file })
	if i < 0 {
		return nil, fs.ErrNotExist
	}
	p := &r.Prompts[i]
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, message.Errorf(422, "The arguments of a prompt are written as in ?topic=cats&style=short: %v", err)
	}
	arguments := make(map[string]string)
	for name := range values {
		arguments[name] = values.Get(name)
	}
	front := fmt.Sprintf("---\nname: %s\ndescription: %s\n---\n\n", quote(strings.TrimSuffix(file, ".md")), quote(fmt.Sprintf("From the MCP server %s: %s", r.Name, p.Description)))
	for _, a := range p.Arguments {
		if a.Required && arguments[a.Name] == "" {
			return []byte(front + p.usage(s.uri(folderOfPrompts+"/"+file))), nil
		}
	}
	request := client.Request{Method: "prompts/get", Name: p.Name}
	if len(arguments) > 0 {
		text, err := json.Marshal(arguments, json.Deterministic(true))
		if err != nil {
			return nil, err
		}
		request.Arguments = jsontext.Value(text)
	}
	var result struct {
		Messages []struct {
			Role    string `json:"role"`
			Content struct {
				Type     string `json:"type"`
				Text     string `json:"text"`
				MimeType string `json:"mimeType"`
				Resource struct {
					URI  string `json:"uri"`
					Text string `json:"text"`
				} `json:"resource"`
			} `json:"content"`
		} `json:"messages"`
	}
	if err := s.ask(ctx, request, &result); err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(front)
	for _, m := range result.Messages {
		text := m.Content.Text
		switch m.Content.Type {
		case "text":
		case "resource":
			text = m.Content.Resource.Text
		default:
			text = fmt.Sprintf("(%s %s)", visible.Short(m.Content.Type, 32), visible.Short(m.Content.MimeType, 64))
		}
		if m.Role != "user" {
			fmt.Fprintf(&b, "%s:\n\n", visible.Short(m.Role, 32))
		}
		b.WriteString(strings.TrimRight(text, "\n") + "\n\n")
	}
	return []byte(strings.TrimRight(b.String(), "\n") + "\n"), nil
}

// usage reports which arguments a prompt needs.
func (p *prompt) usage(uri string) string {
	var b strings.Builder
	var query []string
	b.WriteString("This prompt has arguments:\n\n")
	for _, a := range p.Arguments {
		fmt.Fprintf(&b, "- %s: %s\n", a.Name, a.Description)
		query = append(query, url.QueryEscape(a.Name)+"=…")
	}
	fmt.Fprintf(&b, "\nRead it with them: %s?%s\n", uri, strings.Join(query, "&"))
	return b.String()
}

// quote writes a text as a string of YAML.
func quote(text string) string {
	out, _ := json.Marshal(text)
	return string(out)
}
