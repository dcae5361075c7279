package main

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writeDeb makes the Debian package of a platform.
func (s *source) writeDeb(out string, p platform, program, notices []byte, common *description) error {
	page, err := compress(common.extra("man/kernos.1"))
	if err != nil {
		return err
	}
	files := []file{
		{"usr/bin/kernos", 0o755, program},
		{"usr/share/bash-completion/completions/kernos", 0o644, common.extra("completions/kernos.bash")},
		{"usr/share/zsh/vendor-completions/_kernos", 0o644, common.extra("completions/_kernos")},
		{"usr/share/fish/vendor_completions.d/kernos.fish", 0o644, common.extra("completions/kernos.fish")},
		{"usr/share/man/man1/kernos.1.gz", 0o644, page},
		{"usr/share/doc/kernos/LICENSES-OF-OTHERS", 0o644, notices},
	}
	for _, f := range common.texts {
		name := f.name
		if name == "LICENSE" {
			name = "copyright" // where Debian has it
		}
		files = append(files, file{"usr/share/doc/kernos/" + name, 0o644, f.data})
	}
	units, err := s.units()
	if err != nil {
		return err
	}
	data, err := s.deb(p, common.version, append(files, units...))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, fmt.Sprintf("kernos_%s_%s.deb", common.version, p.processor)), data, 0o644)
}

// units returns what systemd needs for the service of a machine: units, a user and folders.
func (s *source) units() (files []file, err error) {
	for _, folder := range [][2]string{{"systemd", "usr/lib/systemd/system"}, {"sysusers.d", "usr/lib/sysusers.d"}, {"tmpfiles.d", "usr/lib/tmpfiles.d"}} {
		found, err := filepath.Glob(filepath.Join(s.dir, "packaging", folder[0], "*.*"))
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			files = append(files, file{folder[1] + "/" + filepath.Base(name), 0o644, text})
		}
	}
	return files, nil
}

// deb returns a Debian package: an archive of ar with the version of the format, what dpkg is to know, and the files. It
// has no scripts, so that installing it runs nothing.
func (s *source) deb(p platform, version string, files []file) ([]byte, error) {
	var checksums strings.Builder
	kilobytes := 0
	for _, f := range files {
		fmt.Fprintf(&checksums, "%x  %s\n", md5.Sum(f.data), f.name)
		kilobytes += (len(f.data) + 1023) / 1024
	}
	control, err := s.tarball(".", []file{
		{"control", 0o644, fmt.Appendf(nil, `Package: kernos
Version: %s
Architecture: %s
Maintainer: The authors of Kernos <kernos@localhost>
Installed-Size: %d
Recommends: ca-certificates
Section: utils
Priority: optional
Description: %s
 Kernos is one program without dependencies: LLM clients, shells, browsers and
 services reach one set of self-describing operations through one message format.
`, version, p.processor, kilobytes, summary)},
		{"md5sums", 0o644, []byte(checksums.String())},
	})
	if err != nil {
		return nil, err
	}
	data, err := s.tarball(".", files)
	if err != nil {
		return nil, err
	}
	out := bytes.NewBufferString("!<arch>\n")
	for _, member := range []file{{"debian-binary", 0o644, []byte("2.0\n")}, {"control.tar.gz", 0o644, control}, {"data.tar.gz", 0o644, data}} {
		fmt.Fprintf(out, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", member.name, s.time.Unix(), 0, 0, 0o100000|member.mode, len(member.data))
		out.Write(member.data)
		if len(member.data)%2 != 0 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes(), nil
}
