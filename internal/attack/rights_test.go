package attack

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

// cells is what testdata/rights.txt says: a sign for each preset, and syscall.
type cells map[string]map[message.Type]string

func readCells(t *testing.T) cells {
	t.Helper()
	f, err := os.Open("testdata/rights.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	table := cells{}
	var presets []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) == 0 || strings.HasPrefix(fields[0], "#"):
		case presets == nil:
			presets = fields[1:]
			for _, p := range presets {
				table[p] = map[message.Type]string{}
			}
		case len(fields) != len(presets)+1:
			t.Fatalf("%s has %d cells of %d", fields[0], len(fields)-1, len(presets))
		default:
			for i, sign := range fields[1:] {
				if !strings.Contains("+-!0", sign) {
					t.Fatalf("%s: %q", fields[0], sign)
				}
				table[presets[i]][message.Type(fields[0])] = sign
			}
		}
	}
	return table
}

// A subject is a principal that tries everything.
type subject struct {
	name     string
	preset   string // a column of the table; "" if its secret opens nothing
	readOnly bool
	allow    []string
	deny     []string
	scopes   string // members of the grant
	secret   string
}

// may is what the table and the subject's patterns say about a syscall.
func (s *subject) may(table cells, call *kernel.Syscall) bool {
	matches := func(pattern string) bool {
		ok, err := path.Match(pattern, string(call.Type))
		return ok && err == nil
	}
	switch sign := table[s.preset][call.Type]; {
	case sign == "!" || sign == "0":
		return sign == "!"
	case slices.ContainsFunc(s.deny, matches):
		return false
	case s.readOnly && call.Kind == message.KindCommand:
		return false
	case slices.ContainsFunc(s.allow, matches):
		return true
	default:
		return sign == "+"
	}
}

func (s *subject) grant() string {
	var members []string
	if s.preset != "bare" {
		members = append(members, fmt.Sprintf(`"preset":%q`, s.preset))
	}
	for name, patterns := range map[string][]string{"allow": s.allow, "deny": s.deny} {
		if len(patterns) > 0 {
			members = append(members, fmt.Sprintf(`%q:["%s"]`, name, strings.Join(patterns, `","`)))
		}
	}
	if s.readOnly {
		members = append(members, `"readOnly":true`)
	}
	if s.scopes != "" {
		members = append(members, s.scopes)
	}
	return strings.Join(members, ",")
}

// subjects are all combinations of presets, patterns, read-only and scopes, and those whose
// secret opens nothing.
func subjects(w *world) (all []*subject) {
	w.t.Helper()
	for _, preset := range []string{"agent", "handler", "viewer", "console", "bare"} {
		for i, patterns := range [][2][]string{
			{},
			{nil, {"Memory.*"}},
			{nil, {"*.Set", "*.Get", "Http.Fetch", "Syscall.*"}},
			{{"Crypto.Open", "VFS.*"}, nil},
			{{"*"}, {"*.List", "Token.Show"}},
			{{"Syscall.*", "Token.*", "Echo"}, {"Syscall.Shutdown", "Echo"}},
		} {
			if preset == "bare" && patterns[0] == nil {
				patterns[0] = []string{"Message.*", "Memory.Set"}
			}
			for _, readOnly := range []bool{false, true} {
				all = append(all, &subject{name: fmt.Sprintf("%s-%d-%t", preset, i, readOnly), preset: preset, readOnly: readOnly, allow: patterns[0], deny: patterns[1]})
			}
		}
		for i, scopes := range []string{`"memory":["notes"]`, `"files":["os://memory/notes:ro"]`, `"memory":["notes"],"files":["os://memory/notes"],"rate":1000000`} {
			s := &subject{name: fmt.Sprintf("%s-scope-%d", preset, i), preset: preset, scopes: scopes}
			if preset == "bare" {
				s.allow = []string{"Memory.*"}
			}
			all = append(all, s)
		}
	}
	for _, s := range all {
		s.secret = w.token(s.name, s.grant())
	}
	rotated, revoked := w.token("rotated", ""), w.token("revoked", `"preset":"console"`)
	w.must("Token.Rotate", `{"name":"rotated"}`, nil)
	w.must("Token.Revoke", `{"name":"revoked"}`, nil)
	expired := w.token("expired", `"preset":"console",`+w.inAnHour())
	w.anHourLater()
	return append(all,
		&subject{name: "default", preset: "agent", secret: w.defaultToken()},
		&subject{name: "none"},
		&subject{name: "wrong", secret: "kernos_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
		&subject{name: "rotated", secret: rotated},
		&subject{name: "revoked", secret: revoked},
		&subject{name: "expired", secret: expired},
	)
}

// attempt returns data for a syscall that has an effect which is the subject's own; or, for
// what would end the daemon, not end itself, leave the machine, or take long, data that is refused
// as invalid by all who may call it.
func attempt(s *kernel.Syscall, name string) string {
	switch s.Type {
	case "Syscall.Shutdown", "Message.Watch", "Http.Fetch", "Kernel.Backup", "Agent.Ask", "Model.Add", "Model.Check", "Model.Generate":
		return `{"limit":"nonsense","url":1,"nonsense":1}`
	case "Memory.Set":
		return fmt.Sprintf(`{"key":"notes/%s","value":1}`, name)
	case "Memory.Delete":
		return fmt.Sprintf(`{"key":"notes/keep-%s"}`, name)
	case "Memory.Restore":
		return fmt.Sprintf(`{"key":"notes/keep-%s","revision":1000}`, name)
	case "Memory.Get", "Memory.History":
		return `{"key":"notes/canary"}`
	case "VFS.Write":
		return fmt.Sprintf(`{"uri":"os://memory/notes/file-%s","content":"1"}`, name)
	case "VFS.Delete":
		return `{"uri":"os://memory/notes/absent"}`
	case "VFS.List", "VFS.Read", "VFS.Resolve", "Content.Hydrate", "Content.Index":
		return `{"uri":"os://memory/notes/canary"}`
	case "Syscall.Adopt", "Syscall.Rollback", "Syscall.Unregister":
		return `{"name":"Absent.Type"}` // what a principal has is its own
	case "Job.Start":
		return `{"name":"Ping","payload":{"payload":1},"delay":"1h"}`
	case "Token.Create":
		return `{"name":"forged","preset":"console"}`
	case "Token.Revoke", "Token.Rotate":
		return `{"name":"canary"}`
	case "Token.Update":
		return `{"name":"canary","allow":["Crypto.Open"]}`
	case "Crypto.Open":
		return `{"ciphertext":"pwenc:v1:nonsense"}`
	}
	example, _ := schema.ExampleOf(s.Input)
	return string(example)
}

// TestEveryPresetAndEverySyscall compares the table with what each preset may call of all that a
// daemon serves, also of what isn't listed. A line without a syscall fails the test too.
func TestEveryPresetAndEverySyscall(t *testing.T) {
	table := readCells(t)
	_, key := testkit.Key(t)
	d, err := daemon.Open(&daemon.Options{Home: t.TempDir(), Socket: &daemon.Socket{Keys: []ssh.PublicKey{key}}, Web: &daemon.Web{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	served := map[message.Type]bool{}
	for _, m := range d.Kernel().Registry().All().Modules() {
		for _, s := range m.Syscalls {
			served[s.Type] = true
			for _, preset := range append(slices.Clone(principal.Presets), principal.Owner, principal.Bare) {
				column := cmp.Or(string(preset), "bare")
				if sign := signOf(t, preset, &s); table[column][s.Type] != sign {
					t.Errorf("%s: for %s the table has %q, and the kernel %q", s.Type, column, table[column][s.Type], sign)
				}
			}
		}
	}
	for line := range table["owner"] {
		if !served[line] {
			t.Errorf("the table has a line for %s, which isn't served", line)
		}
	}
}

// signOf is the sign of the table for what a preset may do with a syscall.
func signOf(t *testing.T, preset principal.Preset, s *kernel.Syscall) string {
	t.Helper()
	may := func(g principal.Grant) bool {
		if g.Preset = preset; preset == principal.Owner {
			return principal.TheOwner().Allows(s.Target())
		}
		p := kerneltest.Principal(t, "01", "ci", g)
		return p.Allows(s.Target())
	}
	switch {
	case may(principal.Grant{Deny: []string{"*"}}):
		return "!"
	case !may(principal.Grant{Allow: []string{"*"}}):
		return "0"
	case may(principal.Grant{}):
		return "+"
	}
	return "-"
}

// TestEveryPrincipalAndEverySyscall lets each principal call each syscall, under all its names
// and over all wires, and compares what it was let do with the table.
func TestEveryPrincipalAndEverySyscall(t *testing.T) {
	table := readCells(t)
	definitions, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	var calls []*kernel.Syscall
	for _, name := range definitions.All().Types() {
		s, _ := definitions.Lookup(name)
		calls = append(calls, s)
	}
	w := open(t)
	w.token("canary", `"preset":"viewer"`)
	w.must("Memory.Set", `{"key":"notes/canary","value":1}`, nil)
	people := subjects(w)
	if len(people) < 60 {
		t.Fatalf("%d principals", len(people))
	}
	checked := 0
	for i, s := range people {
		if testkit.Race && !*long && i%8 != 0 && s.preset != "" {
			continue // without the race detector, all of them try
		}
		checked += s.tryAll(w, table, calls)
	}
	owner := &subject{name: "owner", preset: "owner"}
	list := owner.requests(calls)
	for i, o := range w.overUnix(list) {
		if checked++; o.code == 403 || o.code == 401 || o.code == -1 {
			t.Errorf("the owner: %s: %v", list[i].Type, o)
		}
	}
	t.Logf("%d principals, %d syscalls, %d calls", len(people)+1, len(calls), checked)
}

// requests are a call of each syscall under each of its names.
func (s *subject) requests(calls []*kernel.Syscall) (list []request) {
	for _, c := range calls {
		if s.preset == "owner" && c.Type.Domain() == "Token" {
			continue // the owner may, and the canary would end
		}
		for _, name := range append([]message.Type{c.Type}, c.Aliases...) {
			list = append(list, request{name, c.Kind, attempt(c, s.name)})
		}
	}
	return list
}

// tryAll lets a subject call everything, and checks what came of it. It returns how many calls
// that were.
func (s *subject) tryAll(w *world, table cells, calls []*kernel.Syscall) (made int) {
	t := w.t
	t.Helper()
	w.must("Memory.Set", fmt.Sprintf(`{"key":"notes/keep-%s","value":1}`, s.name), nil)
	tokens := w.owner("Token.List", `{}`).String()
	list := s.requests(calls)
	byName := map[message.Type]*kernel.Syscall{}
	for _, c := range calls {
		for _, name := range append([]message.Type{c.Type}, c.Aliases...) {
			byName[name] = c
		}
	}
	check := func(wire string, r request, o outcome) {
		t.Helper()
		made++
		switch may := s.may(table, byName[r.Type]); {
		case s.preset == "":
			if o.code != 401 {
				t.Errorf("%s over %s: %s: %v", s.name, wire, r.Type, o)
			}
		case o.code == -1 || o.code == 401 || o.forbids(byName[r.Type].Type) == may:
			t.Errorf("%s over %s: %s: %v, and the table says %t", s.name, wire, r.Type, o, may)
		case !may && !strings.Contains(o.text, fmt.Sprintf("The token %q", s.name)):
			t.Errorf("%s over %s: %s: the refusal doesn't name the token: %s", s.name, wire, r.Type, o.text)
		}
	}
	for wire, found := range map[string][]outcome{"messages": w.overMessages(s.secret, list), "ws": w.overWebSocket(s.secret, list)} {
		for i, o := range found {
			check(wire, list[i], o)
		}
	}
	invalid := slices.Clone(list) // rights are decided before data is looked at
	for i := range invalid {
		invalid[i].Data = `[[[]]]`
	}
	for i, o := range w.overMessages(s.secret, invalid) {
		if r := invalid[i]; !s.may(table, byName[r.Type]) {
			check("messages, with invalid data", r, o)
		}
	}
	for _, r := range list {
		check("call", r, w.call(s.secret, r.Type, r.Data))
		for _, spelled := range spellings(r.Type) {
			if s.readOnly && !*long {
				continue
			}
			made++
			if o := w.callAt(s.secret, spelled, r.Data); o.code == 0 && !s.may(table, byName[r.Type]) {
				t.Errorf("%s: %s: %v", s.name, spelled, o)
			}
		}
	}
	s.checkEffects(w, table, byName)
	s.checkListing(w, table, calls)
	if now := w.owner("Token.List", `{}`).String(); now != tokens {
		t.Errorf("%s has changed tokens: %s", s.name, now)
	}
	return made
}

// spellings are paths that might be taken for that of a syscall.
func spellings(what message.Type) []string {
	namespace, method := kernel.Method(what)
	return []string{
		"/v1/call/" + strings.ToUpper(namespace) + "/" + strings.ToUpper(method),
		"/v1/call/" + strings.ToUpper(namespace[:1]) + namespace[1:] + "/" + method,
		"/v1/call/" + namespace + "/%" + fmt.Sprintf("%x", method[0]) + method[1:],
	}
}

// checkEffects checks that what a subject was refused has not happened.
func (s *subject) checkEffects(w *world, table cells, byName map[message.Type]*kernel.Syscall) {
	t := w.t
	t.Helper()
	may := func(name message.Type) bool { return s.preset != "" && s.may(table, byName[name]) }
	exists := func(key string) bool { return w.owner("Memory.Get", fmt.Sprintf(`{"key":%q}`, key)).code == 0 }
	if exists("notes/"+s.name) != may("Memory.Set") {
		t.Errorf("%s: the key of Memory.Set exists: %t", s.name, exists("notes/"+s.name))
	}
	if exists("notes/keep-"+s.name) == may("Memory.Delete") {
		t.Errorf("%s: the key for Memory.Delete exists: %t", s.name, exists("notes/keep-"+s.name))
	}
	if exists("notes/file-"+s.name) && !may("VFS.Write") {
		t.Errorf("%s has written a file", s.name)
	}
}

// checkListing checks that a subject is shown exactly what it may call.
func (s *subject) checkListing(w *world, table cells, calls []*kernel.Syscall) {
	t := w.t
	t.Helper()
	if s.preset == "" {
		return
	}
	list, schema := w.call(s.secret, "Syscall.List", `{}`), w.callAt(s.secret, "/v1/call/service/schema", ``)
	for _, c := range calls {
		namespace, method := kernel.Method(c.Type)
		may := s.may(table, c)
		if shown := strings.Contains(list.String(), fmt.Sprintf("%q", c.Type)); shown != may {
			t.Errorf("%s is shown %s by Syscall.List: %t", s.name, c.Type, shown)
		}
		if o := w.call(s.secret, "Syscall.Describe", fmt.Sprintf(`{"name":%q}`, c.Type)); (o.code == 0) != (may || c.ForOwner()) || !may && o.code == 0 && !strings.Contains(o.String(), `"for":"owner only"`) {
			t.Errorf("%s is described %s: %v", s.name, c.Type, o)
		}
		if may && !strings.Contains(schema.String(), fmt.Sprintf("%q", namespace)) {
			t.Errorf("%s is not shown %s_%s by service_schema: %v", s.name, namespace, method, schema)
		}
	}
}

// A preset includes Syscall.Register for connections or for code, and what is allowed by name is
// allowed for both.
func TestWhoServesAndWhoRegistersCode(t *testing.T) {
	w := open(t)
	for name, c := range map[string]struct {
		grant        string
		serves, code bool
	}{
		"Plain":   {`"preset":"agent"`, false, true},
		"Handler": {`"preset":"handler"`, true, false},
		"Viewer":  {`"preset":"viewer"`, false, false},
		"Console": {`"preset":"console"`, true, true},
		"Allowed": {`"preset":"agent","allow":["Syscall.Register"]`, true, true},
		"Denied":  {`"preset":"console","deny":["Syscall.Register"]`, false, false},
	} {
		l := w.link(w.token(name, c.grant))
		for how, r := range map[string]struct {
			may  bool
			data string
		}{
			"a connection": {c.serves, definition(name + ".Serve")},
			"code":         {c.code, fmt.Sprintf(`{"name":"%s.Run","kind":"query","inputSchema":{},"outputSchema":{},"code":"export const handler = () => 1"}`, name)},
		} {
			o := l.ask("Syscall.Register", newID(), r.data)
			if (o.code == 0) != r.may || !r.may && (o.code != 403 || !strings.Contains(o.text, fmt.Sprintf("The token %q may not", name))) {
				t.Errorf("%s registers %s: %v", name, how, o)
			}
		}
	}
}
