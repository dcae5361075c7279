package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
)

func upgradeCommand() *cobra.Command {
	return prints(&cobra.Command{
		Use:   "upgrade",
		Short: "Explain how to install a new version, for the way that this one was installed",
		Long: `Explain how to install a new version, for the way that this one was installed: from an
archive, a Debian package, npm, a container image or the source. It changes nothing and asks
no server. The state in the home stays as it is; the daemon of the new version reads it.`,
		Example: "  kernos upgrade",
		Args:    noArguments,
	}, "text", func(c *cobra.Command, _ []string, s *terminal.Screen, o terminal.Output) error {
		program, err := os.Executable()
		if err != nil {
			return exit.Wrap(err)
		}
		if program, err = filepath.EvalSymlinks(program); err != nil { // npm links to it
			return exit.Wrap(err)
		}
		i := findInstallation("/", program, revision != "")
		return writeValue(c.Context(), s, o, map[string]any{"version": version, "program": program, "installed": i.way, "commands": i.commands}, func() error {
			return exit.Wrap(s.Line("kernos " + fullVersion() + " is " + program + ", " + i.said + "\n\n  " + strings.Join(i.commands, "\n  ")))
		})
	})
}

// An installed program is one that came to this machine in one of these ways.
type installed struct {
	way      string
	said     string   // how it was installed, and what to do before the commands
	commands []string // what upgrades it
}

// findInstallation finds out how a program was installed, from where it is below the root folder, and from whether
// make release has built it.
func findInstallation(root, program string, released bool) installed {
	const restart = "kernos restart"
	checkout := filepath.Dir(filepath.Dir(program)) // if it is one, make build has put the program in bin
	switch {
	case strings.Contains(program, "/_npx/"):
		return installed{"npx", "which npx has fetched. Name the new version in the command that starts kernos, for example:",
			[]string{"npx --yes file:/PATH/TO/kernos-NEW.tar.gz restart"}}
	case strings.Contains(program, "/node_modules/"):
		return installed{"npm", "which npm has installed. With the archive of the new version:", []string{npmInstall(root, program), restart}}
	case ownedByDpkg(root, program):
		return installed{"deb", "which belongs to the Debian package kernos. With the package of the new version:",
			[]string{"sudo apt install ./kernos_NEW.deb", restart}}
	case filepath.Dir(program) == "/":
		return installed{"container", "as in the container image. In a checkout of the new version:",
			[]string{"docker build --tag kernos --file packaging/Dockerfile .", "docker rm --force kernos", "docker run --detach --name kernos --volume kernos:/data kernos"}}
	case exists(root, checkout, "cmd/kernos/main.go"):
		return installed{"checkout", "built in a checkout of the source:", []string{"cd " + checkout, "git pull", "make build", "bin/" + restart}}
	case released:
		return installed{"archive", "which comes from an archive. With the one of the new version:",
			[]string{"tar xzf kernos-NEW.tar.gz", sudo(program) + "install kernos-NEW/kernos " + program, restart}}
	}
	return installed{"go", "which Go has installed. In a checkout of the source:", []string{"git pull", "make install", restart}}
}

// sudo returns what a command that replaces a program begins with: folders of the system belong to root.
func sudo(program string) string {
	if strings.HasPrefix(program, "/usr/") || strings.HasPrefix(program, "/opt/") {
		return "sudo "
	}
	return ""
}

// npmInstall returns the command that replaces the package with a program in it. The folder of a project has a
// package.json, the folder of global packages has none, and a package with a scope came from a registry.
func npmInstall(root, program string) string {
	folder, _, _ := strings.Cut(program, "/node_modules/")
	what, where := "./kernos-NEW.tar.gz", "--global"
	if _, scope, found := strings.Cut(program, "/node_modules/@"); found {
		owner, _, _ := strings.Cut(scope, "/")
		what = "@" + owner + "/kernos@latest"
	}
	if exists(root, folder, "package.json") {
		where = "--prefix " + folder
	}
	return "npm install " + where + " " + what
}

// ownedByDpkg reports whether a program is a file of the Debian package kernos.
func ownedByDpkg(root, program string) bool {
	list, err := os.ReadFile(filepath.Join(root, "var/lib/dpkg/info/kernos.list"))
	return err == nil && slices.Contains(strings.Split(string(list), "\n"), program)
}

func exists(path ...string) bool {
	_, err := os.Stat(filepath.Join(path...))
	return err == nil
}
