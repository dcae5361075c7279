package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	declaration = regexp.MustCompile(`(?s)/\*\*(.*?)\*/\s*(?:export |readonly |declare |static |async |abstract )*(?:interface |class |type |function |const )?["']?([A-Za-z_$][\w$-]*)`)
	markup      = regexp.MustCompile(`(?s)<[^>]*>|\{@\w+ ([^}]*)\}|https?://\S+|\[([^\]]*)\]\([^)]*\)`)
	tag         = regexp.MustCompile(`(?m)^\s*@\w+.*$`)
	margin      = regexp.MustCompile(`(?m)^\s*\* ?`)
)

// readDeclarations returns the comments on names in the TypeScript declarations of npm packages: interfaces of
// services that agents call, in the words that these services report with.
func readDeclarations(folder string) (documented []named, err error) {
	seen := map[string]bool{}
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".d.ts") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		domain := strings.TrimSuffix(d.Name(), ".d.ts")
		for _, m := range declaration.FindAllSubmatch(data, -1) {
			text := markup.ReplaceAllString(tag.ReplaceAllString(margin.ReplaceAllString(string(m[1]), ""), ""), " $1$2 ")
			text = strings.Join(strings.Fields(text), " ")
			if len(text) < 30 || seen[text] {
				continue
			}
			seen[text] = true
			documented = append(documented, named{domain + "." + string(m[2]), text})
		}
		return nil
	})
	return documented, err
}
