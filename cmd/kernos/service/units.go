package service

import (
	"embed"
	"encoding/xml"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"text/template"
	"unicode"
	"unicode/utf8"

	"kernos/daemon"
	"kernos/store"
	"kernos/transport/unix"
)

//go:embed units
var unitFiles embed.FS

// units are the templates of all files.
var units = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("units").Funcs(template.FuncMap{
		"quote": quote, "escape": escape, "xml": escapeXML,
		"name":  func(assignment string) string { name, _, _ := strings.Cut(assignment, "="); return name },
		"value": func(assignment string) string { _, value, _ := strings.Cut(assignment, "="); return value },
	}).ParseFS(unitFiles, "units/*"))
})

// Facts are what a service is made of.
type Facts struct {
	Program     string   // the path of kernos
	Arguments   []string // the settings, as flags of kernos serve; they have no secrets
	Home        daemon.Home
	Socket      string   // the path that clients connect to
	Environment []string // NAME=VALUE

	Name   string // of the service
	Log    string // the file for its standard error, where the manager keeps none
	System bool   // it is a service of the machine, under a user of its own

	// Of a service of the machine: the folders for its socket and for its backups.
	Runtime, Backups string
}

// check reports facts that can't stand in a unit.
func (f *Facts) check() error {
	texts := append([]string{f.Program, f.Home.Dir, f.Socket}, f.Arguments...)
	for _, text := range append(texts, f.Environment...) {
		if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			return fmt.Errorf("%q can't stand in the file of a service: it may have no control characters, and must be UTF-8", text)
		}
	}
	if !filepath.IsAbs(f.Program) {
		return errors.New("the path of kernos isn't known")
	}
	return nil
}

// Origin is the first line of each file.
func (f Facts) Origin() string {
	if f.System {
		return "Made from cmd/kernos/service/units; a change belongs in systemctl edit."
	}
	return written + " from the settings that it was given; kernos service uninstall removes it."
}

// Whose names the home of a service that isn't that of the default one.
func (f Facts) Whose() string {
	switch {
	case f.Name == "kernos":
		return ""
	case f.Home.Origin == store.DefaultOrigin:
		return escape(" (" + f.Home.Dir + ")")
	}
	return escape(fmt.Sprintf(" (%s, origin %s)", f.Home.Dir, f.Home.Origin))
}

// Words are the command of the service.
func (f Facts) Words() []string {
	return append([]string{f.Program, "serve", "--service"}, f.Arguments...)
}

// Command is the command of the service as ExecStart has it.
func (f Facts) Command() string {
	words := f.Words()
	for i, word := range words {
		if i > 0 { // the path of the program isn't searched for variables
			word = strings.ReplaceAll(word, "$", "$$")
		}
		words[i] = quote(word)
	}
	return strings.Join(words, " ")
}

// plain are the characters of a word that needs no quotes in a unit.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=,./:@"

// quote returns a text as one word of a unit.
func quote(text string) string {
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(text) + `"`
}

// escape returns a text as the rest of a line of a unit.
func escape(text string) string { return strings.ReplaceAll(text, "%", "%%") }

func escapeXML(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder takes everything
	return b.String()
}

// render makes a file from its template.
func (f Facts) render(name string) string {
	var b strings.Builder
	if err := units().ExecuteTemplate(&b, name, f); err != nil {
		panic(err) // a template is wrong
	}
	return b.String()
}

// Packaged returns the files with which a package makes Kernos a service of a machine, by their paths in packaging/.
func Packaged() map[string]string {
	f := Facts{
		Program: "/usr/bin/kernos", Name: "kernos", System: true, Runtime: "/run/kernos", Backups: "/var/backups/kernos",
		Home: daemon.Home{Dir: "/var/lib/kernos", Origin: store.DefaultOrigin},
	}
	f.Socket = filepath.Join(f.Runtime, "kernos", unix.Name(f.Home.Dir, string(f.Home.Origin))+".sock")
	f.Environment = []string{"KERNOS_HOME=" + f.Home.Dir, "XDG_RUNTIME_DIR=" + f.Runtime}
	files := make(map[string]string)
	for path, name := range map[string]string{
		"systemd/kernos.service": "kernos.service", "systemd/kernos.socket": "kernos.socket",
		"systemd/kernos-backup.service": "kernos-backup.service", "systemd/kernos-backup.timer": "kernos-backup.timer",
		"sysusers.d/kernos.conf": "sysusers.conf", "tmpfiles.d/kernos.conf": "tmpfiles.conf",
	} {
		files[path] = f.render(name)
	}
	return files
}
