package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kernos/daemon"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/schema"
	"kernos/transport"
)

// TestErrorTextsAreEnoughToMendACall breaks valid calls of every syscall in many ways. A script
// mends them that reads the texts of the errors and nothing else: no schema, no list of types,
// no valid call. A call is mended if it is accepted in the end as a call of the same type.
func TestErrorTextsAreEnoughToMendACall(t *testing.T) {
	conn := connectStubs(t)
	random := rand.New(rand.NewPCG(1, 2))
	const each = 90 // of each way to break a call
	total, mended := 0, 0
	for _, way := range slices.Sorted(maps.Keys(breakages)) {
		good := 0
		for n := range each {
			valid := conn.calls[random.IntN(len(conn.calls))]
			broken, ok := breakages[way](random, valid)
			if !ok {
				continue
			}
			total++
			if talk, ok := conn.mend(broken, valid); ok {
				good++
			} else if testing.Verbose() {
				t.Logf("%s %d:\n%s", way, n, strings.Join(talk, "\n"))
			}
		}
		mended += good
		t.Logf("%-24s %d mended", way, good)
	}
	t.Logf("%d of %d are mended", mended, total)
	if total < 600 {
		t.Errorf("only %d calls were broken", total)
	}
	if 100*mended < 98*total {
		t.Errorf("%d of %d are mended, which is less than 98 %%", mended, total)
	}
}

// call is a valid call.
type call struct {
	kind message.Kind
	typ  message.Type
	data map[string]any
}

func (c call) message() map[string]any {
	return map[string]any{"kind": string(c.kind), "type": string(c.typ), "data": clone(c.data),
		"metadata": map[string]any{"id": "m1", "timestamp": json.Number("1735000000000"), "correlation": "w1"}}
}

func clone(m map[string]any) map[string]any {
	text, _ := json.Marshal(m)
	return decode(text)
}

func decode(text []byte) (m map[string]any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&m)
	return m
}

func encode(m map[string]any) string {
	text, _ := json.Marshal(m)
	return string(text)
}

// breakages are the ways to break a call. They report false for a call that can't be broken so.
var breakages = map[string]func(*rand.Rand, call) (string, bool){
	"typo in type": func(r *rand.Rand, c call) (string, bool) {
		m := c.message()
		m["type"] = typo(r, string(c.typ))
		return encode(m), true
	},
	"snake case type": func(_ *rand.Rand, c call) (string, bool) {
		namespace, name := kernel.Method(c.typ)
		m := c.message()
		m["type"] = namespace + "_" + name
		return encode(m), true
	},
	"lower case type": func(_ *rand.Rand, c call) (string, bool) {
		m := c.message()
		m["type"] = strings.ToLower(string(c.typ))
		return encode(m), true
	},
	"typo in kind": func(r *rand.Rand, c call) (string, bool) {
		m := c.message()
		m["kind"] = typo(r, string(c.kind))
		return encode(m), true
	},
	"typo in envelope": func(r *rand.Rand, c call) (string, bool) {
		m := c.message()
		rename(m, pick(r, m), r)
		return encode(m), true
	},
	"typo in metadata": func(r *rand.Rand, c call) (string, bool) {
		m := c.message()
		meta := m["metadata"].(map[string]any)
		rename(meta, pick(r, meta), r)
		return encode(m), true
	},
	"typo in data": func(r *rand.Rand, c call) (string, bool) {
		m := c.message()
		data := m["data"].(map[string]any)
		if len(data) == 0 {
			return "", false
		}
		rename(data, pick(r, data), r)
		return encode(m), true
	},
	"capitals in data": func(r *rand.Rand, c call) (string, bool) {
		m := c.message()
		data := m["data"].(map[string]any)
		if len(data) == 0 {
			return "", false
		}
		name := pick(r, data)
		value := data[name]
		delete(data, name)
		data[strings.ToUpper(name[:1])+name[1:]] = value
		return encode(m), true
	},
	"dropped from envelope": func(r *rand.Rand, c call) (string, bool) {
		m := c.message()
		delete(m, []string{"kind", "data", "metadata"}[r.IntN(3)]) // without a type, it is not known what is meant
		return encode(m), true
	},
	"dropped from metadata": func(r *rand.Rand, c call) (string, bool) {
		m := c.message()
		delete(m["metadata"].(map[string]any), []string{"id", "timestamp"}[r.IntN(2)])
		return encode(m), true
	},
	"dropped from data": func(r *rand.Rand, c call) (string, bool) {
		m := c.message()
		data := m["data"].(map[string]any)
		if len(data) == 0 {
			return "", false
		}
		delete(data, pick(r, data))
		return encode(m), true
	},
	"extra": func(r *rand.Rand, c call) (string, bool) {
		m := c.message()
		where := []map[string]any{m, m["metadata"].(map[string]any), m["data"].(map[string]any)}[r.IntN(3)]
		where["zzExtra"] = "x"
		return encode(m), true
	},
	"mistyped in data": func(r *rand.Rand, c call) (string, bool) {
		m := c.message()
		data := m["data"].(map[string]any)
		if len(data) == 0 {
			return "", false
		}
		name := pick(r, data)
		if _, ok := data[name].(string); ok {
			data[name] = 7
		} else {
			data[name] = "text"
		}
		return encode(m), true
	},
	"mistyped in envelope": func(r *rand.Rand, c call) (string, bool) {
		m := c.message()
		meta := m["metadata"].(map[string]any)
		switch r.IntN(5) {
		case 0:
			meta["timestamp"] = "2026-01-01T00:00:00Z"
		case 1:
			meta["id"] = 7
		case 2:
			meta["timestamp"] = 1.5
		case 3:
			m["metadata"] = "m1"
		case 4:
			meta["correlation"] = []int{1}
		}
		return encode(m), true
	},
	"older names": func(r *rand.Rand, c call) (string, bool) {
		m := c.message()
		switch r.IntN(3) {
		case 0: // all but the kind
			m["name"], m["payload"] = m["type"], m["data"]
			delete(m, "type")
			delete(m, "data")
		case 1:
			m["payload"] = m["data"]
			delete(m, "data")
		case 2: // all but the data
			m["name"], m["type"] = m["type"], m["kind"]
			delete(m, "kind")
		}
		return encode(m), true
	},
	"broken JSON": func(r *rand.Rand, c call) (string, bool) {
		text := encode(c.message())
		switch r.IntN(6) {
		case 0:
			return text[:len(text)-1-r.IntN(2)], true // braces are missing at the end
		case 1:
			return text + "}", true
		case 2:
			return strings.Replace(text, "}", ",}", 1), true
		case 3:
			return strings.Replace(text, `,"kind"`, ` "kind"`, 1), true
		case 4:
			return strings.Replace(text, `"kind":`, `kind:`, 1), true
		}
		return strings.Replace(text, `"`+string(c.kind)+`"`, `'`+string(c.kind)+`'`, 1), true
	},
}

// pick returns the name of a member.
func pick(r *rand.Rand, m map[string]any) string {
	names := slices.Sorted(maps.Keys(m))
	return names[r.IntN(len(names))]
}

func rename(m map[string]any, name string, r *rand.Rand) {
	value := m[name]
	delete(m, name)
	m[typo(r, name)] = value
}

// typo changes, adds, drops or exchanges a letter after the first.
func typo(r *rand.Rand, word string) string {
	for {
		letters := []byte(word)
		if len(letters) < 3 {
			return word + string(rune('a'+r.IntN(26)))
		}
		i := 1 + r.IntN(len(letters)-2)
		switch r.IntN(4) {
		case 0:
			letters[i] = byte('a' + r.IntN(26))
		case 1:
			letters = slices.Insert(letters, i, letters[i])
		case 2:
			letters = slices.Delete(letters, i, i+1)
		case 3:
			letters[i], letters[i+1] = letters[i+1], letters[i]
		}
		if string(letters) != word {
			return string(letters)
		}
	}
}

// stubs is a connection to a kernel that has all definitions of the program, with handlers that
// reply with nothing.
type stubs struct {
	*line
	calls []call
}

func connectStubs(t *testing.T) *stubs {
	t.Helper()
	definitions, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	var modules []kernel.Module
	s := new(stubs)
	for _, m := range definitions.All().Modules() {
		m.Syscalls = slices.Clone(m.Syscalls)
		for i := range m.Syscalls {
			d := &m.Syscalls[i]
			d.Runs = kernel.Inline
			d.Handler = func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Reply(nil)) }
			example, ok := schema.ExampleOf(d.Input)
			if data := decode(example); ok && data != nil && d.Visibility == kernel.Listed {
				s.calls = append(s.calls, call{d.Kind, d.Type, data})
			}
		}
		modules = append(modules, m)
	}
	k := kerneltest.Of(t, nil, modules...)
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	go func() {
		_, err := transport.Serve(context.Background(), k, inRead, outWrite, nil)
		_ = outWrite.CloseWithError(err)
	}()
	t.Cleanup(func() { _ = inWrite.Close(); _, _ = io.Copy(io.Discard, outRead) })
	s.line = &line{inWrite, bufio.NewReader(outRead)}
	return s
}

// mend sends a broken call and corrects it until it is accepted, as a call of the same type.
func (s *stubs) mend(text string, want call) (talk []string, ok bool) {
	for range 8 {
		answer, err := s.ask(text)
		talk = append(talk, "> "+text, "< "+answer)
		if err != nil {
			return talk, false
		}
		var got struct {
			Kind message.Kind `json:"kind"`
			Type message.Type `json:"type"`
			Data struct {
				Message string `json:"message"`
			} `json:"data"`
		}
		if json.Unmarshal([]byte(answer), &got) != nil {
			return talk, false
		}
		if got.Kind == message.KindReply {
			return talk, got.Type == want.typ
		}
		if text = correct(text, got.Data.Message); text == "" {
			return talk, false
		}
	}
	return talk, false
}

// What the corrector reads in an error.
var (
	syntaxError  = regexp.MustCompile(`^Invalid JSON: (.*) at position (\d+)$`)
	noHandler    = regexp.MustCompile(`^No handler for \S+: did you mean (\S+?)(?: or |\?)`)
	wrongType    = regexp.MustCompile(`type must be .*\(did you mean (\S+?)(?: or |\?)`)
	wrongKind    = regexp.MustCompile(`kind must be one of (\w+)`)
	nearKind     = regexp.MustCompile(`kind must be .*\(did you mean (\w+)`)
	sendAs       = regexp.MustCompile(`send it with kind (\w+)`)
	missing      = regexp.MustCompile(`Missing required fields?: ([^;]*)`)
	misplaced    = regexp.MustCompile(`(\w+) has a kind as its value \(did you mean (\w+)\?\)`)
	unknownTop   = regexp.MustCompile(`unknown field "([^"]*)"( in metadata)?(?: \(did you mean ([\w.]+))?`)
	missingData  = regexp.MustCompile(`missing required field: (?:one of )?([\w.\[\]]+)`)
	unknownData  = regexp.MustCompile(`unknown field: ([\w.\[\]]+)(?: \(did you mean (\w+))?`)
	expectedData = regexp.MustCompile(`(?:^|failed: |; )([\w.\[\]]+): expected (.*?), got`)
	mustBe       = regexp.MustCompile(`(metadata[\w.]*) must be (.*?)[,;] `)
)

// correct mends a text as far as an error says how; "" if it says nothing that helps.
func correct(text, problem string) string {
	if at := syntaxError.FindStringSubmatch(problem); at != nil {
		i, _ := strconv.Atoi(at[2])
		return correctSyntax(text, at[1], i)
	}
	m := decode([]byte(text))
	if m == nil {
		return ""
	}
	before := encode(m)
	data, _ := m["data"].(map[string]any)
	meta, _ := m["metadata"].(map[string]any)
	if found := noHandler.FindStringSubmatch(problem); found != nil {
		m["type"] = found[1]
	}
	if found := wrongType.FindStringSubmatch(problem); found != nil {
		m["type"] = found[1]
	}
	if found := nearKind.FindStringSubmatch(problem); found != nil {
		m["kind"] = found[1]
	} else if found := wrongKind.FindStringSubmatch(problem); found != nil {
		m["kind"] = found[1]
	}
	if found := sendAs.FindStringSubmatch(problem); found != nil {
		m["kind"] = found[1]
	}
	if found := misplaced.FindStringSubmatch(problem); found != nil {
		m[found[2]] = m[found[1]]
		delete(m, found[1])
	}
	for _, found := range unknownTop.FindAllStringSubmatch(problem, -1) {
		in := m
		if found[2] != "" {
			in = meta
		}
		value := in[found[1]]
		delete(in, found[1])
		if to, inMeta := strings.CutPrefix(found[3], "metadata."); inMeta && meta != nil {
			meta[to] = value
		} else if found[3] != "" {
			in[found[3]] = value
		}
	}
	if found := missing.FindStringSubmatch(problem); found != nil {
		meta, _ = m["metadata"].(map[string]any)
		for _, name := range strings.Split(found[1], ", ") {
			if to, inMeta := strings.CutPrefix(name, "metadata."); inMeta && meta != nil {
				setAbsent(meta, to, "x")
			} else {
				setAbsent(m, name, "x")
			}
		}
	}
	for _, found := range mustBe.FindAllStringSubmatch(problem, -1) {
		if to, inMeta := strings.CutPrefix(found[1], "metadata."); inMeta && meta != nil {
			meta[to] = valueFor(found[2])
		} else {
			m[found[1]] = valueFor(found[2])
		}
	}
	if strings.Contains(problem, "data: expected an object") {
		m["data"] = map[string]any{}
	}
	for _, found := range unknownData.FindAllStringSubmatch(problem, -1) {
		in, name := walk(data, found[1])
		if in == nil {
			continue
		}
		if found[2] != "" {
			in[found[2]] = in[name]
		}
		delete(in, name)
	}
	for _, found := range missingData.FindAllStringSubmatch(problem, -1) {
		if in, name := walk(data, found[1]); in != nil {
			setAbsent(in, name, "x")
		}
	}
	for _, found := range expectedData.FindAllStringSubmatch(problem, -1) {
		if in, name := walk(data, found[1]); in != nil && in[name] != nil {
			in[name] = valueFor(found[2])
		}
	}
	if after := encode(m); after != before {
		return after
	}
	return ""
}

func setAbsent(m map[string]any, name string, value any) {
	if _, ok := m[name]; !ok {
		m[name] = value
	}
}

// walk finds the object that has, or should have, the member that a path names.
func walk(data map[string]any, path string) (in map[string]any, name string) {
	steps := strings.Split(path, ".")
	for _, step := range steps[:len(steps)-1] {
		data, _ = data[step].(map[string]any)
	}
	return data, steps[len(steps)-1]
}

var quotedWord = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)

// valueFor makes a value of what an error says is expected.
func valueFor(expected string) any {
	if strings.HasPrefix(expected, "one of ") || strings.HasPrefix(expected, `"`) {
		if found := quotedWord.FindStringSubmatch(expected); found != nil {
			return found[1]
		}
	}
	if n := regexp.MustCompile(`string of at least (\d+) characters`).FindStringSubmatch(expected); n != nil {
		length, _ := strconv.Atoi(n[1])
		return strings.Repeat("x", length)
	}
	if n := regexp.MustCompile(`number of at (?:least|most) (-?\d+)`).FindStringSubmatch(expected); n != nil {
		return json.Number(n[1])
	}
	for _, kind := range []struct {
		words string
		value any
	}{
		{"object", map[string]any{}}, {"array", []any{}}, {"boolean", true}, {"integer", 1}, {"number", 1}, {"string", "x"}, {"null", nil},
	} {
		if strings.Contains(expected, kind.words) {
			return kind.value
		}
	}
	return "x"
}

// correctSyntax mends a text that is not JSON, at a position.
func correctSyntax(text, problem string, i int) string {
	got := ""
	if _, after, ok := strings.Cut(problem, ", got '"); ok {
		got = strings.TrimSuffix(after, "'")
	}
	switch {
	case strings.HasPrefix(problem, "the text ends, expected ',' or '}'"):
		return text + "}"
	case problem == "the text ends inside a string":
		return text + `"`
	case strings.HasPrefix(problem, "expected nothing after"):
		return text[:i]
	case strings.HasPrefix(problem, "expected a member name in double quotes, got '}'"): // after a comma that is one too many
		return strings.TrimRight(text[:i], ", ") + text[i:]
	case strings.HasPrefix(problem, "expected a member name in double quotes"), strings.HasPrefix(problem, "expected a value, got '''"), strings.HasPrefix(problem, "expected a value, got the word"):
		word := regexp.MustCompile(`^'?(\w+)'?`).FindString(text[i:])
		return text[:i] + strconv.Quote(strings.Trim(word, "'")) + text[i+len(word):]
	case strings.HasPrefix(problem, "expected ',' or '}'") && got == `"`:
		return text[:i] + "," + text[i:]
	}
	return ""
}
