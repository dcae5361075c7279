package tool

import (
	"os"
	"slices"
	"strings"
)

// A System installs packages.
type System struct {
	install  []string                // the command, which packages follow
	before   []string                // a command that comes before it; nil if there is none
	root     bool                    // it needs the rights of root
	packages func(tool *Tool) string // those that have a tool
}

// The systems on which make setup installs tools. Elsewhere, it names them.
var (
	debian = System{
		install: []string{"apt-get", "install", "-y", "--no-install-recommends"}, before: []string{"apt-get", "update"}, root: true,
		packages: func(tool *Tool) string { return tool.Debian },
	}
	macOS = System{install: []string{"brew", "install"}, packages: func(tool *Tool) string { return tool.Homebrew }}
)

// Here returns the system of this machine.
func Here() *System {
	switch {
	case program("apt-get")():
		return &debian
	case program("brew")():
		return &macOS
	}
	return new(System)
}

// Installs reports whether it is known how the system installs packages.
func (s *System) Installs() bool { return s.packages != nil }

// Missing returns the tools that this machine lacks.
func Missing() []Tool {
	return slices.DeleteFunc(List(), func(tool Tool) bool { return tool.Found() })
}

// Packages returns the packages that have some tools, sorted.
func (s *System) Packages(tools []Tool) (names []string) {
	if !s.Installs() {
		return nil
	}
	for _, tool := range tools {
		names = append(names, strings.Fields(s.packages(&tool))...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Commands returns the commands that install packages.
func (s *System) Commands(packages []string) [][]string {
	commands := [][]string{append(slices.Clone(s.install), packages...)}
	if s.before != nil {
		commands = slices.Insert(commands, 0, s.before)
	}
	if s.root && os.Getuid() != 0 {
		for i := range commands {
			commands[i] = append([]string{"sudo"}, commands[i]...)
		}
	}
	return commands
}

// Remedy returns what gets a tool.
func (s *System) Remedy(tool *Tool) string {
	switch packages := s.Packages([]Tool{*tool}); {
	case packages != nil:
		return s.install[0] + " install " + strings.Join(packages, " ")
	case tool.Debian == "":
		return "make npm"
	}
	return "install " + tool.Name
}
