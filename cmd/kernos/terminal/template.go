package terminal

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"kernos/cmd/kernos/settings"
	"kernos/daemon"
	"kernos/internal/visible"
)

// builtIn are the templates that kernos has itself, for the protocol's own content types.
//
//go:embed templates
var builtIn embed.FS

// templateFunctions are what a template can use beside what all Go templates have.
var templateFunctions = template.FuncMap{
	"json": func(v any) (string, error) {
		text, err := json.Marshal(v)
		return string(text), err
	},
	"join": func(separator string, list []any) string {
		words := make([]string, len(list))
		for i, v := range list {
			words[i] = fmt.Sprint(v)
		}
		return strings.Join(words, separator)
	},
	"pad":   func(width int, v any) string { return Pad(fmt.Sprint(v), width) },
	"clip":  func(width int, v any) string { return Clip(visible.Text(fmt.Sprint(v)), width) },
	"short": func(v any) string { return ClipMiddle(visible.Text(fmt.Sprint(v)), shortID) },
	"percent": func(v any) string {
		fraction, _ := strconv.ParseFloat(fmt.Sprint(v), 64)
		return strconv.Itoa(int(fraction*100+0.5)) + "%"
	},
	"clock": func(v any) string {
		ms, err := strconv.ParseFloat(fmt.Sprint(v), 64)
		if err != nil {
			return ""
		}
		return clock(time.UnixMilli(int64(ms)).Local(), time.Now())
	},
	"age": func(v any) string {
		ms, _ := strconv.ParseFloat(fmt.Sprint(v), 64)
		return Age(time.UnixMilli(int64(ms)), time.Now())
	},
}

// shortID is how many columns the short form of an id has.
const shortID = 12

// clock writes a time: without its date if that is today's, and without the year if that is this year.
func clock(t, now time.Time) string {
	switch now = now.In(t.Location()); {
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format(time.TimeOnly)
	case t.Year() == now.Year():
		return t.Format("Jan _2 15:04")
	}
	return t.Format("2006-01-02 15:04")
}

func parseTemplate(name, text string) (*template.Template, error) {
	return template.New(name).Funcs(templateFunctions).Parse(text)
}

// givenTemplate reads the template that the user has given: its text, or the name of its
// file.
func givenTemplate(given string) (*template.Template, error) {
	name, text := "template", given
	if !strings.Contains(given, "{{") {
		file, err := os.ReadFile(given)
		if err != nil {
			return nil, fmt.Errorf("--template takes a template with {{…}} in it, or a file that has one: %w", err)
		}
		name, text = given, string(file)
	}
	t, err := parseTemplate(name, text)
	if err != nil {
		return nil, fmt.Errorf("--template: %w", err)
	}
	return t, nil
}

// findTemplate finds the template for a content type: that of the project, which is the
// nearest directory above with .kernos/templates in it, if the owner trusts that directory; that of
// the user; a built-in one; or nil.
func (p *Printer) findTemplate(content string) (*template.Template, error) {
	if !filepath.IsLocal(content) || filepath.Base(content) != content {
		return nil, nil
	}
	name := content + ".tmpl"
	for _, dir := range p.templateDirectories() {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return parseTemplate(path, string(text))
	}
	text, err := builtIn.ReadFile("templates/" + name)
	if err != nil {
		return nil, nil
	}
	return parseTemplate(name, string(text))
}

func (p *Printer) templateDirectories() (all []string) {
	if dir, err := os.Getwd(); err == nil {
		for {
			path := filepath.Join(dir, ".kernos", "templates")
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				if isTrusted(dir) {
					all = append(all, path)
				}
				break
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	if p.templates != "" {
		all = append(all, p.templates)
	}
	return all
}

// isTrusted reports whether the owner trusts a directory. A template of another one could show what isn't so.
func isTrusted(dir string) bool {
	home, err := settings.Home()
	if err != nil {
		return false
	}
	trusted, err := home.Trusted()
	path, linkErr := filepath.EvalSymlinks(dir)
	return err == nil && linkErr == nil && slices.ContainsFunc(trusted, func(t daemon.TrustedFolder) bool { return t.Problem == "" && t.Path == path })
}
