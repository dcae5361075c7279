// Command packaging makes what people install: for each platform an archive, which npm installs too, the list of what is
// in the program, and for Linux a Debian package. The same commit gives the same bytes, on any machine and in any folder,
// with the same version of Go.
//
//	make release PLATFORMS="linux/amd64 darwin/arm64" NPM_SCOPE=@owner
//
// With a scope, it also makes packages for a registry of npm, as esbuild has them: one per platform, and one that starts
// the program of the one that fits.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	platforms := flag.String("platforms", "", "for which `PLATFORMS`, such as \"linux/amd64 darwin/arm64\"; all if empty")
	scope := flag.String("scope", os.Getenv("NPM_SCOPE"), "also make packages for a registry of npm, in this `SCOPE`, such as @owner")
	flag.Parse()
	if err := run(*platforms, *scope); err != nil {
		fmt.Fprintln(os.Stderr, "release: "+err.Error())
		os.Exit(1)
	}
}

func run(names, scope string) error {
	targets, err := choose(names)
	if err != nil {
		return err
	}
	if err := checkScope(scope); err != nil {
		return err
	}
	src, err := readSource(".")
	if err != nil {
		return err
	}
	out := filepath.Join("bin", "release")
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := src.release(out, targets, scope); err != nil {
		return err
	}
	made, err := os.ReadFile(filepath.Join(out, sums))
	if err == nil {
		fmt.Printf("%s has, with %s:\n%s", out, sums, made)
	}
	return err
}

// A platform is a system and a processor, in the words of Go.
type platform struct{ system, processor string }

func (p platform) String() string { return p.system + "-" + p.processor }

// allPlatforms are the platforms that a release is made for.
var allPlatforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"},
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"freebsd", "amd64"}, {"freebsd", "arm64"},
}

// choose returns the platforms of a list of names, in the order of allPlatforms; all of them for an empty list.
func choose(names string) ([]platform, error) {
	wanted := strings.FieldsFunc(names, func(r rune) bool { return r == ' ' || r == ',' })
	if len(wanted) == 0 {
		return allPlatforms, nil
	}
	var chosen []platform
	for _, p := range allPlatforms {
		if name := p.system + "/" + p.processor; slices.Contains(wanted, name) {
			chosen = append(chosen, p)
			wanted = slices.DeleteFunc(wanted, func(w string) bool { return w == name })
		}
	}
	if len(wanted) > 0 {
		return nil, fmt.Errorf("no release is made for the platform %q; they are %s", wanted[0], strings.ReplaceAll(fmt.Sprint(allPlatforms), "-", "/"))
	}
	return chosen, nil
}

// release makes everything in a folder that doesn't exist yet.
func (s *source) release(out string, targets []platform, scope string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	programs, err := os.MkdirTemp("", "kernos-release")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(programs) }()
	here, err := s.compile(programs, thisPlatform)
	if err != nil {
		return err
	}
	common, err := s.describe(here)
	if err != nil {
		return err
	}
	for _, p := range targets {
		program := here
		if p != thisPlatform {
			if program, err = s.compile(programs, p); err != nil {
				return err
			}
		}
		if err := s.pack(out, p, program, common, scope); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	if scope != "" {
		if err := s.writeStarter(out, scope, targets, common); err != nil {
			return err
		}
	}
	return writeSums(out)
}

// pack makes what one platform has.
func (s *source) pack(out string, p platform, program string, common *description, scope string) error {
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	notices, err := s.notices(p)
	if err != nil {
		return err
	}
	files := append([]file{{"kernos", 0o755, text}, {"LICENSES-OF-OTHERS", 0o644, notices}}, common.texts...)
	name := fmt.Sprintf("kernos-%s-%s", common.version, p)
	manifest := localManifest(common.version, p)
	err = s.writeTarball(filepath.Join(out, name+".tar.gz"), name, slices.Concat(files, common.extras, []file{manifest}))
	if err != nil {
		return err
	}
	contents, err := s.contents(p, program, common.version)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, name+".cdx.json"), contents, 0o644); err != nil {
		return err
	}
	if scope != "" {
		if err := s.writePackage(out, platformManifest(scope, common.version, p), slices.Clone(files)); err != nil {
			return err
		}
	}
	if p.system != "linux" {
		return nil
	}
	return s.writeDeb(out, p, text, notices, common)
}

// sums is the name of the file with the checksums of the others.
const sums = "SHA256SUMS"

// writeSums writes the checksums of all files of a folder, as sha256sum -c reads them.
func writeSums(out string) error {
	entries, err := os.ReadDir(out) // sorted by name
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	if lines.Len() == 0 {
		return errors.New("nothing was made")
	}
	return os.WriteFile(filepath.Join(out, sums), []byte(lines.String()), 0o644)
}
