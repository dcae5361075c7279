// The test types the console examples of the README and of each
// page into bash, and compares what is printed.
package docs_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kernos/internal/testkit"
	"kernos/internal/testkit/tool"
	"kernos/internal/testkit/tty"
)

var update = flag.Bool("update", false, "write what is printed into the pages, where it differs")

// notRun are the commands that the test doesn't type, and why.
var notRun = map[string]string{
	"make test":               "it is what runs this test",
	"go run ./cmd/kernos ls":  "it shows a syscall that the reader has just written",
	"go install ./cmd/kernos": "it installs into the reader's own folder",
}

func TestConsole(t *testing.T) {
	kernos := filepath.Dir(testkit.Program(t, "kernos/cmd/kernos"))
	for _, page := range append(pages(t), "../README.md") {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			tool.Need(t, append(tool.In(typed(string(text))), "bash")...)
			p := &reader{t: t, kernos: kernos}
			changed := block.ReplaceAllFunc(text, func(b []byte) []byte {
				return fmt.Appendf(nil, "```console\n%s```\n", p.try(string(block.FindSubmatch(b)[1])))
			})
			if *update && !bytes.Equal(changed, text) {
				if err := os.WriteFile(page, changed, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// pages returns the path of every page of this folder.
func pages(t *testing.T) (all []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) == ".md" {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var block = regexp.MustCompile("(?ms)^```console\n(.*?)^```\n")

// An example is one command of a block, and what it prints.
type example struct {
	command []string // lines, the first after $, the others after >
	output  string
}

func (e *example) String() string {
	return "$ " + strings.Join(e.command, "\n> ") + "\n" + e.output
}

func examples(block string) (all []example) {
	for line := range strings.Lines(block) {
		typed, first := strings.CutPrefix(line, "$ ")
		more, continues := strings.CutPrefix(line, ">")
		more = strings.TrimPrefix(more, " ")
		switch last := len(all) - 1; {
		case first:
			all = append(all, example{command: []string{strings.TrimSuffix(typed, "\n")}})
		case last < 0:
		case continues && all[last].output == "":
			all[last].command = append(all[last].command, strings.TrimSuffix(more, "\n"))
		default:
			all[last].output += line
		}
	}
	return all
}

// A reader types the examples of a page, one block after the other, in a new home.
type reader struct {
	t      *testing.T
	kernos string // the folder of the program

	root string // has the home and the runtime directory
	port string
	env  []string
}

// typed returns every command of a page.
func typed(page string) string {
	var lines []string
	for _, b := range block.FindAllStringSubmatch(page, -1) {
		for _, e := range examples(b[1]) {
			lines = append(lines, e.command...)
		}
	}
	return strings.Join(lines, "\n")
}

// begin makes the home when the first command is typed.
func (r *reader) begin() {
	if r.root != "" {
		return
	}
	root, err := os.MkdirTemp("", "kd") // its name is short, as those of sockets must be
	if err != nil {
		r.t.Fatal(err)
	}
	r.root = root
	const home = "ada/.local/share/kernos"
	for _, dir := range []string{"ada/kernos", "run", home} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, dir := range []string{"sdk", "examples"} { // as in a copy of the repository
		above, err := filepath.Abs(filepath.Join("..", dir))
		if err != nil {
			r.t.Fatal(err)
		}
		if err := os.Symlink(above, filepath.Join(root, "ada/kernos", dir)); err != nil {
			r.t.Fatal(err)
		}
	}
	_, r.port, _ = net.SplitHostPort(testkit.Address(r.t))
	// A daemon that a command starts doesn't take its address from the environment.
	if err := os.WriteFile(filepath.Join(root, home, "config.yaml"), []byte("addr: 127.0.0.1:"+r.port+"\n"), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.env = []string{"PATH=" + r.kernos + ":" + os.Getenv("PATH"), "HOME=" + root + "/ada", "XDG_RUNTIME_DIR=" + root + "/run",
		"TZ=UTC", "LANG=C.UTF-8", "TERM=dumb", "PYTHONDONTWRITEBYTECODE=1", "EDITOR=true"}
	r.t.Cleanup(func() {
		stop := r.command("kernos", "stop")
		if out, err := stop.CombinedOutput(); err != nil {
			r.t.Errorf("kernos stop: %v\n%s", err, out)
		}
		_ = os.RemoveAll(root)
	})
}

func (r *reader) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(r.kernos, name), args...)
	if name == "bash" {
		c = exec.Command(name, args...)
	}
	c.Dir, c.Env = filepath.Join(r.root, "ada/kernos"), r.env
	return c
}

// mark begins the output of a command.
const mark = "\x01"

// try types a block, and returns it with what is printed in place of what differs from it.
func (r *reader) try(text string) string {
	all := examples(text)
	if len(all) == 0 || slices.ContainsFunc(all, func(e example) bool { return notRun[e.command[0]] != "" }) {
		return text
	}
	r.begin()
	if len(all) == 1 && strings.HasSuffix(all[0].command[0], "kernos serve") {
		return r.compare(all, []string{r.serve(all[0].command[0])})
	}
	if len(all) == 1 && all[0].command[0] == "kernos chat" {
		return r.compare(all, []string{r.chat(all[0].output)})
	}
	// The block goes to standard input, as a paste does: a command that reads it takes the commands
	// after it.
	var typed strings.Builder
	for _, e := range all {
		fmt.Fprintf(&typed, "printf '%s'\n%s\n", `\001`, r.local(strings.Join(e.command, "\n")))
	}
	bash := r.command("bash", "--norc", "-s")
	bash.Stdin = strings.NewReader(typed.String())
	// A file, not a pipe: a program that stays in the background keeps it open.
	out, err := os.CreateTemp(r.root, "out")
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	bash.Stdout, bash.Stderr = out, out
	_ = bash.Run() // the status of the last command
	printed, err := os.ReadFile(out.Name())
	if err != nil {
		r.t.Fatal(err)
	}
	return r.compare(all, strings.Split(string(printed), mark)[1:])
}

// serve starts what serves, which keeps its terminal, and returns what it prints when it serves. What begins with go is
// typed in the repository.
func (r *reader) serve(typed string) string {
	c := r.command("bash", "--norc", "-c", "exec "+typed)
	if strings.HasPrefix(typed, "go ") {
		c.Dir, c.Env = "..", append(slices.Clone(r.env), goEnv(r.t)...)
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go run waits for the program that an interrupt ends
	stderr, err := c.StderrPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGINT)
		_, _ = io.Copy(io.Discard, stderr)
		_ = c.Wait()
	})
	var printed strings.Builder
	for lines := bufio.NewReader(stderr); !strings.Contains(printed.String(), "an interrupt, ends it."); {
		line, err := lines.ReadString('\n')
		if err != nil {
			r.t.Fatalf("kernos serve: %v\n%s%s", err, printed.String(), line)
		}
		printed.WriteString(line)
	}
	return printed.String()
}

// goEnv returns where Go has its caches, for a command whose home is another one.
func goEnv(t *testing.T) (vars []string) {
	t.Helper()
	names := []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS", "CGO_ENABLED"}
	values, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, value := range strings.Split(strings.TrimSuffix(string(values), "\n"), "\n") {
		vars = append(vars, names[i]+"="+value)
	}
	return vars
}

// decision returns the key of the decision that an answer on a page shows.
func decision(answer string) string {
	switch {
	case strings.Contains(answer, "    denied"):
		return "d"
	case strings.Contains(answer, "    allowed always"):
		return "w"
	}
	return "a"
}

// chat types the inputs of a conversation on a terminal, the lines after >, and returns what it shows. What
// asks is decided as the page has it.
func (r *reader) chat(page string) string {
	c := r.command("kernos", "chat")
	c.Env = append(slices.Clone(c.Env), "TERM=xterm", "NO_COLOR=1", "KERNOS_MODEL_SERVERS=none")
	x := tty.Start(r.t, c, 96, 200)
	const ready = "> a message, /help, @file"
	for _, exchange := range strings.Split(page, "\n> ")[1:] {
		input, answer, _ := strings.Cut(exchange, "\n")
		input = r.local(input)
		x.Until(ready)
		x.Submit(input)
		x.When("the answer to "+input, func(screen string) bool {
			return strings.Contains(screen, "> "+input+"\n\n") && (strings.Contains(screen, ready) || strings.Contains(screen, "a allow ·"))
		})
		if strings.Contains(x.Screen(), "a allow ·") {
			x.Type(decision(answer))
		}
	}
	x.Until(ready)
	x.Type(tty.CtrlD)
	x.Wait()
	return x.Screen() + "\n"
}

// local is a command with the address of this reader's daemon.
func (r *reader) local(command string) string {
	return strings.ReplaceAll(command, "127.0.0.1:7420", "127.0.0.1:"+r.port)
}

func (r *reader) compare(all []example, printed []string) string {
	r.t.Helper()
	var text strings.Builder
	for i, e := range all {
		got := ""
		if i < len(printed) {
			got = strings.NewReplacer(r.root+"/ada", "/home/ada", r.root+"/run", "/run/user/1000", "127.0.0.1:"+r.port, "127.0.0.1:7420", r.kernos+"/kernos", "/usr/local/bin/kernos").Replace(printed[i])
		}
		if !same(e.output, got) {
			if !*update {
				r.t.Errorf("$ %s\nprinted:\n%s\nthe page has:\n%s\n(go test ./docs -update writes it)", strings.Join(e.command, "\n> "), got, e.output)
			}
			e.output = got
		}
		text.WriteString(e.String())
	}
	return text.String()
}

// masks are what differs from run to run.
var masks = []struct{ pattern, mask string }{
	{`01[0-9A-HJKMNP-TV-Z]{24}`, "ID"},
	{`01[0-9A-HJKMNP-TV-Z]{3}…[0-9A-HJKMNP-TV-Z]{6}`, "ID"},
	{`\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?Z?`, "TIME"},
	{`\d{8}-\d{6}`, "TIME"},
	{`(?m)^(#\d+  )\d\d:\d\d:\d\d$`, "${1}TIME"},
	{`\b1[78]\d{11}\b`, "MILLISECONDS"},
	{`\b\d+(\.\d+)?(ms|µs|s)\b`, "DURATION"},
	{`(?m)^( +✓ DURATION .{30}).*…$`, "$1…"}, // cut to the width of a terminal
	{`\b\d+(\.\d+)? (B|KB|MB)\b`, "SIZE"},
	{`process( +)\d+`, "process PID"},
	{`#enter=[A-Z2-7]+`, "#enter=CODE"},
	{`\b[0-9a-f]{12,64}\b`, "HASH"},
	{`kernos \d+\.\d+\.\d+( \([0-9a-f]+\))?`, "kernos VERSION"},
	{`(syscalls +)\d+: .*`, "syscalls N"},
	{`\d+(\.\d+)? (messages recorded|entries|in the last \w+)`, "N $2"},
	{`messages +\d+`, "messages N"},
	{`\d+ texts? embedded by .*`, "N texts embedded"}, // texts are embedded in the background
	{`(?m)^ +\d+\.\d\d  `, "SCORE "},
	{`~/|/home/ada/`, "HOME/"},
	{` +`, " "},
}

func masked(text string) string {
	for _, m := range masks {
		text = regexp.MustCompile(m.pattern).ReplaceAllString(text, m.mask)
	}
	return strings.TrimSpace(text)
}

// same compares what a page has with what was printed. A line … of the page stands for any lines.
func same(page, printed string) bool {
	parts := strings.Split("\n"+masked(page)+"\n", "\n…\n")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile("^" + strings.Join(parts, `\n(?s:.*)`) + "$").MatchString("\n" + masked(printed) + "\n")
}
