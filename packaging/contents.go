package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A component is a part of the program, as CycloneDX describes it.
type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref,omitempty"`
	Name    string `json:"name"`
	Version string `json:"version"`
	Hashes  []hash `json:"hashes,omitempty"`
	URL     string `json:"purl,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// library is a component with the address that scanners compare with their lists of vulnerabilities.
func library(kind, name, version string) component {
	address := "pkg:" + kind + "/" + strings.Replace(name, "@", "%40", 1) + "@" + strings.ReplaceAll(version, "+", "%2B")
	return component{Type: "library", Ref: address, Name: name, Version: version, URL: address}
}

// contents returns the list of what is in a program (an SBOM): the modules that go has linked, and the libraries for
// JavaScript that are embedded.
func (s *source) contents(p platform, program, version string) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	parts := []component{library("golang", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		parts = append(parts, library("golang", m.Path, m.Version)) // a replaced one too: it is this version, with small changes
	}
	embedded, err := s.embedded()
	if err != nil {
		return nil, err
	}
	parts = append(parts, embedded...)
	slices.SortFunc(parts, func(a, b component) int { return cmp.Compare(a.URL, b.URL) })
	document := map[string]any{
		"bomFormat":   "CycloneDX",
		"specVersion": "1.6",
		"version":     1,
		"metadata": map[string]any{
			"timestamp": s.time.Format(time.RFC3339),
			"component": component{
				Type: "application", Ref: "kernos", Name: "kernos", Version: version,
				Hashes: []hash{{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(text))}},
			},
			"properties": []map[string]string{{"name": "kernos:platform", "value": p.String()}, {"name": "kernos:commit", "value": s.revision}},
		},
		"components": parts,
	}
	out, err := json.MarshalIndent(document, "", "  ")
	return append(out, '\n'), err
}

// embedded returns the packages of npm of which something is in the program, as the texts next to them name them.
func (s *source) embedded() ([]component, error) {
	var found []component
	for file, pattern := range map[string]string{
		"console/third_party/LICENSES":               `(?m)(?:^== |, )(@?[a-z][\w./-]*) (\d+\.\d+\.\d+)`,
		"capability/script/engine/quickjs/README.md": "`(@?[a-z][\\w./-]*)` (\\d+\\.\\d+\\.\\d+)",
	} {
		text, err := os.ReadFile(filepath.Join(s.dir, file))
		if err != nil {
			return nil, err
		}
		named := regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1)
		if named == nil {
			return nil, fmt.Errorf("%s names no package with its version", file)
		}
		for _, m := range named {
			found = append(found, library("npm", m[1], m[2]))
		}
	}
	return found, nil
}

// notices returns the licenses of everything that is in the program for a platform and was written by others. They ask
// for it.
func (s *source) notices(p platform) ([]byte, error) {
	listed, err := s.output(p.variables(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Dir}}{{end}}{{end}}", "./cmd/kernos")
	if err != nil {
		return nil, err
	}
	root, err := s.output(nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	modules := slices.DeleteFunc(slices.Sorted(strings.Lines(listed)), func(line string) bool { return line == "\n" }) // a package of Go
	var out bytes.Buffer
	out.WriteString("Kernos contains the work of others, under these licenses.\n")
	for _, line := range append([]string{"Go\t" + root}, slices.Compact(modules)...) {
		name, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if err := licenses(&out, name, dir); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{"capability/script/engine/quickjs", "console/third_party", "internal/embed/english"} {
		if err := licenses(&out, dir, filepath.Join(s.dir, dir)); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// licenses writes the licenses in a folder.
func licenses(out *bytes.Buffer, name, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	license := regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)
	found := slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.IsDir() || !license.MatchString(e.Name()) })
	if len(found) == 0 {
		return fmt.Errorf("%s has no license in %s", name, dir)
	}
	for _, e := range found {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\n==== %s: %s\n\n%s\n", name, e.Name(), bytes.TrimSpace(text))
	}
	return nil
}
