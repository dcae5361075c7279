// Package docs has the documentation: the pages of this folder, as they are in the repository, and their index, which is
// README.md. kernos docs shows them in a terminal, /docs and /llms.txt serve them, and they are resources of MCP.
//
// Where a page is, and what it is called, is read from the pages: a section of the index is a list of links, and a page's
// topic is its path without the first folder, in small letters: reference/settings.md is settings, and
// reference/syscalls/memory.md is syscalls/memory. Of several pages with one topic, the first in the index has it, and the
// topics of the others have the folder: reference/http.
package docs

import (
	"cmp"
	"embed"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed *.md */*.md */*/*.md reference/config.yaml
var files embed.FS

// indexFile is the page that lists the others.
const indexFile = "README.md"

// A Page is one of the documentation.
type Page struct {
	Topic string // what people call it: settings
	File  string // where it is: reference/settings.md
	Title string // its first heading
	Text  string // Markdown, or YAML
}

// A Section is a part of the index.
type Section struct {
	Title   string
	Entries []Entry
}

// An Entry is what the index has of a page, or of a part of one.
type Entry struct {
	Page   *Page
	Anchor string // of the part, with its #; "" for all of the page
	Title  string
	About  string // in one line; may be ""
}

// Documentation is all pages.
type Documentation struct {
	Index    string // the index, as Markdown
	Sections []Section
	Pages    []*Page // all, by topic, also those that the index doesn't list
}

// All returns the documentation. It is read when it is first needed.
var All = sync.OnceValue(func() *Documentation {
	d := &Documentation{}
	_ = fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error { // never fails: it is in the program
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(file)
		if file == indexFile {
			d.Index = string(text)
			return err
		}
		d.Pages = append(d.Pages, &Page{File: file, Title: titleOf(file, string(text)), Text: string(text)})
		return err
	})
	d.readIndex()
	d.nameTopics()
	slices.SortFunc(d.Pages, func(a, b *Page) int { return strings.Compare(a.Topic, b.Topic) })
	return d
})

// nameTopics gives each page a topic of its own.
func (d *Documentation) nameTopics() {
	var inOrder []*Page
	for _, s := range d.Sections {
		for _, e := range s.Entries {
			inOrder = append(inOrder, e.Page)
		}
	}
	taken := make(map[string]bool)
	for _, p := range append(inOrder, d.Pages...) {
		if p.Topic != "" {
			continue
		}
		p.Topic = topicOf(p.File)
		if _, rest, ok := strings.Cut(p.Topic, "/"); ok && !taken[rest] {
			p.Topic = rest
		}
		taken[p.Topic] = true
	}
}

// topicOf returns the place of a file as people write a topic.
func topicOf(file string) string {
	return strings.ReplaceAll(strings.TrimSuffix(strings.ToLower(file), ".md"), "_", "-")
}

// titleOf returns the first heading of a page, or the name of a file that isn't one.
func titleOf(file, text string) string {
	for line := range strings.Lines(text) {
		if title, ok := strings.CutPrefix(line, "# "); ok && strings.HasSuffix(file, ".md") {
			return strings.TrimSpace(title)
		}
	}
	return path.Base(file)
}

// readIndex reads the sections of the index: headings, and below them items such as - [Title](FILE.md): what it is about.
func (d *Documentation) readIndex() {
	for line := range strings.Lines(d.Index) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			d.Sections = append(d.Sections, Section{Title: heading})
		} else if entry, ok := d.entry(line); ok && len(d.Sections) > 0 {
			last := &d.Sections[len(d.Sections)-1]
			last.Entries = append(last.Entries, entry)
		}
	}
}

// entry reads an item of the index. It reports false for a line that isn't a link to a page.
func (d *Documentation) entry(item string) (e Entry, ok bool) {
	title, isItem := strings.CutPrefix(item, "- [")
	title, rest, isLink := strings.Cut(title, "](")
	target, about, closed := strings.Cut(rest, ")")
	if !isItem || !isLink || !closed {
		return e, false
	}
	file, anchor, _ := strings.Cut(target, "#")
	if anchor != "" {
		anchor = "#" + anchor
	}
	e = Entry{Page: d.File(path.Clean(file)), Anchor: anchor, Title: title, About: strings.TrimSpace(strings.TrimPrefix(about, ":"))}
	return e, e.Page != nil
}

// File returns the page that is at a place, or nil.
func (d *Documentation) File(name string) *Page {
	i := slices.IndexFunc(d.Pages, func(p *Page) bool { return p.File == name })
	if i < 0 {
		return nil
	}
	return d.Pages[i]
}

// Find returns the page that a person means by a topic, by the place of the file, or by the end of a topic that only one
// page has: memory is syscalls/memory. It returns nil if there is none.
func (d *Documentation) Find(name string) *Page {
	name = topicOf(strings.ReplaceAll(strings.TrimPrefix(strings.TrimSpace(name), "docs/"), " ", "-"))
	var place, end []*Page
	for _, p := range d.Pages {
		switch {
		case p.Topic == name:
			return p
		case topicOf(p.File) == name:
			place = append(place, p)
		case strings.HasSuffix(p.Topic, "/"+name):
			end = append(end, p)
		}
	}
	for _, found := range [][]*Page{place, end} {
		if len(found) == 1 {
			return found[0]
		}
	}
	return nil
}

// Read returns the text of a page, or of the index, by the place of the file or by a topic.
func (d *Documentation) Read(name string) (text string, ok bool) {
	if name == indexFile || name == "" {
		return d.Index, true
	}
	if p := d.Find(name); p != nil {
		return p.Text, true
	}
	return "", false
}

// With returns the pages that have all of some words. Those that are about the words come first: they have them in their
// title, in their line of the index, or in what heads a part of them.
func (d *Documentation) With(words []string) []*Page {
	if len(words) == 0 {
		return nil
	}
	index := make(map[*Page]string)
	for _, s := range d.Sections {
		for _, e := range s.Entries {
			index[e.Page] += "\n" + e.Title + " " + e.About
		}
	}
	score := make(map[*Page]float64)
	for _, p := range d.Pages {
		score[p] = 0
	}
	for _, word := range words {
		forms := formsOf(word)
		for p := range score {
			n := len(forms.FindAllStringIndex(p.Text, -1))
			if n == 0 {
				delete(score, p)
				continue
			}
			score[p] += float64(n) / float64(len(p.Text))
			for _, about := range []string{p.Title + index[p], headsOf(p)} {
				if forms.MatchString(about) {
					score[p]++
				}
			}
		}
	}
	found := slices.DeleteFunc(slices.Clone(d.Pages), func(p *Page) bool { return score[p] == 0 })
	slices.SortStableFunc(found, func(a, b *Page) int { return cmp.Compare(score[b], score[a]) })
	return found
}

// formsOf finds a word in a text, in any of its regular forms: seal in sealed, and LAN not in language.
func formsOf(word string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)(^|[^\pL\pN])` + regexp.QuoteMeta(word) + `(s|d|es|ed|ing)?([^\pL\pN]|$)`)
}

// headsOf returns the lines of a page that say what follows: headings, and what is bold at the beginning of a row.
func headsOf(p *Page) string {
	if !strings.HasSuffix(p.File, ".md") {
		return ""
	}
	var heads strings.Builder
	for line := range strings.Lines(p.Text) {
		row, bold := strings.CutPrefix(line, "| **")
		if cell, _, _ := strings.Cut(row, "|"); bold {
			heads.WriteString(cell + "\n")
		} else if strings.HasPrefix(line, "#") {
			heads.WriteString(line)
		}
	}
	return heads.String()
}

// summary is what Kernos is, in one sentence.
const summary = "Memory, secrets, jobs and tools for AI agents, shared by every client, on your machine."

// LLMs returns the index for models, in the form of llmstxt.org. The address of a page is its place after some text.
func (d *Documentation) LLMs(before string) string {
	var b strings.Builder
	b.WriteString("# Kernos\n\n> " + summary + "\n")
	for _, s := range d.Sections {
		b.WriteString("\n## " + s.Title + "\n\n")
		for _, e := range s.Entries {
			b.WriteString("- [" + e.Title + "](" + before + e.Page.File + e.Anchor + ")")
			if e.About != "" {
				b.WriteString(": " + e.About)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}
