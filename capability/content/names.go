package content

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	of "kernos/internal/uri"
)

// Agents are written for many hosts, and their lists hold names as well as URIs: Read,
// Bash(git *), mcp__github__get_issue, search/codebase, github/*, Memory.Get, pdf,
// web-search@^2.0.0. A text that can't be anything but a URI names a file. Any other text is looked up by its name, too. What
// is found nowhere is a file that is missing, except for a tool with a plain name, which the host may have.

// meansFile reports whether a text can be nothing but the URI of a file: it has a scheme, or
// begins at the root or with dots, or ends with the extension of a file.
func meansFile(text string) bool {
	switch {
	case strings.HasPrefix(text, "/"), strings.HasPrefix(text, "./"), strings.HasPrefix(text, "../"), strings.HasPrefix(text, "~/"),
		text == ".", text == "..", strings.Contains(text, `\`):
		return true
	case of.Scheme(text) != "":
		return !isNamespaced(text)
	case rule().MatchString(text):
		return false
	}
	return slices.Contains(extensions, path.Ext(text))
}

// isHostTool reports whether a tool that is found nowhere may be one of the agent's host: its name has no slash and no version. What
// stands in parentheses isn't part of the name.
func isHostTool(text string) bool {
	name, _, _ := strings.Cut(text, "(")
	_, constraint := versioned(name)
	return constraint == nil && !strings.Contains(name, "/")
}

// rule matches a tool with what it may be used for, as in Bash(npm run *).
var rule = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[\w.*-]+\(.*\)$`) })

// isNamespaced reports whether a text is a name with its namespace, as in plugin:skill. The
// schemes of browsers aren't namespaces.
func isNamespaced(text string) bool {
	space, _, _ := strings.Cut(text, ":")
	return namespaced().MatchString(text) && !slices.Contains(schemes, strings.ToLower(space))
}

var (
	namespaced = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][\w.-]*:[A-Za-z][\w-]*$`) })
	schemes    = []string{"about", "blob", "data", "file", "ftp", "http", "https", "javascript", "mailto", "os", "tel", "urn", "vbscript", "ws", "wss"}
)

// extensions are the file name extensions of skills and tools.
var extensions = []string{
	".md", ".MD", ".mdc", ".mdx", ".markdown", ".txt", ".json", ".yaml", ".yml", ".toml",
	".sh", ".bash", ".zsh", ".fish", ".ps1", ".bat", ".cmd", ".exe", ".bin",
	".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".wasm",
	".py", ".rb", ".pl", ".php", ".lua", ".go", ".rs", ".java", ".jar", ".kts", ".swift",
}

// words splits a list that is written as one text: at commas and line breaks, or, if it has
// neither and nothing in it is a file, at blanks. What stands in parentheses stays together.
func words(text string) []string {
	list := split1(text, func(r rune) bool { return r == ',' || r == '\n' })
	if len(list) != 1 {
		return list
	}
	names := split1(list[0], func(r rune) bool { return r == ' ' || r == '\t' })
	if slices.ContainsFunc(names, func(name string) bool { return meansFile(name) || strings.Contains(name, "/") }) {
		return list
	}
	return names
}

// split1 splits a text at signs that are not in parentheses, and trims what it finds.
func split1(text string, at func(rune) bool) (list []string) {
	depth := 0
	parts := strings.FieldsFunc(text, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth = max(0, depth-1)
		}
		return depth == 0 && at(r)
	})
	for _, part := range parts {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}
