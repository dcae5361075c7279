package content

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"kernos/kernel"
	"kernos/message"
)

// A describedTool is the description that a version of a tool has given of itself.
type describedTool struct{ version, description string }

func (c *Content) description(ctx context.Context, uri string) (string, problem) {
	if c.execute != ExecuteLocal || isRemote(uri) || !kernel.PrincipalOf(ctx).RunsTools() {
		return "", executionSkipped
	}
	version, err := c.files.Version(ctx, uri)
	if err != nil {
		c.tools.Drop(uri)
		return "", toolProblem(err)
	}
	path, ok := c.files.Program(uri)
	if !ok { // neither is what an earlier execution has printed shown
		return "", executionSkipped
	}
	if kept, ok := c.tools.Get(uri); ok && kept.version == version {
		return kept.description, ""
	}
	if kernel.Reaching(ctx, kernel.ToProgram, uri) != nil {
		return "", executionSkipped
	}
	text, problem := c.describe(ctx, path)
	if problem != "" {
		return "", problem // the problem isn't cached, since it may pass
	}
	if info, err := os.Stat(path); err == nil && reliable(&File{Version: version, Modified: info.ModTime()}) {
		c.tools.Put(uri, describedTool{version, text}, keptCost+len(uri)+len(version)+len(text))
	}
	return text, ""
}

// toolProblem returns the reason why there is no file to execute.
func toolProblem(err error) problem {
	if errors.Is(err, context.DeadlineExceeded) {
		return timedOut
	}
	e, _ := errors.AsType[*message.Error](err)
	for ; e != nil; e = e.Cause { // a server's answer is the cause of a 502
		switch e.Code {
		case 403:
			return permissionDenied
		case 404:
			return notFound
		case 504:
			return timedOut
		}
	}
	return fetchFailed
}

// describe asks a tool what it is for: what it prints for --description, or else the first
// paragraph of its --help. Both together have toolTimeout from when the first begins.
func (c *Content) describe(ctx context.Context, path string) (string, problem) {
	select {
	case c.running <- struct{}{}:
		defer func() { <-c.running }()
	case <-ctx.Done():
		return "", timedOut
	}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	command, problem := commandOf(ctx, path)
	if problem != "" {
		return "", problem
	}
	out, problem := run(ctx, filepath.Dir(path), append(command, "--description")...)
	if problem == timedOut || problem == permissionDenied {
		return "", problem
	}
	if text := shown(out); problem == "" && text != "" {
		return cut(text, maxDescription), ""
	}
	if out, problem = run(ctx, filepath.Dir(path), append(command, "--help")...); problem != "" {
		return "", problem
	}
	text := firstParagraph(shown(out))
	if text == "" {
		return "", noOutput
	}
	return cutWithHint(text, maxDescription), ""
}

// commandOf returns what executes a file: itself if it may and can, or a runtime for
// JavaScript and TypeScript that is installed.
func commandOf(ctx context.Context, path string) ([]string, problem) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, notFound
	case errors.Is(err, fs.ErrPermission):
		return nil, permissionDenied
	case err != nil:
		return nil, executionFailed
	}
	executable := info.Mode()&0o111 != 0
	runtimes := runtimesOf(path)
	if executable && (runtimes == nil || hasShebang(path)) {
		return []string{path}, ""
	}
	if runtimes == nil {
		return nil, permissionDenied
	}
	for _, r := range runtimes {
		program, err := exec.LookPath(r.program)
		if err != nil || r.probe != nil && !probe(ctx, program, r.probe) {
			continue
		}
		return append(append([]string{program}, r.flags...), path), ""
	}
	return nil, noRuntime
}

// A scriptRuntime is a program that executes scripts. With a probe, it must print something
// for it to be able to.
type scriptRuntime struct {
	program string
	flags   []string
	probe   []string
}

var (
	deno = scriptRuntime{program: "deno", flags: []string{"run", "--quiet", "--no-prompt", "--allow-all"}}
	bun  = scriptRuntime{program: "bun"}
	node = scriptRuntime{program: "node"}

	// nodeTypes is Node where it takes TypeScript: from version 22 on, by a flag that
	// older ones refuse.
	nodeTypes = scriptRuntime{
		program: "node",
		flags:   []string{"--experimental-strip-types"},
		probe:   []string{"--experimental-strip-types", "--print", "1"},
	}
)

// runtimesOf lists what may execute a file by its name, the best first; nil if it is no
// script of these.
func runtimesOf(path string) []scriptRuntime {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".js", ".mjs", ".cjs":
		return []scriptRuntime{node, deno, bun}
	case ".ts", ".mts":
		return []scriptRuntime{deno, bun, nodeTypes}
	}
	return nil
}

func probe(ctx context.Context, program string, args []string) bool {
	out, problem := run(ctx, os.TempDir(), append([]string{program}, args...)...)
	return problem == "" && len(bytes.TrimSpace(out)) > 0
}

func hasShebang(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return true // a program that may be executed and not read
	}
	defer func() { _ = f.Close() }()
	var begin [2]byte
	n, _ := f.Read(begin[:])
	return string(begin[:n]) == "#!"
}
