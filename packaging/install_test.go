package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kernos/internal/testkit"
	"kernos/internal/testkit/tool"
)

// A person is a user of a machine with a home and a PATH.
type person struct {
	t   *testing.T
	env []string
	dir string
}

// newPerson returns a person whose home is empty. The daemons that commands start end with the test.
func newPerson(t *testing.T, path string) *person {
	t.Helper()
	home := testkit.ShortDir(t)
	withoutHTTP(t, home+"/kernos")
	return &person{t: t, dir: home, env: []string{"PATH=" + path, "HOME=" + home, "KERNOS_HOME=" + home + "/kernos", "XDG_RUNTIME_DIR=" + home}}
}

// withoutHTTP makes a home whose daemon has no address of TCP, which another program may use.
func withoutHTTP(t *testing.T, home string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(home, 0o700), os.WriteFile(home+"/config.yaml", []byte("no-http: true\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// command returns a command that the person types. The program is looked for in their PATH.
func (p *person) command(args ...string) *exec.Cmd {
	p.t.Helper()
	program := args[0]
	for dir := range strings.SplitSeq(strings.TrimPrefix(p.env[0], "PATH="), ":") {
		if found := filepath.Join(dir, args[0]); !filepath.IsAbs(program) && isFile(found) {
			program = found
		}
	}
	c := exec.Command(program, args[1:]...)
	c.Env, c.Dir = p.env, p.dir
	return c
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// runs runs a command, which is to succeed, and returns what it prints.
func (p *person) runs(args ...string) string {
	p.t.Helper()
	return output(p.t, p.command(args...))
}

func output(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	var notes bytes.Buffer
	c.Stderr = &notes
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", c.Args, err, out, &notes)
	}
	return string(out)
}

// uses does with an installed program what its users do first, and wants it to know how it was installed.
func (p *person) uses(way string, kernos ...string) {
	p.t.Helper()
	p.t.Cleanup(func() {
		p.runs(append(kernos, "stop")...)
	})
	p.runs(append(kernos, "memory", "set", "notes/1", "milk")...)
	if got := p.runs(append(kernos, "memory", "get", "notes/1")...); got != "\"milk\"\n" {
		p.t.Errorf("the value is %q", got)
	}
	if got := p.runs(append(kernos, "--version")...); !strings.Contains(got, "(0123456789ab)") {
		p.t.Errorf("the version is %q, without the commit", got)
	}
	if got := p.runs(append(kernos, "upgrade", "--jq", ".installed")...); got != way+"\n" {
		p.t.Errorf("it was installed with %s, and says %q", way, got)
	}
}

// The archive needs nothing else: the PATH has only its program.
func TestTheArchiveIsAllThatIsNeeded(t *testing.T) {
	dir := t.TempDir()
	output(t, exec.Command("tar", "xzf", archive(t), "-C", dir, "--strip-components", "1"))
	ada := newPerson(t, dir)
	ada.uses("archive", "kernos")
	for _, name := range []string{"LICENSE", "LICENSES-OF-OTHERS", "README.md", "completions/kernos.bash", "completions/_kernos", "completions/kernos.fish", "man/kernos.1"} {
		if len(read(t, dir, name)) == 0 {
			t.Errorf("%s is empty", name)
		}
	}
	if text := string(read(t, dir, "LICENSES-OF-OTHERS")); !strings.Contains(text, "==== github.com/spf13/cobra:") || !strings.Contains(text, "==== Go:") || !strings.Contains(text, "==== capability/script/engine/quickjs: LICENSE.quickjs-ng") {
		t.Error("licenses are missing")
	}
	if text := string(read(t, dir, "man/kernos.1")); !strings.HasPrefix(text, ".TH KERNOS 1 2024-12-24") || !strings.Contains(text, "\n  memory") && !strings.Contains(text, "memory,") {
		t.Errorf("the manual page is\n%s", text)
	}
}

// A registry is one of npm on this machine, which notes what it is asked.
type registry struct{ address, log string }

// asked returns the requests so far.
func (r *registry) asked(t *testing.T) []string {
	t.Helper()
	return strings.Split(strings.TrimSuffix(string(read(t, r.log)), "\n"), "\n")[1:]
}

// A published package is one that a registry has.
type published struct {
	manifest
	File string `json:"file"`
}

// newRegistry starts a registry with these packages in a folder.
func newRegistry(t *testing.T, dir string, packages map[string]published) *registry {
	t.Helper()
	list, err := json.Marshal(packages)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "registry.json"), list, 0o600); err != nil {
		t.Fatal(err)
	}
	r := &registry{log: filepath.Join(t.TempDir(), "log")}
	log, err := os.Create(r.log)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("node", "testdata/registry.js", filepath.Join(dir, "registry.json"))
	c.Stdout, c.Stderr = log, os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _ = c.Process.Kill(), c.Wait(), log.Close() })
	testkit.Until(t, "the registry runs", func() bool {
		address, _, found := strings.Cut(string(read(t, r.log)), "\n")
		r.address = address
		return found
	})
	return r
}

// npmUser returns a person whose npm knows only a registry.
func npmUser(t *testing.T, r *registry) *person {
	t.Helper()
	ada := newPerson(t, os.Getenv("PATH"))
	ada.env = append(ada.env,
		"npm_config_registry="+r.address, "npm_config_cache="+ada.dir+"/cache", "npm_config_prefix="+ada.dir+"/global",
		"npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false")
	return ada
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}` + "\n"

// The archive is a package of npm, and npx runs it as configurations of MCP clients do. No registry is asked for anything.
func TestNpmInstallsTheArchive(t *testing.T) {
	tool.Need(t, "npm", "node")
	r := newRegistry(t, t.TempDir(), nil)
	ada := npmUser(t, r)
	ada.runs("npm", "install", "--prefix", ada.dir+"/project", archive(t))
	kernos := ada.dir + "/project/node_modules/.bin/kernos"
	ada.uses("npm", kernos)
	if got := ada.runs(kernos, "upgrade", "--jq", ".commands[0]"); !strings.Contains(got, "npm install --prefix "+ada.dir+"/project ./") {
		t.Errorf("it is upgraded with %s", got)
	}

	client := ada.command("npx", "--yes", "file:"+archive(t), "mcp")
	in, out := testkit.Piped(t, client)
	if _, err := in.Write([]byte(initialize)); err != nil {
		t.Fatal(err)
	}
	answer, err := out.ReadString('\n')
	if err != nil || !strings.Contains(answer, `"serverInfo"`) || !strings.Contains(answer, `"kernos"`) {
		t.Errorf("the client is answered %s, %v", answer, err)
	}
	if asked := r.asked(t); len(asked) > 0 {
		t.Errorf("npm has asked for %q", asked)
	}
}

// script is a program that stands for kernos where only what npm does matters.
const script = "#!/bin/sh\necho kernos \"$@\"\n[ \"$1\" != fail ] || exit 3\n[ \"$1\" != wait ] || exec sleep 600\n"

// npm update --global asks the registry for a package by the name of each that is installed, also of one that came from a
// file. It gets no answer, since the public registry takes no package of this name.
func TestNoPackageOfAStrangerReplacesTheArchive(t *testing.T) {
	tool.Need(t, "npm", "node")
	dir := t.TempDir()
	s := here(t, "..")
	pack := func(name string, files ...file) {
		if err := s.writeTarball(filepath.Join(dir, name), "kernos", files); err != nil {
			t.Fatal(err)
		}
	}
	pack("kernos.tar.gz", localManifest("0.1.0", thisPlatform), file{"kernos", 0o755, []byte(script)})
	strange := newManifest(strings.ToLower(localName), "99.0.0")
	strange.Bin = map[string]string{"kernos": "kernos"}
	pack("stranger.tgz", strange.file(), file{"kernos", 0o755, []byte("#!/bin/sh\necho stranger\n")})
	r := newRegistry(t, dir, map[string]published{"stranger": {strange, "stranger.tgz"}})
	ada := npmUser(t, r)
	ada.runs("npm", "install", "--global", filepath.Join(dir, "kernos.tar.gz"))
	if err := ada.command("npm", "update", "--global").Run(); err == nil {
		t.Error("npm has found an update")
	}
	if got := ada.runs(ada.dir+"/global/bin/kernos", "a b"); got != "kernos a b\n" {
		t.Errorf("after npm update, kernos prints %q", got)
	}
	for _, asked := range r.asked(t) {
		if asked != "GET /"+localName {
			t.Errorf("npm has asked for %q", asked)
		}
	}
}

// With a scope, npm installs the package for the machine with the one that is named.
func TestPackagesForARegistryStartTheProgramOfTheMachine(t *testing.T) {
	tool.Need(t, "npm", "node")
	dir, s, program := t.TempDir(), here(t, ".."), []file{{"kernos", 0o755, []byte(script)}}
	packages := map[string]published{}
	for _, p := range allPlatforms {
		m := platformManifest("@owner", "0.1.0", p)
		if err := s.writePackage(dir, m, program); err != nil {
			t.Fatal(err)
		}
		packages[m.Name] = published{m, strings.ReplaceAll(strings.TrimPrefix(m.Name, "@"), "/", "-") + "-0.1.0.tgz"}
	}
	common := &description{version: "0.1.0", texts: []file{{"README.md", 0o644, []byte("Kernos")}}}
	if err := s.writeStarter(dir, "@owner", allPlatforms, common); err != nil {
		t.Fatal(err)
	}
	packages["@owner/kernos"] = published{starterManifest("@owner", "0.1.0", allPlatforms), "owner-kernos-0.1.0.tgz"}
	r := newRegistry(t, dir, packages)
	ada := npmUser(t, r)
	if got := ada.runs("npx", "--yes", "@owner/kernos", "a b", "c"); got != "kernos a b c\n" {
		t.Errorf("npx prints %q", got)
	}
	fetched := 0
	for _, asked := range r.asked(t) {
		if !strings.HasPrefix(asked, "GET /@owner") && !strings.HasPrefix(asked, "GET /owner-kernos-") {
			t.Errorf("npm has asked for %q", asked)
		}
		if strings.HasSuffix(asked, ".tgz") {
			fetched++
		}
	}
	if fetched != 2 {
		t.Errorf("npm has fetched %d packages, want the one that is named and the one for this machine: %q", fetched, r.asked(t))
	}

	ada.runs("npm", "install", "--prefix", ada.dir+"/project", "@owner/kernos")
	kernos := ada.dir + "/project/node_modules/.bin/kernos"
	if err := ada.command(kernos, "fail").Run(); err == nil || err.Error() != "exit status 3" {
		t.Errorf("the status 3 of the program becomes %v", err)
	}
	waiting := ada.command(kernos, "wait")
	out, err := waiting.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	printed := bufio.NewReader(out)
	if line, err := printed.ReadString('\n'); err != nil || line != "kernos wait\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := waiting.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(printed); err != nil || len(rest) > 0 { // the program has ended, too
		t.Errorf("it goes on with %q, %v", rest, err)
	}
	if err := waiting.Wait(); err == nil || err.Error() != "signal: terminated" {
		t.Errorf("SIGTERM becomes %v", err)
	}
}

func TestAScopeIsWhatNpmCallsOne(t *testing.T) {
	for scope, good := range map[string]bool{"": true, "@owner": true, "@a-b.c": true, "owner": false, "@": false, "@Owner": false, "@a/b": false} {
		if err := checkScope(scope); (err == nil) != good {
			t.Errorf("%q: %v", scope, err)
		}
	}
}
