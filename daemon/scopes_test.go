package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
)

// world is a daemon with memory and files, of which tokens reach a part.
type world struct {
	*Daemon
	dir string
	ids int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir()}
	tool := "#!/bin/sh\ntouch " + filepath.Join(w.dir, "ran") + "\necho described\n"
	for name, text := range map[string]string{
		"root/docs/a.md": "---\nname: a\ndescription: d\nskills: [../private/s.md, b.md]\ntools: [tool.sh]\n---\nTEXT", "root/docs/b.md": "---\nname: b\ndescription: of b\n---\n",
		"root/docs/tool.sh": tool, "root/private/s.md": "---\nname: SECRET\ndescription: SECRET\n---\nSECRET",
		"run/a.md": "---\nname: r\ndescription: d\ntools: [tool.sh]\n---\n", "run/tool.sh": tool,
		"open/file": "open", "open/x.sh": tool, "closed/file": "SECRET", "outside": "SECRET",
	} {
		path := filepath.Join(w.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(&Options{Home: filepath.Join(w.dir, "home"), Files: Files{Mounts: []string{
		"/=" + w.dir + "/root", "/open=" + w.dir + "/open:tokens=write", "/again=" + w.dir + "/open", "/closed=" + w.dir + "/closed:tokens=none",
		"/run=" + w.dir + "/run:exec",
	}}})
	if err != nil {
		t.Fatal(err)
	}
	w.Daemon = d
	t.Cleanup(func() { _ = d.Close() })
	for _, key := range []string{"notes/1", "notes/2", "notes-x", "agents/ci/1", "agents/other", "private/1", "zoo"} {
		w.call(t, nil, "Memory.Set", fmt.Sprintf(`{"key":%q,"value":"of %s"}`, key, key), "")
	}
	return w
}

// call sends a request for a principal, and compares its outcome with a part of it: "" is any
// reply but an error. Nothing that is secret is shown to a token.
func (w *world) call(t *testing.T, p *principal.Principal, what message.Type, data, want string) string {
	t.Helper()
	w.ids++
	m := kerneltest.Query(message.ID(fmt.Sprint("m", w.ids)), what, data)
	if s, ok := w.Kernel().Registry().Lookup(what); ok {
		m.Kind = s.Kind
	}
	out, err := w.Call(kernel.ActFor(t.Context(), kernel.From(p, "http")), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	text := string(out.Data)
	if out.Kind == message.KindError {
		code, _ := kerneltest.ReadError(t, out)
		text = fmt.Sprint(code, " ", text)
	}
	if !strings.Contains(text, want) || want == "" && out.Kind == message.KindError {
		t.Errorf("%s %s: %s; want %s", what, data, text, want)
	}
	if p != nil && strings.Contains(text, "SECRET") && !strings.Contains(data, "SECRET") {
		t.Errorf("%s %s shows %s", what, data, text)
	}
	return text
}

func caller(t *testing.T, g principal.Grant) *principal.Principal {
	t.Helper()
	if g.Preset == "" {
		g.Preset = principal.Agent
	}
	return kerneltest.Principal(t, "01", "ci", g)
}

// TestMemoryOfAToken: whichever syscall it uses, a token reaches the keys below its prefixes,
// and no others.
func TestMemoryOfAToken(t *testing.T) {
	w := newWorld(t)
	p := caller(t, principal.Grant{Memory: []string{"notes", "agents/ci"}})
	for _, key := range []string{"private/1", "/private/1", "agents/other", "agents", "notes-x", "proc/version", "sys/timeout", "vault/x", "new"} {
		for what, data := range map[message.Type]string{
			"Memory.Get": `{"key":%q}`, "Memory.Set": `{"key":%q,"value":"x"}`, "Memory.Delete": `{"key":%q}`, "Memory.History": `{"key":%q}`, "Memory.Restore": `{"key":%q,"revision":1}`,
		} {
			w.call(t, p, what, fmt.Sprintf(data, key), "403")
		}
		uri := "os://memory/" + strings.TrimPrefix(key, "/")
		for what, data := range map[message.Type]string{
			"VFS.Read": `{"uri":%q}`, "VFS.Write": `{"uri":%q,"content":"x"}`, "VFS.Delete": `{"uri":%q,"recursive":true}`,
		} {
			w.call(t, p, what, fmt.Sprintf(data, uri), "403")
		}
		w.call(t, p, "Content.Hydrate", fmt.Sprintf(`{"uri":%q}`, uri), `"content":"","metadata":{"uri":"ERROR: FETCH_FAILED"`)
	}
	for what, cases := range map[message.Type]map[string]string{
		"Memory.List": {
			`{}`: `{"keys":["agents/","notes/"],"note":"only what token ci may see"}`, `{"recursive":true}`: `{"keys":["agents/ci/1","notes/1","notes/2"],"note":`, `{"recursive":true,"limit":1}`: `{"keys":["agents/ci/1"],`,
			`{"prefix":"agents"}`: `{"keys":["agents/ci/"],"note":`, `{"prefix":"notes"}`: `{"keys":["notes/1","notes/2"],"note":`, `{"prefix":"private"}`: "403", `{"prefix":"proc"}`: "403",
		},
		"Memory.Search": {`{"query":"private","mode":"words"}`: `"hits":[],"total":0`, `{"query":"notes","mode":"words"}`: `"total":2`, `{"query":"of","prefix":"private"}`: "403"},
		"VFS.List":      {`{"uri":"os://memory/private"}`: "403", `{"uri":"os://memory/agents"}`: `"os://memory/agents/ci"`},
		"VFS.Read":      {`{"uri":"os://memory/notes/1"}`: "of notes/1", `{"uri":"os://memory/agents/ci/1"}`: "of agents/ci/1"},
		"Content.Index": {`{"uri":"os://memory/private"}`: "403"},
		"Memory.Get":    {`{"key":"notes/1"}`: "of notes/1", `{"key":"/agents/ci/1"}`: "of agents"},
	} {
		for data, want := range cases {
			w.call(t, p, what, data, want)
		}
	}
	w.call(t, p, "VFS.Write", `{"uri":"os://memory/notes/3","content":"new"}`, `"size":3`)
	w.call(t, p, "Memory.Set", `{"key":"notes","value":1}`, "success")
	w.call(t, p, "Memory.Delete", `{"key":"notes/3"}`, "success")
	if text := w.call(t, p, "VFS.List", `{"uri":"os://memory","recursive":true}`, "os://memory/notes/1"); strings.Contains(text, "private") || strings.Contains(text, "zoo") || strings.Contains(text, "other") || strings.Contains(text, "notes-x") {
		t.Errorf("listed: %s", text)
	}
	w.call(t, nil, "Memory.Get", `{"key":"private/1"}`, "of private/1")

	// A key that isn't there names near ones that the caller reaches, and no others.
	w.call(t, nil, "Memory.Set", `{"key":"notez/milk","value":1}`, "success")
	w.call(t, nil, "Memory.Get", `{"key":"notey/milk"}`, "did you mean notez/milk?")
	for what, data := range map[message.Type]string{"Memory.Get": `{"key":"notes/milk"}`, "VFS.Read": `{"uri":"os://memory/notes/milk"}`, "Memory.Restore": `{"key":"notes/milk","revision":1}`} {
		if text := w.call(t, p, what, data, "404"); strings.Contains(text, "notez") {
			t.Errorf("%s names a key that the caller doesn't reach: %s", what, text)
		}
	}
}

// TestFilesOfAToken: the same for files, and what is read of them by hydration and by an index.
func TestFilesOfAToken(t *testing.T) {
	w := newWorld(t)
	p := caller(t, principal.Grant{Files: []string{"os://docs:ro", "os://open/drafts"}})
	for _, uri := range []string{"os://private/s.md", "os://docs/../private/s.md", "private/s.md", "os:///private/s.md", "os://docsx", "os://closed/file", "os://open/file", "os://memory/notes/1", "os://sys/timeout", "os://proc/version", "os://again/file"} {
		for what, data := range map[message.Type]string{
			"VFS.Read": `{"uri":%q}`, "VFS.Write": `{"uri":%q,"content":"x"}`, "VFS.Delete": `{"uri":%q}`, "VFS.Resolve": `{"uri":%q}`, "VFS.List": `{"uri":%q}`, "Content.Index": `{"uri":%q}`,
		} {
			w.call(t, p, what, fmt.Sprintf(data, uri), "403")
		}
		w.call(t, p, "Content.Hydrate", fmt.Sprintf(`{"uri":%q}`, uri), `"content":"","metadata":{"uri":"ERROR: FETCH_FAILED"`)
	}
	w.call(t, p, "Content.Hydrate", `{"uri":"https://127.0.0.1:1/x.md"}`, "FETCH_FAILED")
	w.call(t, p, "VFS.Read", `{"uri":"os://docs/b.md"}`, "of b")
	w.call(t, p, "VFS.Read", `{"uri":"os://docs/bb.md"}`, "File not found: os://docs/bb.md (did you mean os://docs/b.md?)")
	w.call(t, p, "VFS.Write", `{"uri":"os://docs/b.md","content":"x"}`, "may read os://docs/b.md, and not change it")
	w.call(t, p, "VFS.Write", `{"uri":"os://open/drafts/new","content":"x"}`, `"size":1`)
	w.call(t, p, "VFS.Delete", `{"uri":"os://open/drafts/new"}`, "true")
	w.call(t, nil, "Content.Hydrate", `{"uri":"os://docs/a.md"}`, "SECRET") // so that all of it is kept
	w.call(t, nil, "Content.Index", `{"uri":"os://"}`, "SECRET")
	w.call(t, p, "Content.Hydrate", `{"uri":"os://docs/a.md"}`, `{"uri":"os://private/s.md","name":"ERROR: FETCH_FAILED"`)
	if text := w.call(t, p, "Content.Index", `{"uri":"os://"}`, "os://docs/b.md"); strings.Contains(text, `"uri":"os://private`) {
		t.Errorf("indexed: %s", text)
	}
	for data, want := range map[string]string{`{}`: `"os://docs"`, `{"recursive":true}`: `"os://docs/a.md"`} {
		text := w.call(t, p, "VFS.List", data, want)
		for _, hidden := range []string{"private", "closed", "memory", "sys", "proc", "open/file", "again"} {
			if strings.Contains(text, hidden) {
				t.Errorf("%s is listed: %s", hidden, text)
			}
		}
	}
}

// TestFilePointersOfAToken: a token points to blobs, and to no file of this machine.
func TestFilePointersOfAToken(t *testing.T) {
	w := newWorld(t)
	p := caller(t, principal.Grant{})
	pointer := fmt.Sprintf(`{"scheme":"file","path":%q}`, filepath.Join(w.dir, "outside"))
	w.call(t, p, "Memory.Set", `{"key":"x","valueRef":`+pointer+`}`, "403")
	w.call(t, p, "VFS.Write", `{"uri":"os://open/x","contentRef":`+pointer+`}`, "403")
	w.call(t, nil, "Memory.Set", `{"key":"x","valueRef":`+pointer+`}`, "success")
	for whose, want := range map[*principal.Principal]string{p: "success", nil: "404"} {
		data := fmt.Appendf(nil, `"a blob for %p"`, whose)
		blob, err := w.state.Put(kernel.ActFor(t.Context(), kernel.From(whose, "http")), data)
		if err != nil {
			t.Fatal(err)
		}
		w.call(t, p, "Memory.Set", `{"key":"y","valueRef":`+string(blob.Append(nil))+`}`, want)
	}
}

// TestSettingsAreForTheOwner: also by way of the tree and of the memory.
func TestSettingsAreForTheOwner(t *testing.T) {
	w := newWorld(t)
	for preset, want := range map[principal.Preset]string{principal.Agent: "may not change the setting", principal.Console: ""} {
		p := caller(t, principal.Grant{Preset: preset, Allow: []string{"*"}})
		w.call(t, p, "VFS.Write", `{"uri":"os://sys/timeout","content":"20s"}`, want)
		w.call(t, p, "Memory.Set", `{"key":"sys/x","value":"1"}`, want)
		w.call(t, p, "VFS.Write", `{"uri":"os://memory/sys/y","content":"1"}`, want)
		w.call(t, p, "Memory.Delete", `{"key":"sys/x"}`, want)
		w.call(t, p, "Memory.Set", `{"key":"models/x","value":{"dialect":"syscall","type":"Llama.Generate"}}`, "they are the owner's")
		w.call(t, p, "VFS.Write", `{"uri":"os://memory/models/y","content":"other"}`, "they are the owner's")
		w.call(t, p, "VFS.Read", `{"uri":"os://sys/timeout"}`, "content")
	}
}

// TestAMountSaysWhatTokensMay: write it, read it, or nothing; and nothing that they may write
// is executed, by whichever mount it is reached, nor anything for them.
//
// Clauses: H20-10.3-3 H20-10.1-2 H20-5.3-6
func TestAMountSaysWhatTokensMay(t *testing.T) {
	w := newWorld(t)
	p := caller(t, principal.Grant{})
	w.call(t, p, "VFS.Write", `{"uri":"os://docs/new","content":"x"}`, `The token \"ci\" may not write in the mount /, which is for the owner to write`)
	w.call(t, p, "VFS.Delete", `{"uri":"os://docs/a.md"}`, "403")
	w.call(t, p, "VFS.Write", `{"uri":"os://again/new","content":"x"}`, "403")
	w.call(t, p, "VFS.Read", `{"uri":"os://closed/file"}`, "403")
	w.call(t, p, "VFS.List", `{"uri":"os://closed"}`, "403")
	w.call(t, p, "Content.Hydrate", `{"uri":"os://closed/file"}`, `"uri":"ERROR: FETCH_FAILED"`)
	if text := w.call(t, p, "VFS.List", `{"recursive":true}`, `{"uri":"os://docs/a.md","name":"a.md","kind":"file"`); strings.Contains(text, "closed") {
		t.Errorf("listed: %s", text)
	}
	w.call(t, nil, "VFS.Read", `{"uri":"os://closed/file"}`, "SECRET")
	w.call(t, nil, "VFS.Write", `{"uri":"os://docs/new","content":"x"}`, `"size":1`)

	w.call(t, p, "VFS.Write", `{"uri":"os://open/agent.md","content":"---\nname: a\ntools: [x.sh, os://again/x.sh]\n---\n"}`, "size")
	for _, by := range []*principal.Principal{p, nil} {
		w.call(t, by, "Content.Hydrate", `{"uri":"os://open/agent.md"}`, `[{"uri":"os://again/x.sh","description":"ERROR: EXECUTION_SKIPPED"},{"uri":"os://open/x.sh","description":"ERROR: EXECUTION_SKIPPED"}]`)
	}
	w.call(t, p, "Content.Hydrate", `{"uri":"os://docs/b.md"}`, `"tools":[]}}}`)
	if _, err := os.Stat(filepath.Join(w.dir, "ran")); err == nil {
		t.Error("a tool that tokens may write was executed")
	}
}

// TestToolsAreRunForTheOwner: a token's hydration runs nothing, and says so; nor does it wait
// for tools of others.
//
// Clauses: H20-6.2-2 H20-10.3-1 H20-10.3-3
func TestToolsAreRunForTheOwner(t *testing.T) {
	w := newWorld(t)
	p := caller(t, principal.Grant{Files: []string{"os://docs", "os://run"}})
	w.call(t, p, "Content.Hydrate", `{"uri":"os://run/a.md"}`, `"description":"ERROR: EXECUTION_SKIPPED"}]},"note":"The tools are not described`)
	if _, err := os.Stat(filepath.Join(w.dir, "ran")); err == nil {
		t.Error("a tool was executed for a token")
	}
	w.call(t, nil, "Content.Hydrate", `{"uri":"os://run/a.md"}`, `"description":"described"`)
}

// TestSearchForMakingATool: a model that is asked to make a tool finds how, in the first place.
func TestSearchForMakingATool(t *testing.T) {
	w := newWorld(t)
	p := caller(t, principal.Grant{Preset: principal.Agent})
	for _, query := range []string{"make a new tool", "make it a tool", "register a tool", "write my own tool", "add a custom tool in javascript", "new tool from code"} {
		w.call(t, p, "Syscall.Search", fmt.Sprintf(`{"query":%q}`, query), `{"syscalls":[{"name":"Syscall.Register"`)
	}
}

// TestSearchesOfAToken: none of the four searches finds more by meaning than the token may see. The owner finds all of it.
func TestSearchesOfAToken(t *testing.T) {
	w := newWorld(t)
	p := caller(t, principal.Grant{Memory: []string{"notes"}, Files: []string{"os://docs"}, Deny: []string{"Crypto.*"}})
	w.call(t, nil, "Memory.Set", `{"key":"hidden/animal","value":"the giraffe lives in the zoo"}`, "")
	w.call(t, nil, "VFS.Write", `{"uri":"os://hidden/SKILL.md","content":"---\nname: zoo\ndescription: Feeds a giraffe\n---\n"}`, "")
	for _, c := range []struct {
		what        message.Type
		query, only string // what only the owner finds
	}{
		{"Memory.Search", "a wild animal", "hidden/animal"},
		{"Content.Search", "a wild animal", "os://hidden/SKILL.md"},
		{"Message.Search", "a wild animal", "giraffe"},
		{"Syscall.Search", "encrypt a secret", "Crypto.Seal"},
	} {
		for _, mode := range []string{"meaning", "both"} {
			data := fmt.Sprintf(`{"query":%q,"mode":%q,"limit":100}`, c.query, mode)
			w.call(t, nil, c.what, data, c.only)
			if text := w.call(t, p, c.what, data, ""); strings.Contains(text, c.only) {
				t.Errorf("the token finds %s with %s %s: %s", c.only, c.what, data, text)
			}
		}
	}
}
