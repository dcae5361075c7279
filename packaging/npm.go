package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// localName is the name of the archives as packages of npm. They are installed from files, and need no registry. But npm
// update -g asks the public registry for a newer package of each name that is installed, whatever it was installed from.
// That registry takes no new names with capital letters, so no package can take the place of this one.
const localName = "Kernos"

// A manifest is a package.json.
type manifest struct {
	Name         string            `json:"name"`
	Version      string            `json:"version"`
	Description  string            `json:"description"`
	License      string            `json:"license"`
	Private      bool              `json:"private,omitempty"` // npm publish refuses it
	Bin          map[string]string `json:"bin,omitempty"`
	OS           []string          `json:"os,omitempty"`
	CPU          []string          `json:"cpu,omitempty"`
	Dependencies map[string]string `json:"optionalDependencies,omitempty"`
	Unplugged    bool              `json:"preferUnplugged,omitempty"` // Yarn keeps the program as a file
}

func newManifest(name, version string) manifest {
	return manifest{Name: name, Version: version, Description: summary, License: "Apache-2.0"}
}

// file returns the manifest as the file of a package.
func (m manifest) file() file {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		panic(err) // texts can be encoded
	}
	return file{"package.json", 0o644, append(text, '\n')}
}

// on restricts a package to a platform, which npm names as Node does.
func (m manifest) on(p platform) manifest {
	m.OS, m.CPU = []string{p.system}, []string{processorOfNode(p)}
	return m
}

func processorOfNode(p platform) string {
	if p.processor == "amd64" {
		return "x64"
	}
	return p.processor
}

// localManifest makes an archive a package of npm whose command is the program itself.
func localManifest(version string, p platform) file {
	m := newManifest(localName, version).on(p)
	m.Private, m.Bin = true, map[string]string{"kernos": "kernos"}
	return m.file()
}

// platformManifest is the manifest of the package of a registry that has the program for a platform.
func platformManifest(scope, version string, p platform) manifest {
	m := newManifest(platformPackage(scope, p), version).on(p)
	m.Unplugged = true
	return m
}

// platformPackage returns the name of that package.
func platformPackage(scope string, p platform) string {
	return fmt.Sprintf("%s/kernos-%s-%s", scope, p.system, processorOfNode(p))
}

// starter is the command of the package that people name: it starts the program of the package for their platform.
//
//go:embed npm/kernos.js
var starter []byte

// writeStarter writes that package.
func (s *source) writeStarter(out, scope string, targets []platform, common *description) error {
	return s.writePackage(out, starterManifest(scope, common.version, targets), append([]file{{"kernos.js", 0o755, starter}}, common.texts...))
}

// starterManifest is its manifest. npm installs the one of its optional dependencies that fits the machine.
func starterManifest(scope, version string, targets []platform) manifest {
	m := newManifest(scope+"/kernos", version)
	m.Bin, m.Dependencies = map[string]string{"kernos": "kernos.js"}, map[string]string{}
	for _, p := range targets {
		m.Dependencies[platformPackage(scope, p)] = version
	}
	return m
}

// writePackage writes a package for a registry, in a file that is named as npm pack names it.
func (s *source) writePackage(out string, m manifest, files []file) error {
	name := strings.ReplaceAll(strings.TrimPrefix(m.Name, "@"), "/", "-") + "-" + m.Version + ".tgz"
	return s.writeTarball(filepath.Join(out, name), "package", append(files, m.file()))
}

// checkScope refuses what can't be the scope of a package. Without one, nothing is made for a registry: a name without a
// scope belongs to its first publisher.
func checkScope(scope string) error {
	if scope == "" || regexp.MustCompile(`^@[a-z0-9][a-z0-9._-]*$`).MatchString(scope) {
		return nil
	}
	return fmt.Errorf("NPM_SCOPE: expected a scope of npm such as @owner, got %q", scope)
}
