package archtest

import (
	"bufio"
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// eachFile calls visit for every file of the module, except the data of tests.
func eachFile(t *testing.T, visit func(name string)) {
	t.Helper()
	withData(t, func(name string) {
		if !strings.HasPrefix(name, "testdata/") && !strings.Contains(name, "/testdata/") {
			visit(name)
		}
	})
}

// withData calls visit for every file of the module, also for the data of tests.
func withData(t *testing.T, visit func(name string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); base == ".git" || base == "bin" || base == "node_modules" {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && name != root {
				return filepath.SkipDir // another module
			}
			return nil
		}
		rel, err := filepath.Rel(root, name)
		visit(filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestImportsPointDown(t *testing.T) {
	files := 0
	eachFile(t, func(name string) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return // a test may look at whatever it tests with
		}
		files++
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			imported, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if v := violation(filepath.ToSlash(filepath.Dir(name)), imported); v != "" {
				t.Errorf("%s: %s", name, v)
			}
		}
	})
	if files < 20 {
		t.Fatalf("only %d files were read: the test does not see the module", files)
	}
}

func TestArrowsThatPointUpOrSidewaysAreFound(t *testing.T) {
	for _, arrow := range [][2]string{
		{"message", module + "/kernel"},
		{"kernel", module + "/transport/stdio"},
		{"message", module + "/schema"},
		{"message/ndjson", module + "/message/osevent"},
		{"capability/memory", module + "/capability/http"},
		{"transport/unix", module + "/transport/stdio"},
		{"kernel", module + "/nowhere"},
		{"nowhere", module + "/message"},
		{"message", "github.com/spf13/cobra"},
		{"cmd/kernos", module + "/internal/testkit"},
		{"conformance", module + "/internal/testkit"},
	} {
		if violation(arrow[0], arrow[1]) == "" {
			t.Errorf("%s may import %s", arrow[0], arrow[1])
		}
	}
	for _, arrow := range [][2]string{
		{"message/ndjson", module + "/message"},
		{"kernel", module + "/schema"},
		{"transport/stdio", module + "/transport"},
		{"cmd/kernos", module + "/kernel"},
		{"kernel", "github.com/oklog/ulid/v2"},
		{"message", "encoding/json"},
	} {
		if v := violation(arrow[0], arrow[1]); v != "" {
			t.Error(v)
		}
	}
}

// TestFloorsAreDocumented compares the table of docs/ARCHITECTURE.md with the floors and their steps. A step may have
// several rows; the third column names its folders.
func TestFloorsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	row, name := regexp.MustCompile(`(?m)^\| (\d+) \| (\d+) \| ([^|]*) \|`), regexp.MustCompile("`([^`]*)`")
	documented := make(map[string][]string)
	for _, cells := range row.FindAllStringSubmatch(string(text), -1) {
		at := "floor " + cells[1] + ", step " + cells[2]
		for _, folder := range name.FindAllStringSubmatch(cells[3], -1) {
			documented[at] = append(documented[at], folder[1])
		}
	}
	for floor, steps := range floors {
		for step, folders := range steps {
			at := fmt.Sprintf("floor %d, step %d", floor, step)
			if want, got := slices.Sorted(slices.Values(folders)), slices.Sorted(slices.Values(documented[at])); !slices.Equal(want, got) {
				t.Errorf("%s has\n%s\ndocs/ARCHITECTURE.md has\n%s", at, want, got)
			}
			delete(documented, at)
		}
	}
	for at := range documented {
		t.Errorf("docs/ARCHITECTURE.md has %s, which doesn't exist", at)
	}
}

// TestInvariantsAreTested wants each invariant of docs/ARCHITECTURE.md where it is said to hold, and a test beside it that
// cites it.
func TestInvariantsAreTested(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, listed, _ := strings.Cut(string(text), "\n## Invariants\n")
	name, file := regexp.MustCompile(`\*\*([A-Z]\d)\*\*`), regexp.MustCompile("\\(`([^`]*\\.go)`")
	for _, item := range strings.Split(listed, "\n- ")[1:] {
		place := file.FindStringSubmatch(item)
		if place == nil {
			t.Errorf("no file is named for %s", item)
			continue
		}
		code, err := os.ReadFile(filepath.Join(root, place[1]))
		if err != nil {
			t.Error(err)
		}
		tests, err := filepath.Glob(filepath.Join(root, filepath.Dir(place[1]), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var cited []byte
		for _, test := range tests {
			text, err := os.ReadFile(test)
			if err != nil {
				t.Fatal(err)
			}
			cited = append(cited, text...)
		}
		for _, invariant := range name.FindAllStringSubmatch(item, -1) {
			if !bytes.Contains(code, []byte("//\t"+invariant[1]+"  ")) {
				t.Errorf("%s doesn't define %s", place[1], invariant[1])
			}
			if !regexp.MustCompile(`//[^\n]*\b` + invariant[1] + `\b`).Match(cited) {
				t.Errorf("no test beside %s cites %s", place[1], invariant[1])
			}
		}
	}
}

// The table of docs/RATIONALE has a line for every module that go.mod requires directly.
func TestDependenciesAreExplained(t *testing.T) {
	required, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	rationale, err := os.ReadFile(filepath.Join(root, "docs/RATIONALE.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Join(regexp.MustCompile(`(?m)^\|.*$`).FindAllString(string(rationale), -1), "\n")
	direct := regexp.MustCompile(`(?m)^\t(?:github\.com/)?(\S+?)(?:/v\d+)? v\S+$`).FindAllStringSubmatch(string(required), -1)
	if len(direct) < 20 {
		t.Fatalf("go.mod requires %d modules directly", len(direct))
	}
	for _, m := range direct {
		if !strings.Contains(rows, m[1]) {
			t.Errorf("docs/RATIONALE.md doesn't say why %s is used", m[1])
		}
	}
}

func TestNamesSayWhatThingsAre(t *testing.T) {
	vague := regexp.MustCompile(`(^|/)(utils?|common|helpers?|shared|misc|base|types|manager)(/|\.go$)`)
	eachFile(t, func(name string) {
		if vague.MatchString(name) {
			t.Errorf("%s: the name explains nothing", name)
		}
	})
}

// TestNothingRunsBeforeMain keeps start-up explicit and short: what a program serves is listed in one place, and each
// regular expression of a package would cost every process some of its start.
func TestNothingRunsBeforeMain(t *testing.T) {
	compiled := regexp.MustCompile(`^(var |\t)\w+ += regexp\.MustCompile`)
	eachFile(t, func(name string) {
		if !strings.HasSuffix(name, ".go") {
			return
		}
		f, err := os.Open(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		for s, n := bufio.NewScanner(f), 1; s.Scan(); n++ {
			line := s.Text()
			if strings.HasPrefix(line, "func init()") {
				t.Errorf("%s:%d: init hides what a program does when it starts", name, n)
			}
			// With the race detector, matching each line takes seconds.
			if strings.Contains(line, "regexp.MustCompile") && compiled.MatchString(line) && !strings.HasSuffix(name, "_test.go") && !slices.Contains(forTests, path.Dir(name)) {
				t.Errorf("%s:%d: compile the expression when it is first needed, with sync.OnceValue", name, n)
			}
		}
	})
}

// TestTheRaceDetectorSeesEveryGoroutine: what make race leaves out starts no goroutines in this process.
func TestTheRaceDetectorSeesEveryGoroutine(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(strings.ReplaceAll(string(text), "\\\n", ""), "\nALONE     := ")
	alone := strings.Fields(list[:max(0, strings.Index(list, "\n"))])
	if !found || len(alone) == 0 {
		t.Fatal("the Makefile doesn't list what make race leaves out")
	}
	starts := regexp.MustCompile(`(?m)^\s*go (func|[\w.]+\()|\.Go\(|AfterFunc\(|t\.Parallel\(|httptest\.|net\.Listen`)
	for _, dir := range alone {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil || files == nil {
			t.Errorf("%s, which make race leaves out, has no files: %v", dir, err)
		}
		for _, name := range files {
			if text, err := os.ReadFile(name); err != nil || starts.Match(text) {
				t.Errorf("make race leaves out %s, which starts goroutines: %v", name, err)
			}
		}
	}
}

// TestFilesAreReadInASitting: a file that has grown past this holds two subjects. What a tool has written is left out.
func TestFilesAreReadInASitting(t *testing.T) {
	const most = 650
	eachFile(t, func(name string) {
		if !slices.Contains([]string{".go", ".js", ".ts", ".css", ".py"}, path.Ext(name)) || strings.Contains(name, "third_party/") || strings.HasPrefix(name, "console/dist/") {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(text, []byte("\n")); lines > most {
			t.Errorf("%s has %d lines, and at most %d are read in a sitting: cut it by subject", name, lines, most)
		}
	})
}

// pronouns are words that stand for a caller, a client, a process or a goroutine without naming it.
var pronouns = regexp.MustCompile(`\b([Ww]hoever|[Ss]omebody|[Nn]obody|[Aa]nybody|[Ee]verybody)\b`)

// TestTextsNameWhoActs: a sentence names the caller, the client or the process that it is about. Words of a language
// that are data may be any.
func TestTextsNameWhoActs(t *testing.T) {
	words := []string{"bench/meaning_test.go", "bench/testdata/", "internal/archtest/", "internal/embed/", "tools/embeddings/", "tools/model/"}
	files := 0
	withData(t, func(name string) {
		if !slices.Contains([]string{".go", ".md", ".txt", ".txtar", ".tsv"}, path.Ext(name)) || strings.Contains(name, "third_party/") ||
			slices.ContainsFunc(words, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			return
		}
		files++
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range pronouns.FindAllIndex(text, -1) {
			t.Errorf("%s:%d: name what %q stands for: a caller, a client, no handler", name, 1+bytes.Count(text[:at[0]], []byte("\n")), text[at[0]:at[1]])
		}
	})
	if files < 500 {
		t.Fatalf("only %d files were read", files)
	}
}

func TestPronounsAreFound(t *testing.T) {
	for text, found := range map[string]bool{
		"whoever asks": true, "// Somebody else": true, "is nobody's": true, "Nobody.Home": true, "for anybody": true, "everybody waits": true,
		"http.NoBody": false, "no caller": false, "each body": false,
	} {
		if pronouns.MatchString(text) != found {
			t.Errorf("%q: got %t", text, !found)
		}
	}
}
