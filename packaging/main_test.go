package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// full makes the tests build all platforms, the second time in another folder with an empty build cache.
var full = flag.Bool("full", false, "build all platforms twice, as make release-check does")

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if work, err = os.MkdirTemp("", "kernos-packages"); err != nil {
		panic(err)
	}
	status := m.Run()
	_ = os.RemoveAll(work)
	os.Exit(status)
}

// work is a folder for what several tests share.
var work string

// here is the source in this checkout, with a fixed commit: its packages are the same before and after a commit.
func here(t testing.TB, dir string) *source {
	t.Helper()
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &source{dir: dir, revision: "0123456789ab", time: time.Unix(1735000000, 0).UTC(), compression: gzip.BestSpeed}
	if *full {
		s.compression = gzip.DefaultCompression
	}
	return s
}

// targets are the platforms that the tests build.
func targets() []platform {
	if *full {
		return allPlatforms
	}
	return []platform{thisPlatform}
}

var build sync.Once

// released returns the folder with a release, which the tests share.
func released(t testing.TB) string {
	t.Helper()
	out := filepath.Join(work, "release")
	build.Do(func() {
		if err := here(t, "..").release(out, targets(), ""); err != nil {
			t.Fatal(err)
		}
	})
	return out
}

// artefact returns the one file of the release whose name has this form.
func artefact(t testing.TB, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(released(t), pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v", pattern, found, err)
	}
	return found[0]
}

// archive returns the archive for this machine.
func archive(t testing.TB) string {
	t.Helper()
	return artefact(t, "kernos-*-"+thisPlatform.String()+".tar.gz")
}

// The second release is made in another folder, by a user with another umask. Every file has the same bytes.
func TestTheSameSourceGivesTheSameBytes(t *testing.T) {
	first := released(t)
	elsewhere := t.TempDir()
	copySource(t, "..", elsewhere)
	if *full {
		t.Setenv("GOCACHE", t.TempDir())
	}
	t.Setenv("GOFLAGS", "-ldflags=-X=main.version=9.9.9")
	t.Setenv("TZ", "Asia/Tokyo")
	defer syscall.Umask(syscall.Umask(0o077))
	second := filepath.Join(elsewhere, "out")
	if err := here(t, elsewhere).release(second, targets(), ""); err != nil {
		t.Fatal(err)
	}
	made := names(t, first)
	if again := names(t, second); !slices.Equal(made, again) {
		t.Fatalf("the first release has %q, the second %q", made, again)
	}
	if want := 2 + 2*len(targets()); len(made) < want {
		t.Errorf("the release has %q, fewer than %d files", made, want)
	}
	for _, name := range made {
		if !bytes.Equal(read(t, first, name), read(t, second, name)) {
			t.Errorf("%s differs", name)
		}
	}
}

// copySource copies the files that git knows or doesn't ignore.
func copySource(t *testing.T, from, to string) {
	t.Helper()
	c := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	c.Dir = from
	list, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed, and not committed yet
		}
		target := filepath.Join(to, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, text, 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func read(t testing.TB, path ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The checksums have the form that sha256sum --check reads.
func TestChecksumsAreThoseOfTheFiles(t *testing.T) {
	dir := released(t)
	var want strings.Builder
	for _, name := range names(t, dir) {
		if name != sums {
			fmt.Fprintf(&want, "%x  %s\n", sha256.Sum256(read(t, dir, name)), name)
		}
	}
	if got := string(read(t, dir, sums)); got != want.String() {
		t.Errorf("they are\n%swant\n%s", got, &want)
	}
}

// The list of contents has each module that go has linked, and what is embedded.
func TestTheContentsAreListed(t *testing.T) {
	var list struct {
		Format     string `json:"bomFormat"`
		Components []struct{ Name, Version, Purl string }
		Metadata   struct{ Component struct{ Version string } }
	}
	if err := json.Unmarshal(read(t, artefact(t, "kernos-*-"+thisPlatform.String()+".cdx.json")), &list); err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, c := range list.Components {
		if c.Version == "" || listed[c.Purl] != "" {
			t.Errorf("%s %q is listed twice or has no version", c.Purl, c.Version)
		}
		listed[c.Purl] = c.Version
	}
	if version := versionOf(t); list.Format != "CycloneDX" || list.Metadata.Component.Version != version {
		t.Errorf("it lists %+v, and the source has version %s", list.Metadata, version)
	}
	c := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}}{{end}}{{end}}", "./cmd/kernos")
	c.Dir, c.Env = "..", append(os.Environ(), thisPlatform.variables()...)
	modules, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	wanted := slices.Compact(slices.Sorted(slices.Values(strings.Fields(string(modules)))))
	if len(wanted) < 50 {
		t.Fatalf("go list has %d modules", len(wanted))
	}
	for _, m := range wanted {
		if listed["pkg:golang/"+strings.ReplaceAll(m, "+", "%2B")] == "" {
			t.Errorf("%s isn't listed", m)
		}
	}
	for _, name := range []string{"pkg:golang/stdlib@", "pkg:npm/preact@", "pkg:npm/%40preact/signals@", "pkg:npm/quickjs-wasi@"} {
		if !slices.ContainsFunc(list.Components, func(c struct{ Name, Version, Purl string }) bool { return strings.HasPrefix(c.Purl, name) }) {
			t.Errorf("no version of %s is listed", name)
		}
	}
}

func TestPlatformsAreChosenByName(t *testing.T) {
	for names, want := range map[string]string{
		"":                          fmt.Sprint(allPlatforms),
		"linux/amd64":               "[linux-amd64]",
		"freebsd/arm64 linux/arm64": "[linux-arm64 freebsd-arm64]",
		"darwin/arm64,linux/amd64":  "[linux-amd64 darwin-arm64]",
	} {
		if got, err := choose(names); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q chooses %v, %v, want %s", names, got, err, want)
		}
	}
	if _, err := choose("linux/amd64 linux/amd46"); err == nil || !strings.Contains(err.Error(), `"linux/amd46"`) || !strings.Contains(err.Error(), "darwin/arm64") {
		t.Errorf("an unknown platform: %v", err)
	}
}

// The commit and its time are those of git, and a change that isn't committed shows.
func TestTheSourceIsACommit(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "")
	dir := t.TempDir()
	if _, err := readSource(dir); err == nil {
		t.Error("a folder that git doesn't know is a source")
	}
	git := func(args ...string) string {
		c := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@localhost"}, args...)...)
		c.Dir, c.Env = dir, append(os.Environ(), "GIT_COMMITTER_DATE=1735000000 +0900")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "--quiet")
	git("commit", "--quiet", "--allow-empty", "--message", "first")
	s, err := readSource(dir)
	if err != nil || s.revision != git("rev-parse", "HEAD")[:12] || s.time.Format(time.RFC3339) != "2024-12-24T00:26:40Z" {
		t.Errorf("it is %+v, %v", s, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	if changed, err := readSource(dir); err != nil || changed.revision != s.revision+"-modified" || changed.time.Unix() != 1700000000 {
		t.Errorf("with a change and a time, it is %+v, %v", changed, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "today")
	if _, err := readSource(dir); err == nil || !strings.Contains(err.Error(), `"today"`) {
		t.Errorf("SOURCE_DATE_EPOCH=today: %v", err)
	}
}

// docs/INSTALL.md names files that a release has, and the version that the example of a configuration has is this one.
func TestTheInstructionsNameWhatIsMade(t *testing.T) {
	version := versionOf(t)
	var made []string
	for _, p := range allPlatforms {
		made = append(made, "kernos-"+version+"-"+p.String()+".tar.gz", "kernos-"+version+"-"+p.String()+".cdx.json")
	}
	made = append(made, "kernos_"+version+"_amd64.deb", "kernos_"+version+"_arm64.deb", "owner-kernos-"+version+".tgz")
	named := regexp.MustCompile(`[\w-]*kernos[-_][\w.*-]*\.(tar\.gz|tgz|deb|cdx\.json)`).FindAllString(string(read(t, "../docs/INSTALL.md")), -1)
	if len(named) < 6 {
		t.Fatalf("it names only %q", named)
	}
	for _, name := range named {
		if !slices.ContainsFunc(made, func(file string) bool { found, err := filepath.Match(name, file); return err == nil && found }) {
			t.Errorf("it names %s, and a release has %q", name, made)
		}
	}
}

// versionOf returns the version that the source states.
func versionOf(t *testing.T) string {
	t.Helper()
	v := regexp.MustCompile(`(?m)^var version = "(.*)"$`).FindSubmatch(read(t, "../cmd/kernos/root.go"))
	if v == nil {
		t.Fatal("the source states no version")
	}
	return string(v[1])
}

// What is in packaging/systemd is among the files of the Debian package.
func TestUnitsBelongToTheDebianPackage(t *testing.T) {
	s := here(t, t.TempDir())
	if units, err := s.units(); err != nil || units != nil {
		t.Errorf("without units: %v, %v", units, err)
	}
	unit := filepath.Join(s.dir, "packaging/systemd/kernos@.service")
	if err := errors.Join(os.MkdirAll(filepath.Dir(unit), 0o700), os.WriteFile(unit, []byte("[Service]\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	units, err := s.units()
	if err != nil || len(units) != 1 || units[0].name != "usr/lib/systemd/system/kernos@.service" || units[0].mode != 0o644 || string(units[0].data) != "[Service]\n" {
		t.Errorf("they are %v, %v", units, err)
	}
}
