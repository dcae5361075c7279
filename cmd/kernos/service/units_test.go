package service

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/store"
)

var update = flag.Bool("update", false, "write the files of packages and of testdata")

// golden compares a text with a file.
func golden(t *testing.T, path, text string) {
	t.Helper()
	if *update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != text {
		t.Errorf("%s isn't what the templates make (go test ./cmd/kernos/service -update writes it): %v\n%s", path, err, text)
	}
}

// A package installs what the templates make, and nothing else.
func TestPackagedFiles(t *testing.T) {
	packaged := Packaged()
	for path, text := range packaged {
		golden(t, filepath.Join("../../../packaging", path), text)
	}
	var there []string
	for _, folder := range []string{"systemd", "sysusers.d", "tmpfiles.d"} {
		entries, err := os.ReadDir(filepath.Join("../../../packaging", folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			there = append(there, folder+"/"+e.Name())
		}
	}
	slices.Sort(there)
	if want := slices.Sorted(maps.Keys(packaged)); !slices.Equal(there, want) {
		t.Errorf("there are %v; want %v", there, want)
	}
}

// awkward are facts with what means something in a unit, in a shell and in XML.
func awkward() Facts {
	home := daemon.Home{Dir: `/home/ada/a home/100% "sure" $HOME`, Origin: "https://a.example/"}
	return Facts{
		Program: "/opt/my tools/50%/$bin/kernos", Home: home, Name: "kernos-0123456789abcdef",
		Arguments: []string{"--addr=127.0.0.1:8000", `--mount=/n=/srv/a b\c%n$HOME "q" <&>'s`, "--fetch-only=true"},
		Socket:    "/run/user/1000/a run%t/kernos/0123456789abcdef.sock", Log: "/home/ada/<log>/service.log",
		Environment: []string{"KERNOS_HOME=" + home.Dir, "KERNOS_ORIGIN=https://a.example/", "PATH=/usr/bin:/opt/my tools"},
	}
}

func TestUnits(t *testing.T) {
	plain := Facts{
		Program: "/usr/local/bin/kernos", Home: daemon.Home{Dir: "/home/ada/.local/share/kernos", Origin: store.DefaultOrigin}, Name: "kernos",
		Socket: "/run/user/1000/kernos/0123456789abcdef.sock", Log: "/Users/ada/.local/share/kernos/service.log",
		Environment: []string{"KERNOS_HOME=/home/ada/.local/share/kernos", "PATH=/usr/local/bin:/usr/bin"},
	}
	for name, facts := range map[string]Facts{"plain": plain, "awkward": awkward()} {
		if err := facts.check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, file := range []string{"kernos.service", "kernos.socket", "kernos.plist"} {
			golden(t, filepath.Join("testdata", name, file), facts.render(file))
		}
	}
}

// The property list has the texts as they are.
func TestThePropertyListIsXML(t *testing.T) {
	facts := awkward()
	var texts []string
	d := xml.NewDecoder(strings.NewReader(facts.render("kernos.plist")))
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "string" {
			var text string
			if err := d.DecodeElement(&text, &start); err != nil {
				t.Fatal(err)
			}
			texts = append(texts, text)
		}
	}
	want := slices.Concat([]string{facts.Name}, facts.Words(), []string{facts.Home.Dir, "https://a.example/", "/usr/bin:/opt/my tools", facts.Log})
	if !slices.Equal(texts, want) {
		t.Errorf("got %q\nwant %q", texts, want)
	}
}

// The socket of the packaged unit is where clients look for it.
func TestThePackagedSocketIsWhereClientsLook(t *testing.T) {
	runtime := testkit.ShortDir(t)
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	path, err := daemon.Home{Dir: "/var/lib/kernos", Origin: store.DefaultOrigin}.Socket()
	if err != nil {
		t.Fatal(err)
	}
	inside, err := filepath.Rel(runtime, path)
	if want := "ListenStream=/run/kernos/" + inside + "\n"; err != nil || !strings.Contains(Packaged()["systemd/kernos.socket"], want) {
		t.Errorf("clients look for %s, %v", want, err)
	}
}

func TestFactsThatCantBeWritten(t *testing.T) {
	for want, change := range map[string]func(*Facts){
		"control characters": func(f *Facts) { f.Arguments = []string{"--mount=/a=/b\nExecStartPre=/bin/evil"} },
		"UTF-8":              func(f *Facts) { f.Home.Dir = "/home/\xff" },
		"isn't known":        func(f *Facts) { f.Program = "kernos" },
	} {
		facts := awkward()
		change(&facts)
		if err := facts.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
