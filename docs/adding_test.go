package docs_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestAddingASyscall adds the example of ADDING_A_SYSCALL.md to the tree, exactly as the page has it, and runs the rules that every
// definition obeys. The tree itself isn't changed: the compiler reads the changed files from elsewhere.
func TestAddingASyscall(t *testing.T) {
	text, err := os.ReadFile("ADDING_A_SYSCALL.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	var code, line string
	for _, b := range blocks {
		switch {
		case strings.HasPrefix(b[1], "// Package dice"):
			code = b[1]
		case strings.Contains(b[1], "dice.Module(),"):
			line = b[1]
		}
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(root, "daemon", "modules.go")
	modules, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(modules), "[]kernel.Module{\n\t\ts.tree", "[]kernel.Module{\n"+line+"\t\ts.tree", 1)
	module := path.Dir(reflect.TypeFor[reader]().PkgPath())
	changed = strings.Replace(changed, "import (\n", "import (\n\t\""+module+"/capability/dice\"\n", 1)
	if code == "" || line == "" || strings.Count(changed, "dice") != strings.Count(line, "dice")+1 {
		t.Fatalf("the page or %s isn't as this test expects: %q, %q", list, code, line)
	}
	dir := t.TempDir()
	overlay := map[string]map[string]string{"Replace": {}}
	for path, text := range map[string]string{filepath.Join(root, "capability", "dice", "dice.go"): code, list: changed} {
		file := filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][path] = file
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	const rules = "TestDescriptionsNameErrors|TestDefinitionsAreThoseOfTheKernel|TestProgramsCantRegisterInDomainsOfModules|TestEverySyscallDescribesItself|" +
		"TestSchemasOfModules|TestEventsHaveHappened|TestWhatAReplayLeavesAlone"
	test := exec.Command("go", "test", "-overlay", file, "-vet=off", "-ldflags=-s -w", "-v", "-run", "^("+rules+")$", "./daemon")
	test.Dir = root
	out, err := test.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS: Test") != strings.Count(rules, "|")+1 {
		t.Errorf("%v\n%s", err, out)
	}
}
