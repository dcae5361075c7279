package docs_test

import (
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// A page is what a Markdown file links to, and what links to it may name.
type page struct {
	links    []string
	headings []string // of the second level
	anchors  []string
}

// readPage parses a Markdown file.
func readPage(t *testing.T, file string) page {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var p page
	seen := make(map[string]int)
	root := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	err = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			p.links = append(p.links, string(n.Destination))
		case *ast.Image:
			p.links = append(p.links, string(n.Destination))
		case *ast.Heading:
			title := words(n, source)
			if n.Level == 2 {
				p.headings = append(p.headings, title)
			}
			anchor := slug(title)
			if seen[anchor]++; seen[anchor] > 1 {
				anchor += "-" + strconv.Itoa(seen[anchor]-1)
			}
			p.anchors = append(p.anchors, anchor)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// words returns the text of a node without its markup.
func words(n ast.Node, source []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			b.Write(c.Segment.Value(source))
		default:
			b.WriteString(words(c, source))
		}
	}
	return b.String()
}

// slug returns the anchor that GitHub gives to a heading.
func slug(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

// markdown returns the Markdown files of the repository, relative to its root, but for copies of libraries and data of tests.
func markdown(t *testing.T) (files []string) {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z", "--", "*.md")
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for file := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		folders := strings.Split(path.Dir(file), "/")
		if !slices.ContainsFunc(folders, func(f string) bool { return f == "testdata" || f == "third_party" || f == "node_modules" }) {
			files = append(files, file)
		}
	}
	if len(files) < 20 {
		t.Fatalf("the repository can't have only %q", files)
	}
	return files
}

// TestLinks checks that each relative link leads to a file, and to a heading if it names one.
func TestLinks(t *testing.T) {
	pages := make(map[string]page)
	read := func(file string) page {
		p, known := pages[file]
		if !known {
			p = readPage(t, filepath.Join("..", file))
			pages[file] = p
		}
		return p
	}
	for _, file := range markdown(t) {
		for _, link := range read(file).links {
			u, err := url.Parse(link)
			if err != nil || u.Scheme == "" && (u.Host != "" || strings.HasPrefix(u.Path, "/")) {
				t.Errorf("%s: %q isn't a relative link (%v)", file, link, err)
				continue
			}
			if u.Scheme != "" {
				continue
			}
			target := file
			if u.Path != "" {
				target = path.Join(path.Dir(file), u.Path)
			}
			if _, err := os.Stat(filepath.Join("..", target)); err != nil || strings.HasPrefix(target, "../") {
				t.Errorf("%s: %s leads to no file of the repository", file, link)
				continue
			}
			if u.Fragment != "" && (path.Ext(target) != ".md" || !slices.Contains(read(target).anchors, u.Fragment)) {
				t.Errorf("%s: %s leads to no heading", file, link)
			}
		}
	}
}

// TestTheChangelogIsShort checks that each version fits on a screen, and ends with a link to all of it.
func TestTheChangelogIsShort(t *testing.T) {
	const lines, columns = 40, 110
	source, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	versions := readPage(t, "../CHANGELOG.md").headings
	if all := readPage(t, "HISTORY.md").headings; len(versions) == 0 || !slices.Equal(versions, all) {
		t.Errorf("CHANGELOG.md has the versions %v, and HISTORY.md %v", versions, all)
	}
	sections := strings.Split("\n"+string(source), "\n## ")[1:]
	for _, section := range sections {
		section = strings.TrimSpace(section)
		version, _, _ := strings.Cut(section, "\n")
		all := strings.Split(section, "\n")
		if len(all) > lines {
			t.Errorf("version %s has %d lines; %d fit on a screen, and the rest is for HISTORY.md", version, len(all), lines)
		}
		for _, line := range all {
			if utf8.RuneCountInString(line) > columns {
				t.Errorf("version %s has a line of more than %d columns: %s", version, columns, line)
			}
		}
		if want := "[all of it](docs/HISTORY.md#" + slug(version) + ")"; all[len(all)-1] != want {
			t.Errorf("version %s ends with %q, want %s", version, all[len(all)-1], want)
		}
	}
}
