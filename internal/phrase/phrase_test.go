package phrase_test

import (
	"slices"
	"strings"
	"testing"

	"kernos/internal/phrase"
)

func TestFill(t *testing.T) {
	values := map[string]string{"key": "notes/1", "revision": "3", "status": "pending", "off": "false", "at:time": "12:00"}
	value := func(path, form string) string {
		if form != "" {
			path += ":" + form
		}
		return values[path]
	}
	for pattern, want := range map[string]string{
		"Set {key} (version {revision}) | Set {key}": "Set notes/1 (version 3)",
		"Set {key} (version {no}) | Set {key}":       "Set notes/1",
		"{no}":                                       "",
		"{no} | never":                               "never",
		"due {at:time}{?status=pending}":             "due 12:00",
		"due {at:time}{?status=done}":                "",
		"expired{?off} | valid":                      "valid",
		"set{?key}":                                  "set",
		"not yet{!no}":                               "not yet",
		"not yet{!key}":                              "",
		"invalid{!off}":                              "invalid",
		"still {status}{!status=done}":               "still pending",
		"still {status}{!status=pending}":            "",
		"[{no} of ]{key}[ ({revision})][, {no}]":     "notes/1 (3)",
		"[--a {key}][ --b {no}][ --c {revision}]":    "--a notes/1 --c 3",
		"[{no}][ {revision}]":                        "3",
	} {
		p, err := phrase.Parse(pattern)
		if got := p.Fill(value); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", pattern, got, err, want)
		}
	}
	p, _ := phrase.Parse("{a} [{b.c:time}] | {?d=x}{a}")
	if got := p.Paths(); !slices.Equal(got, []string{"a", "b.c", "d"}) {
		t.Errorf("the paths are %q", got)
	}
}

func TestWhatIsNoPattern(t *testing.T) {
	for pattern, want := range map[string]string{
		"{a": "a { has no }", "[{a}": "a [ has no ]", "{a}]": "a ] has no [", "{}": "{} names no value", "{?}": "names no value",
		"{a:long}": "a form is one of time, clock",
	} {
		if _, err := phrase.Parse(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}
