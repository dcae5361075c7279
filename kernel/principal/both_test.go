package principal_test

import (
	"slices"
	"testing"

	"kernos/kernel/principal"
)

func TestBothMayDoWhatEachMay(t *testing.T) {
	one := func(id principal.ID, g principal.Grant) *principal.Principal {
		t.Helper()
		p, err := principal.New(id, string(id)+"-name", g)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a := one("a", principal.Grant{Allow: []string{"Memory.*", "Http.Fetch"}, Memory: []string{"notes", "shared/x"}, Files: []string{"os://docs"}})
	b := one("b", principal.Grant{Preset: principal.Viewer, Allow: []string{"Memory.Set"}, Memory: []string{"notes/b", "shared"}, Files: []string{"os://docs:ro"}})
	c := one("c", principal.Grant{Preset: principal.Console})
	owner := principal.TheOwner()
	if principal.Both(a, owner) != a || principal.Both(owner, a) != a || principal.Both(a, a) != a || principal.Both(owner, owner) != owner {
		t.Error("the owner, or the caller itself, takes rights away")
	}
	both := principal.Both(a, b)
	for name, may := range map[string][2]bool{
		"the query of both":         {both.May(query("Memory.Get")) == nil, true},
		"the command of both":       {both.May(command("Memory.Set")) == nil, true},
		"the caller's alone":        {both.May(command("Http.Fetch")) == nil, false},
		"the author's alone":        {both.May(query("VFS.Read")) == nil, false},
		"a key of both":             {both.Key("notes/b/1") == nil, true},
		"a key of the caller":       {both.Key("notes/a") == nil, false},
		"a key of the author":       {both.Key("shared/y") == nil, false},
		"a folder above both":       {both.Folder("shared") == nil, true},
		"a file of both":            {both.File("os://docs/a", false) == nil, true},
		"a file to write":           {both.File("os://docs/a", true) == nil, false},
		"the messages of all":       {both.SeesAll(), false},
		"settings":                  {principal.Both(a, c).ChangesSettings(), false},
		"its own":                   {both.Sees(both.ID()), true},
		"the caller's own":          {both.Sees("a"), false},
		"to serve requests":         {principal.Both(c, a).Serves("Text.Count") == nil, false},
		"to serve as a console":     {c.Serves("Text.Count") == nil, true},
		"the owner's":               {both.IsOwner(), false},
		"narrower than its caller":  {both.Narrower(a), true},
		"narrower than the owner":   {both.Narrower(owner), true},
		"its caller is narrower":    {a.Narrower(both), false},
		"the same with a third":     {principal.Both(both, c).Narrower(both), true},
		"a part again adds nothing": {principal.Both(both, a) == both, true},
	} {
		if may[0] != may[1] {
			t.Errorf("%s: %t", name, may[0])
		}
	}
	if got := both.KeyPrefixes(); !slices.Equal(got, []string{"notes/b", "shared/x"}) {
		t.Errorf("the prefixes are %q", got)
	}
	if got := principal.Both(a, one("d", principal.Grant{Preset: principal.Agent, Memory: []string{"other"}})).KeyPrefixes(); len(got) != 1 || a.Key(got[0]) == nil {
		t.Errorf("prefixes that have nothing in common are %q", got)
	}
	if got := principal.Both(both, c).ID().Parts(); !slices.Equal(got, []principal.ID{"a", "b", "c"}) {
		t.Errorf("the parts are %q", got)
	}
	b.End(principal.ErrRevoked)
	if both.May(query("Memory.Get")) == nil {
		t.Error("the author was revoked, and its code goes on")
	}
}
