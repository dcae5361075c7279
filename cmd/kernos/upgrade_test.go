package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Where a program is, and what is around it, says how it was installed.
func TestAnInstallationIsKnownByItsPlace(t *testing.T) {
	for name, c := range map[string]struct {
		files    map[string]string
		program  string
		released bool
		way      string
		commands string
	}{
		"archive":            {nil, "/usr/local/bin/kernos", true, "archive", "\nsudo install kernos-NEW/kernos /usr/local/bin/kernos\n"},
		"archive, at home":   {nil, "/home/ada/bin/kernos", true, "archive", "\ninstall kernos-NEW/kernos /home/ada/bin/kernos\n"},
		"Debian package":     {map[string]string{"var/lib/dpkg/info/kernos.list": "/.\n/usr/bin/kernos\n"}, "/usr/bin/kernos", true, "deb", "sudo apt install ./kernos_NEW.deb"},
		"beside the package": {map[string]string{"var/lib/dpkg/info/kernos.list": "/.\n/usr/bin/kernos\n"}, "/usr/local/bin/kernos", true, "archive", "/usr/local/bin/kernos"},
		"npm, in a project":  {map[string]string{"home/ada/p/package.json": "{}"}, "/home/ada/p/node_modules/Kernos/kernos", true, "npm", "npm install --prefix /home/ada/p ./kernos-NEW.tar.gz"},
		"npm, for all":       {nil, "/usr/lib/node_modules/Kernos/kernos", true, "npm", "npm install --global ./kernos-NEW.tar.gz"},
		"npm, a registry":    {nil, "/usr/lib/node_modules/@owner/kernos/node_modules/@owner/kernos-linux-x64/kernos", true, "npm", "npm install --global @owner/kernos@latest"},
		"npx":                {nil, "/home/ada/.npm/_npx/4d2dfbb13d10fea1/node_modules/Kernos/kernos", true, "npx", "npx --yes file:/PATH/TO/kernos-NEW.tar.gz"},
		"container":          {nil, "/kernos", true, "container", "docker run --detach"},
		"container, source":  {nil, "/kernos", false, "container", "docker run --detach"},
		"checkout":           {map[string]string{"src/kernos/cmd/kernos/main.go": ""}, "/src/kernos/bin/kernos", false, "checkout", "cd /src/kernos\ngit pull\nmake build\nbin/kernos restart"},
		"go install":         {nil, "/home/ada/go/bin/kernos", false, "go", "git pull\nmake install"},
	} {
		root := t.TempDir()
		for file, text := range c.files {
			file = filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got := findInstallation(root, c.program, c.released)
		if commands := strings.Join(got.commands, "\n"); got.way != c.way || !strings.Contains(commands, c.commands) {
			t.Errorf("%s: %s was installed with %s and is upgraded with\n%s\nwant %s, and\n%s", name, c.program, got.way, commands, c.way, c.commands)
		}
	}
}
