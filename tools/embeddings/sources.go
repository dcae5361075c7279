package main

import (
	"bufio"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A synset is an entry of WordNet: words with one meaning.
type synset struct {
	words    []string
	gloss    string
	examples []string
	related  []string // words of entries that it points to: what it is a kind of, its parts, what is derived from it
}

// heldOut reports whether a word is one of those that bench/ measures with. What WordNet has about
// them is not learned from: an eighth of the words.
func heldOut(word string) bool {
	h := fnv.New32a()
	h.Write([]byte(word))
	return h.Sum32()%8 == 0
}

// unrelated are pointers of WordNet to words that mean something else: antonyms, and what is one of many kinds.
var unrelated = []string{"!", "~", "~i", "-c", "-r", "-u", "<", "\\"}

// readWordNet returns the entries of which no word is held out.
func readWordNet(folder string) ([]synset, error) {
	var all []synset
	at := map[string]int{} // by part of speech and offset
	var pointers [][]string
	for _, part := range []string{"noun", "verb", "adj", "adv"} {
		f, err := os.Open(filepath.Join(folder, "data."+part))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			entry, gloss, ok := strings.Cut(lines.Text(), " | ")
			fields := strings.Fields(entry)
			if !ok || len(fields) < 6 || strings.HasPrefix(entry, " ") {
				continue // the licence
			}
			count, err := strconv.ParseUint(fields[3], 16, 8)
			if err != nil {
				return nil, err
			}
			var s synset
			for i := range int(count) {
				word, _, _ := strings.Cut(fields[4+2*i], "(")
				s.words = append(s.words, strings.ReplaceAll(word, "_", " "))
			}
			definition, examples, _ := strings.Cut(gloss, `; "`)
			s.gloss = strings.TrimSpace(definition)
			for _, e := range strings.Split(examples, `"`) {
				if e = strings.TrimSpace(e); len(e) > 8 {
					s.examples = append(s.examples, e)
				}
			}
			if slices.ContainsFunc(s.words, heldOut) {
				continue
			}
			var to []string
			for p := fields[5+2*int(count):]; len(p) >= 4; p = p[4:] {
				if !slices.Contains(unrelated, p[0]) {
					to = append(to, p[2]+p[1])
				}
			}
			kind := part[:1]
			if part == "adv" {
				kind = "r"
			}
			at[kind+fields[0]] = len(all)
			all, pointers = append(all, s), append(pointers, to)
		}
	}
	for i := range all {
		for _, p := range pointers[i] {
			if j, ok := at[p]; ok {
				all[i].related = append(all[i].related, all[j].words...)
			}
		}
	}
	return all, nil
}

// readWebster returns Webster's dictionary of 1913: its definition of each word that isn't held out.
func readWebster(folder string) (map[string]string, error) {
	data, err := os.ReadFile(filepath.Join(folder, "dictionary.json"))
	if err != nil {
		return nil, err
	}
	var definitions map[string]string
	if err := json.Unmarshal(data, &definitions); err != nil {
		return nil, err
	}
	for word, text := range definitions {
		if heldOut(word) {
			delete(definitions, word)
			continue
		}
		if first, _, several := strings.Cut(text, " 2. "); several {
			text = strings.TrimPrefix(first, "1. ")
		}
		if len(text) > 250 {
			text, _, _ = strings.Cut(text, ". ")
		}
		definitions[word] = text
	}
	return definitions, nil
}

// readSpoken returns how often words are said in films. Names are left out.
func readSpoken(folder string) (map[string]int, error) {
	data, err := os.ReadFile(filepath.Join(folder, "index.json"))
	if err != nil {
		return nil, err
	}
	var list []struct {
		Word  string
		Count int
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, w := range list {
		if strings.ToLower(w.Word) == w.Word {
			counts[w.Word] += w.Count
		}
	}
	return counts, nil
}

// readMoby returns the Moby Thesaurus: lists of words that have to do with the first of each.
func readMoby(folder string) ([][]string, error) {
	data, err := os.ReadFile(filepath.Join(folder, "words.txt"))
	if err != nil {
		return nil, err
	}
	var lists [][]string
	for line := range strings.Lines(string(data)) {
		lists = append(lists, strings.Split(strings.TrimSpace(line), ","))
	}
	return lists, nil
}

// A named text is an identifier of a program and its author's comment on it.
type named struct{ name, text string }

// readGo returns the documentation of the Go distribution, and the texts of its errors.
func readGo() (documented []named, errors []string, err error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, nil, err
	}
	root := filepath.Join(strings.TrimSpace(string(out)), "src")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "vendor") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return nil // a part of a test
		}
		add := func(name string, docs ...*ast.CommentGroup) {
			for _, doc := range docs {
				text := doc.Text()
				text, _, _ = strings.Cut(text, "\n\n")
				sentence, _, _ := strings.Cut(strings.ReplaceAll(text, "\n", " "), ". ")
				if len(sentence) > 20 && len(sentence) < 250 {
					documented = append(documented, named{f.Name.Name + "." + name, sentence})
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				add(n.Name.Name, n.Doc)
			case *ast.TypeSpec:
				add(n.Name.Name, n.Doc)
			case *ast.GenDecl:
				if len(n.Specs) == 1 {
					if t, ok := n.Specs[0].(*ast.TypeSpec); ok {
						add(t.Name.Name, n.Doc)
					}
				}
			case *ast.ValueSpec:
				add(n.Names[0].Name, n.Doc, n.Comment)
			case *ast.Field:
				if len(n.Names) > 0 {
					add(n.Names[0].Name, n.Doc, n.Comment)
				}
			case *ast.CallExpr:
				called, ok := n.Fun.(*ast.SelectorExpr)
				if !ok || len(n.Args) == 0 || called.Sel.Name != "New" && called.Sel.Name != "Errorf" && called.Sel.Name != "Fatalf" {
					return true
				}
				if text, ok := n.Args[0].(*ast.BasicLit); ok && text.Kind == token.STRING {
					if s, err := strconv.Unquote(text.Value); err == nil && len(s) > 12 && strings.Contains(s, " ") {
						errors = append(errors, s)
					}
				}
			}
			return true
		})
		return nil
	})
	return documented, errors, err
}
