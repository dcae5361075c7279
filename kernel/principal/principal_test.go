package principal_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"kernos/kernel/principal"
	"kernos/message"
)

func token(t testing.TB, g principal.Grant) *principal.Principal {
	t.Helper()
	p, err := principal.New("01", "ci", g)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func query(name message.Type) principal.Target {
	return principal.Target{Type: name, Kind: message.KindQuery}
}
func command(name message.Type) principal.Target {
	return principal.Target{Type: name, Kind: message.KindCommand}
}

func with(a principal.Access, t principal.Target) principal.Target {
	t.Access = a
	return t
}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		name    string
		grant   principal.Grant
		target  principal.Target
		refusal string // "" if it may be called
	}{
		{"an agent has memory", principal.Grant{Preset: principal.Agent}, command("Memory.Set"), ""},
		{"an agent calls programs", principal.Grant{Preset: principal.Agent}, command("Bank.Login"), ""},
		{"an agent opens no secrets", principal.Grant{Preset: principal.Agent}, with(principal.ByName, query("Crypto.Open")), `The token "ci" may not call Crypto.Open: its preset agent doesn't include it; the owner can allow it: kernos token update ci --allow Crypto.Open`},
		{"unless it is allowed", principal.Grant{Preset: principal.Agent, Allow: []string{"Crypto.*"}}, with(principal.ByName, query("Crypto.Open")), ""},
		{"an agent doesn't end the kernel", principal.Grant{Preset: principal.Agent}, with(principal.ByName, command("Syscall.Shutdown")), "its preset agent doesn't include it"},
		{"a denial is stronger", principal.Grant{Preset: principal.Agent, Allow: []string{"*"}, Deny: []string{"*.Get"}}, query("Memory.Get"), "it is denied *.Get; the owner can allow it: kernos token update ci --take *.Get"},
		{"tokens are the owner's", principal.Grant{Allow: []string{"*"}}, with(principal.OwnerOnly, query("Token.List")), "it is for the owner only; call it over the unix socket"},
		{"and so are links to the console", principal.Grant{Preset: principal.Viewer}, with(principal.OwnerOnly, query("Kernel.Console")), "it is for the owner only"},
		{"read-only refuses commands", principal.Grant{Preset: principal.Agent, ReadOnly: true}, command("Memory.Set"), "it is read-only, and this is a command; the owner can allow it: kernos token update ci --take read-only"},
		{"read-only has queries", principal.Grant{Preset: principal.Agent, ReadOnly: true}, query("Memory.Get"), ""},
		{"read-only is stronger than allow", principal.Grant{Allow: []string{"*"}, ReadOnly: true}, command("Memory.Set"), "it is read-only"},
		{"only what is allowed", principal.Grant{Allow: []string{"Memory.*", "*.List"}}, query("VFS.List"), ""},
		{"and nothing else", principal.Grant{Allow: []string{"Memory.*", "*.List"}}, query("VFS.Read"), "it is allowed Memory.*, *.List only"},
		{"a viewer has queries", principal.Grant{Preset: principal.Viewer}, query("VFS.Read"), ""},
		{"a viewer has no commands", principal.Grant{Preset: principal.Viewer}, command("Memory.Set"), "its preset viewer doesn't include it"},
		{"a viewer opens no secrets", principal.Grant{Preset: principal.Viewer}, with(principal.ByName, query("Crypto.Open")), "its preset viewer doesn't include it"},
		{"a handler serves", principal.Grant{Preset: principal.Handler}, with(principal.ForHandlers, command("Syscall.Register")), ""},
		{"a handler does nothing else", principal.Grant{Preset: principal.Handler}, query("Memory.Get"), "its preset handler doesn't include it"},
		{"the console does not end the kernel", principal.Grant{Preset: principal.Console}, with(principal.ByName, command("Syscall.Shutdown")), "its preset console doesn't include it"},
		{"the console does the rest", principal.Grant{Preset: principal.Console}, command("Crypto.Seal"), ""},
		{"an agent doesn't decide", principal.Grant{Preset: principal.Agent}, with(principal.ForPeople, command("Session.Decide")), "its preset agent doesn't include it"},
		{"the console decides", principal.Grant{Preset: principal.Console}, with(principal.ForPeople, command("Session.Decide")), ""},
		{"a viewer decides nothing", principal.Grant{Preset: principal.Viewer}, with(principal.ForPeople, command("Session.Decide")), "its preset viewer doesn't include it"},
		{"everyone finds out what there is", principal.Grant{Allow: []string{"Echo"}, ReadOnly: true, Deny: []string{"*"}}, with(principal.ForAll, query("Syscall.Describe")), ""},
		{"one-segment names", principal.Grant{Allow: []string{"Echo"}}, command("Echo"), ""},
		{"a pattern is no prefix", principal.Grant{Allow: []string{"Mem.*"}}, query("Memory.Get"), "it is allowed Mem.* only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := token(t, c.grant)
			for range 2 { // the second time from memory
				err := p.May(c.target)
				switch {
				case c.refusal == "" && err != nil:
					t.Error(err)
				case c.refusal != "" && (err == nil || err.Code != 403 || !strings.Contains(err.Message, c.refusal)):
					t.Errorf("got %v, expected %s", err, c.refusal)
				}
			}
		})
	}
}

// A type that is registered again may be something else.
func TestAVerdictIsForOneDefinition(t *testing.T) {
	p := token(t, principal.Grant{Preset: principal.Agent, ReadOnly: true})
	if err := p.May(query("Text.Count")); err != nil {
		t.Fatal(err)
	}
	if err := p.May(command("Text.Count")); err == nil {
		t.Error("the command is allowed, as the query was")
	}
}

func TestTheOwnerMayDoEverything(t *testing.T) {
	p := principal.TheOwner()
	if err := errors.Join(asError(p.May(command("Token.Create"))), asError(p.Key("vault/x")), asError(p.File("os://sys/timeout", true))); err != nil {
		t.Error(err)
	}
	p.End(principal.ErrRevoked)
	if p.Life().Err() != nil || !p.SeesAll() || !p.ChangesSettings() || !p.RunsTools() {
		t.Error("the owner has ended, or sees less than all")
	}
}

func asError(e *message.Error) error {
	if e == nil {
		return nil
	}
	return e
}

func TestGrantsThatMakeNoSense(t *testing.T) {
	for field, g := range map[string]principal.Grant{
		"preset": {Preset: principal.Owner},
		"allow":  {Allow: []string{"memory.get"}},
		"deny":   {Deny: []string{"Memory.Get.More"}},
		"memory": {Memory: []string{"/"}},
		"files":  {Files: []string{"docs"}},
	} {
		_, err := principal.New("01", "ci", g)
		if e, ok := errors.AsType[*message.Error](err); !ok || e.Code != 422 || e.Field != field {
			t.Errorf("%+v: %v", g, err)
		}
	}
}

func TestReach(t *testing.T) {
	p := token(t, principal.Grant{Preset: principal.Viewer, Memory: []string{"/notes/", "agents/ci"}, Files: []string{"os://docs/:ro", "os://docs/drafts"}})
	for key, reached := range map[string]bool{"notes": true, "notes/1": true, "notesx": false, "agents/ci/1": true, "agents": false, "vault/x": false} {
		if got := p.Key(key) == nil; got != reached {
			t.Errorf("%s: %v", key, got)
		}
	}
	for uri, may := range map[string][2]bool{
		"os://docs": {true, false}, "os://docs/a": {true, false}, "os://docs/drafts/b": {true, true},
		"os://docsx": {false, false}, "os://": {false, false}, "os://sys/timeout": {false, false},
	} {
		if got := [2]bool{p.File(uri, false) == nil, p.File(uri, true) == nil}; got != may {
			t.Errorf("%s: %v", uri, got)
		}
	}
	if p.SeesAll() || !p.Sees("01") || p.Sees("02") {
		t.Error("a token with a part of the memory sees what others sent")
	}
}

func TestEnd(t *testing.T) {
	p := token(t, principal.Grant{Preset: principal.Agent, Expires: 1000})
	if p.Expired(time.UnixMilli(999)) || !p.Expired(time.UnixMilli(1000)) {
		t.Error("the token ends at another time than it says")
	}
	p.End(principal.ErrExpired)
	<-p.Life().Done()
}

// BenchmarkMay is the check of rights: it may take 50 ns, and no allocation.
func BenchmarkMay(b *testing.B) {
	for name, p := range map[string]*principal.Principal{
		"owner": principal.TheOwner(),
		"agent": token(b, principal.Grant{Preset: principal.Agent}),
		"narrow": token(b, principal.Grant{Allow: []string{"Memory.*", "VFS.*", "Content.*", "Message.*", "Http.Fetch"}, Deny: []string{"*.Delete", "Memory.History"},
			ReadOnly: true, Memory: []string{"notes"}}),
	} {
		b.Run(name, func(b *testing.B) {
			targets := []principal.Target{query("Memory.Get"), query("Message.List"), command("Memory.Set"), with(principal.ByName, query("Crypto.Open"))}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_ = p.May(targets[i%len(targets)])
			}
		})
	}
}
