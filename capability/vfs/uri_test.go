package vfs

import (
	"errors"
	"strings"
	"testing"

	"kernos/message"
)

func unprocessable(err error) bool {
	e, ok := errors.AsType[*message.Error](err)
	return ok && e.Code == 422
}

func TestResolve(t *testing.T) {
	tree := new(Tree)
	for _, test := range []struct{ uri, base, want string }{
		{"os://a/b", "", "os://a/b"},
		{"os:///a/b", "", "os://a/b"},
		{"OS://a/b", "", "os://a/b"},
		{"os://", "", "os://"},
		{"os:///", "", "os://"},
		{"/", "", "os://"},
		{".", "", "os://"},
		{"/a/b", "os://x/y", "os://a/b"},
		{"a/b", "", "os://a/b"},
		{"./a", "", "os://a"},
		{"os://a//b/", "", "os://a/b"},
		{"os://a/./b/../c", "", "os://a/c"},
		{"../skills/style.md", "os://agents/team/lead.md", "os://agents/skills/style.md"},
		{"./plan.md", "os://agents/team/lead.md", "os://agents/team/plan.md"},
		{"plan.md", "os://agents/team/", "os://agents/team/plan.md"},
		{"plan.md", "agents/lead.md", "os://agents/plan.md"},
		{"plan.md", "os://lead.md", "os://plan.md"},
		{"plan.md", "os://", "os://plan.md"},
		{"os://b", "os://a/x", "os://b"},

		// No number of .. leads above the root.
		{"os://../../etc/passwd", "", "os://etc/passwd"},
		{"../../../etc/passwd", "os://a/b/c", "os://etc/passwd"},
		{"/../etc/passwd", "", "os://etc/passwd"},
		{"os://a/../../../..", "", "os://"},
		{"....//etc", "", "os://..../etc"},
		{"..../x", "os://a/b", "os://a/..../x"},

		// What other systems would give a meaning is a name here.
		{"os://C:/Windows", "", "os://C:/Windows"},
		{"C:/Windows", "", "os://C:/Windows"},
		{"os://CON", "", "os://CON"},
		{"os://a/NUL.txt", "", "os://a/NUL.txt"},
		{"os://ETC/Passwd", "", "os://ETC/Passwd"},
		{"os://a b/c", "", "os://a b/c"},
		{"os://100%.md", "", "os://100%.md"},
		{"os://a%20b", "", "os://a%20b"},
		{"os://%252e%252e/x", "", "os://%252e%252e/x"},
		{"os://a?b#c", "", "os://a?b#c"},
		{"./a:b", "", "os://a:b"},
		{"os://~/.ssh", "", "os://~/.ssh"},
		{"os://\u202E/x", "", "os://\u202E/x"},
		{"os://．．/x", "", "os://．．/x"}, // full-width dots are no dots

		// Servers.
		{"https://h/a/../b", "", "https://h/a/../b"},
		{"./c.md", "https://h/a/b.md", "https://h/a/c.md"},
		{"/c.md", "https://h/a/b.md", "https://h/c.md"},
		{"../../../c.md", "https://h/a/b.md", "https://h/c.md"},
		{"os://c", "https://h/a/b.md", "os://c"},
	} {
		got, err := tree.Resolve(test.uri, test.base)
		if err != nil || got != test.want {
			t.Errorf("Resolve(%q, %q) = %q, %v; want %q", test.uri, test.base, got, err, test.want)
		}
	}
}

func TestResolveRefuses(t *testing.T) {
	tree := new(Tree)
	for _, test := range []struct{ uri, base, says string }{
		{"", "", "empty"},
		{"", "os://a", "empty"},
		{"os://a\x00b", "", "U+0000"},
		{"os://a\nb", "", "U+000A"},
		{"os://a\x7f", "", "U+007F"},
		{"os://\xff", "", "UTF-8"},
		{`os://..\..\etc`, "", "backslash"},
		{`..\x`, "os://a", "backslash"},
		{"os://%2e%2e/etc/passwd", "", "%2e"},
		{"os://%2E%2E/etc/passwd", "", "%2e"},
		{"os://a%2fb", "", "%2f"},
		{"os://..%5c..%5cetc", "", "%5c"},
		{"os://a%00.md", "", "%00"},
		{"file:///etc/passwd", "", "scheme file"},
		{"FILE:/etc/passwd", "", "scheme FILE"},
		{"javascript:alert(1)", "", "scheme javascript"},
		{"data:text/plain,x", "", "scheme data"},
		{"http://h/a", "", "scheme http"},
		{"os:a/b", "", "write os://"},
		{"https:", "", "no server"},
		{"https://[", "", "can't be read"},
		{"x", "file:///etc/", "base"},
		{"x", "a\\b", "backslash"},
		{"os://" + strings.Repeat("a", maxURI), "", "bytes"},
		{strings.Repeat("a/", 1500), "os://" + strings.Repeat("b/", 1500), "bytes"},
	} {
		got, err := tree.Resolve(test.uri, test.base)
		if !unprocessable(err) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("Resolve(%.60q, %.60q) = %q, %v; want a 422 that says %q", test.uri, test.base, got, err, test.says)
		}
	}
}

// FuzzResolve: what is resolved is in the one printed form, and stays what it is.
func FuzzResolve(f *testing.F) {
	for _, seed := range [][2]string{
		{"os://a/b", ""}, {"../x", "os://a/b"}, {"os://%2e%2e/x", ""}, {"os://../..", "os://"},
		{"https://h/x", ""}, {"./x", "https://h/a"}, {"C:/x", "os://a/"}, {"os:///a//b/./c/..", ""}, {"\x00", "\xff"},
	} {
		f.Add(seed[0], seed[1])
	}
	tree := new(Tree)
	f.Fuzz(func(t *testing.T, uri, base string) {
		got, err := tree.Resolve(uri, base)
		if err != nil {
			if !unprocessable(err) {
				t.Fatalf("Resolve(%q, %q): %v", uri, base, err)
			}
			return
		}
		if remote(got) {
			return
		}
		p, ok := strings.CutPrefix(got, scheme)
		if !ok || len(got) > maxURI || strings.ContainsAny(p, "\\\x00\n") {
			t.Fatalf("Resolve(%q, %q) = %q", uri, base, got)
		}
		for _, segment := range strings.Split(p, "/") {
			if segment == "." || segment == ".." || segment == "" && p != "" {
				t.Fatalf("Resolve(%q, %q) = %q has the segment %q", uri, base, got, segment)
			}
		}
		if again, err := tree.Resolve(got, base); err != nil || again != got {
			t.Fatalf("Resolve(%q) = %q, %v: not the same again", got, again, err)
		}
		if slow, err := parse(got, ""); err != nil || scheme+slow != got {
			t.Fatalf("the short way says %q, the long one %q, %v", got, slow, err)
		}
	})
}
