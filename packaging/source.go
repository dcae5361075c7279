package main

import (
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A source is the code that a release is made of.
type source struct {
	dir      string
	revision string    // the first digits of the commit, with "-modified" if files differ from it
	time     time.Time // the time of the commit, which all files of a release have

	compression int // how much work is put into small archives: a level of gzip
}

// readSource asks git about the code in a folder. SOURCE_DATE_EPOCH replaces the time.
func readSource(dir string) (*source, error) {
	s := &source{dir: dir, compression: gzip.DefaultCompression}
	head, err := s.output(nil, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return nil, fmt.Errorf("a release is made of a commit: %w", err)
	}
	commit, seconds, _ := strings.Cut(strings.TrimSpace(head), " ")
	if given := os.Getenv("SOURCE_DATE_EPOCH"); given != "" {
		seconds = given
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("SOURCE_DATE_EPOCH: expected seconds since 1970, got %q", seconds)
	}
	changed, err := s.output(nil, "git", "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	s.revision, s.time = commit[:12], time.Unix(n, 0).UTC()
	if changed != "" {
		s.revision += "-modified"
	}
	return s, nil
}

// output runs a program in the folder of the source, with additional variables, and returns what it prints.
func (s *source) output(env []string, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Dir, c.Env = s.dir, append(os.Environ(), env...)
	var notes strings.Builder
	c.Stderr = &notes
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, notes.String())
	}
	return string(out), nil
}

// thisPlatform is the platform of this machine.
var thisPlatform = platform{runtime.GOOS, runtime.GOARCH}

// variables returns what go is told about a platform. What a developer's environment says otherwise, such as GOFLAGS or a
// workspace, would change the program.
func (p platform) variables() []string {
	return []string{
		"GOOS=" + p.system, "GOARCH=" + p.processor, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0",
		"GOFLAGS=-trimpath", "GOEXPERIMENT=", "GOWORK=off",
	}
}

// compile builds the program for a platform in a folder, and returns its path. Version control is left out of it: the
// module's version that go derives from tags and changed files would change later, when a tag is set. The commit is stated
// instead.
func (s *source) compile(dir string, p platform) (program string, err error) {
	program = filepath.Join(dir, p.String())
	_, err = s.output(p.variables(), "go", "build", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X main.revision="+s.revision, "-o", program, "./cmd/kernos")
	return program, err
}

// A description is what the program says about itself.
type description struct {
	version string
	texts   []file // what every package has
	extras  []file // completions and the manual page
}

// describe asks a program of this machine for its version, its completions and its help.
func (s *source) describe(program string) (*description, error) {
	said := map[string]string{}
	for _, args := range []string{"--version", "help", "completion bash", "completion zsh", "completion fish"} {
		text, err := s.output(nil, program, strings.Fields(args)...)
		if err != nil {
			return nil, err
		}
		said[args] = text
	}
	words := strings.Fields(said["--version"])
	if len(words) < 2 {
		return nil, fmt.Errorf("kernos --version printed %q", said["--version"])
	}
	d := &description{version: words[1], extras: []file{
		{"completions/kernos.bash", 0o644, []byte(said["completion bash"])},
		{"completions/_kernos", 0o644, []byte(said["completion zsh"])},
		{"completions/kernos.fish", 0o644, []byte(said["completion fish"])},
		{"man/kernos.1", 0o644, manual(words[1], s.time, said["help"])},
	}}
	for _, name := range []string{"LICENSE", "README.md"} {
		text, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			return nil, err
		}
		d.texts = append(d.texts, file{name, 0o644, text})
	}
	return d, nil
}

// extra returns the content of a file among the extras.
func (d *description) extra(name string) []byte {
	for _, f := range d.extras {
		if f.name == name {
			return f.data
		}
	}
	panic("no extra is named " + name)
}

// manual returns the help of the program as a manual page.
func manual(version string, date time.Time, help string) []byte {
	escaped := strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "\n.", "\n\\&.").Replace(help)
	return fmt.Appendf(nil, `.TH KERNOS 1 %s "kernos %s"
.SH NAME
kernos \- %s
.SH SYNOPSIS
.B kernos
.RI [ COMMAND " | " MODULE " " METHOD ] " [ARGUMENT]..."
.SH DESCRIPTION
.nf
%s.fi
.SH SEE ALSO
.B kernos help
.I COMMAND
explains a command, and
.B kernos
.I MODULE
lists the methods of a module.
`, date.Format(time.DateOnly), version, summary, escaped)
}

// summary says what Kernos is, in descriptions of packages.
const summary = "memory, secrets, jobs and tools for AI agents, shared by every client"
