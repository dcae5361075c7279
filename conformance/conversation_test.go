package conformance

import (
	"cmp"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kernos/kernel"
	"kernos/message"
)

// conversation is one file.
type conversation struct {
	path     string // from this folder, with slashes
	title    string
	clauses  []string
	needs    []string
	wire     string
	lenient  bool
	authKey  bool               // the daemon has a public key
	private  ed25519.PrivateKey // that belongs to it, while it runs
	handlers []handlerSpec
	files    []fileSpec
	pages    []pageSpec        // of its web server
	tls      bool              // it is reached by https
	server   string            // the address of that, while it runs
	text     []string          // all lines of the file
	events   *events           // of the kernel that is talked to
	hashes   map[string]string // what the words $hash, $newhash, $job, $session, $request and $challenge stand for
	talk     []spoken
}

// spoken is one line of the talk.
type spoken struct {
	line    int // index into text
	sent    bool
	restart bool   // neither: the kernel ends, and another one begins
	release string // neither: an event that handlers wait for
	newline bool   // sent: with a newline
	anyTurn bool   // expected: in any order with its neighbours
	text    string
}

// handlerSpec is a syscall that exists only in a conversation.
type handlerSpec struct {
	name    message.Type
	kind    message.Kind
	slow    bool
	timeout time.Duration
	emits   []message.Type
	steps   []step

	registry *kernel.Registry // of the kernel that it is part of
	events   *events          // that it waits for

	definition struct {
		Summary       string
		Input, Output json.RawMessage
		Hidden        bool
	}
}

type step struct{ verb, arg string }

// events are what handlers wait for, by name. Each happens once.
type events struct {
	mu  sync.Mutex
	all map[string]chan struct{}
}

// of returns a channel that is closed when an event has happened.
func (e *events) of(name string) chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = make(map[string]chan struct{})
	}
	if e.all[name] == nil {
		e.all[name] = make(chan struct{})
	}
	return e.all[name]
}

// release makes an event happen.
func (e *events) release(name string) {
	c := e.of(name)
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
}

// conversations reads all files.
func conversations(t *testing.T) []*conversation {
	t.Helper()
	var all []*conversation
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "npm" {
			return fs.SkipDir // other people's files
		}
		if err != nil || d.IsDir() || filepath.Ext(path) != ".txt" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		c, err := parse(filepath.ToSlash(path), string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, c)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func parse(path, text string) (*conversation, error) {
	c := &conversation{path: path, wire: "ndjson", text: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
	head := true
	for i, line := range c.text {
		var err error
		switch {
		case strings.HasPrefix(line, ">"), strings.HasPrefix(line, "<"):
			head = false
			err = c.say(i, line)
		case strings.TrimSpace(line) == "":
		case line == "= restart":
			head = false
			c.talk = append(c.talk, spoken{line: i, restart: true})
		case strings.HasPrefix(line, "= release "):
			head = false
			c.talk = append(c.talk, spoken{line: i, release: strings.TrimPrefix(line, "= release ")})
		case strings.HasPrefix(line, "#"):
			if c.title == "" {
				c.title = strings.TrimSpace(strings.TrimPrefix(line, "#"))
			}
		case head:
			err = c.setting(line)
		default:
			err = fmt.Errorf("neither > nor < nor #: %s", line)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if c.title == "" || len(c.talk) == 0 {
		return nil, fmt.Errorf("a conversation needs a title and a talk")
	}
	return c, nil
}

func (c *conversation) say(i int, line string) error {
	s := spoken{line: i, sent: line[0] == '>', newline: true}
	rest := line[1:]
	switch {
	case s.sent && strings.HasPrefix(rest, "-"):
		s.newline = false
		rest = rest[1:]
	case !s.sent && strings.HasPrefix(rest, "~"):
		s.anyTurn = true
		rest = rest[1:]
	}
	text, err := expand(strings.TrimPrefix(rest, " "))
	s.text = text
	c.talk = append(c.talk, s)
	return err
}

var macro = regexp.MustCompile(`\$\((hex:[0-9A-Fa-f]+|[^*()]+\*[0-9]+)\)`)

// expand replaces the macros in a line.
func expand(line string) (string, error) {
	var bad error
	line = macro.ReplaceAllStringFunc(line, func(m string) string {
		body := m[2 : len(m)-1]
		if digits, ok := strings.CutPrefix(body, "hex:"); ok {
			raw, err := hex.DecodeString(digits)
			if err != nil {
				bad = err
			}
			return string(raw)
		}
		text, count, _ := strings.Cut(body, "*")
		n, err := strconv.Atoi(count)
		if err != nil {
			bad = err
		}
		return strings.Repeat(text, n)
	})
	return line, bad
}

func (c *conversation) setting(line string) error {
	key, value, ok := strings.Cut(line, ":")
	if !ok {
		return fmt.Errorf("neither a setting nor a comment: %s", line)
	}
	value = strings.TrimSpace(value)
	switch key {
	case "clauses":
		c.clauses = append(c.clauses, strings.Fields(value)...)
	case "needs":
		c.needs = append(c.needs, strings.Fields(value)...)
	case "wire":
		c.wire = value
		if value != "ndjson" && value != "jsonrpc" && value != "commands" {
			return fmt.Errorf("no such wire: %s", value)
		}
	case "options":
		c.lenient = value == "lenient"
		if !c.lenient {
			return fmt.Errorf("no such option: %s", value)
		}
	case "daemon":
		c.authKey = value == "auth-key"
		if !c.authKey {
			return fmt.Errorf("no such daemon: %s", value)
		}
	case "handler":
		h, err := parseHandler(value)
		c.handlers = append(c.handlers, h)
		return err
	case "definition":
		return c.define(value)
	case "page":
		return c.addPage(value)
	case "server":
		c.tls = value == "https"
		if !c.tls {
			return fmt.Errorf("no such server: %s", value)
		}
	case "file":
		return c.addFile(value, 0o644)
	case "file+x":
		return c.addFile(value, 0o755)
	default:
		return fmt.Errorf("no such setting: %s", key)
	}
	return nil
}

// define says more of a handler that was named before.
func (c *conversation) define(text string) error {
	name, definition, _ := strings.Cut(text, " ")
	for i := range c.handlers {
		if h := &c.handlers[i]; string(h.name) == name {
			return json.Unmarshal([]byte(definition), &h.definition)
		}
	}
	return fmt.Errorf("a definition of %s, which no handler line names above it", name)
}

func parseHandler(text string) (handlerSpec, error) {
	var h handlerSpec
	words := strings.Fields(text)
	if len(words) < 3 {
		return h, fmt.Errorf("a handler is TYPE KIND STEP …: %s", text)
	}
	h.name, h.kind = message.Type(words[0]), message.Kind(words[1])
	rest := text
	next := func() string {
		word, tail, _ := strings.Cut(strings.TrimSpace(rest), " ")
		rest = tail
		return word
	}
	next()
	next()
	for {
		before := rest
		word := next()
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "slow":
			h.slow = true
		case "timeout":
			d, err := time.ParseDuration(value)
			if err != nil {
				return h, err
			}
			h.timeout = d
		case "emits":
			for _, e := range strings.Split(value, ",") {
				h.emits = append(h.emits, message.Type(e))
			}
		default:
			for _, s := range strings.Split(before, " ; ") {
				verb, arg, _ := strings.Cut(strings.TrimSpace(s), " ")
				if !slices.Contains([]string{"reply", "echo", "fail", "error", "panic", "emit", "progress", "call", "define", "remove", "wait", "hang", "silent"}, verb) {
					return h, fmt.Errorf("no such step: %s", verb)
				}
				h.steps = append(h.steps, step{verb, strings.TrimSpace(arg)})
			}
			return h, nil
		}
	}
}

// built reports whether all of these folders hold Go code.
func built(folders ...string) bool {
	for _, f := range folders {
		found, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(f), "*.go"))
		if err != nil || len(found) == 0 {
			return false
		}
	}
	return true
}

// runs reports whether the conversation can be held today.
func (c *conversation) runs() bool { return built(c.needs...) }

// wants reports whether the conversation is about what is in a folder.
func (c *conversation) wants(folder string) bool { return slices.Contains(c.needs, folder) }

// inProgram reports whether the program has the capabilities that the conversation needs: those
// that the daemon builds it from.
func (c *conversation) inProgram(t *testing.T) bool {
	t.Helper()
	source, err := os.ReadFile(filepath.FromSlash("../daemon/modules.go"))
	if err != nil {
		t.Fatal(err)
	}
	return !slices.ContainsFunc(c.needs, func(folder string) bool {
		return strings.HasPrefix(folder, "capability/") && !strings.Contains(string(source), `"kernos/`+folder+`"`)
	})
}

// meaning returns a text that is sent, with the ids of jobs, sessions and requests that came before, and the
// challenge signed.
func (c *conversation) meaning(text string) string {
	if strings.Contains(text, "$signature") {
		challenge, _ := base64.StdEncoding.DecodeString(c.hashes["$challenge"])
		text = strings.ReplaceAll(text, "$signature", base64.StdEncoding.EncodeToString(ed25519.Sign(c.private, challenge)))
	}
	return words.ReplaceAllStringFunc(text, func(word string) string { return cmp.Or(c.hashes[word], word) })
}

// durable reports whether the conversation uses a store.
func (c *conversation) durable() bool {
	return c.wants("capability/memory") || c.wants("capability/job") || c.wants("capability/session") || c.wants("capability/history") || c.wants("journal")
}

var words = regexp.MustCompile(`\$(id|time|any|hash|newhash|thirdhash|job[2-5]?|session|request|challenge)\b`)

// pattern matches an expected line, and lists the words whose texts it finds.
func pattern(expected string) (p *regexp.Regexp, found []string) {
	var b strings.Builder
	b.WriteString(`(?s)^`)
	last := 0
	for _, at := range words.FindAllStringIndex(expected, -1) {
		b.WriteString(regexp.QuoteMeta(expected[last:at[0]]))
		switch word := expected[at[0]:at[1]]; word {
		case "$id":
			b.WriteString(`[^"]+`)
		case "$time":
			b.WriteString(`[0-9]{13}`)
		case "$any":
			b.WriteString(`.*?`)
		case "$job", "$job2", "$job3", "$job4", "$job5", "$session", "$request":
			b.WriteString(`([0-9A-Z]{26})`)
			found = append(found, word)
		case "$challenge":
			b.WriteString(`([A-Za-z0-9+/=]+)`)
			found = append(found, word)
		default:
			b.WriteString(`([0-9a-f]+)`)
			found = append(found, word)
		}
		last = at[1]
	}
	b.WriteString(regexp.QuoteMeta(expected[last:]))
	b.WriteString(`$`)
	return regexp.MustCompile(b.String()), found
}

// matches compares a line that came with one that was expected.
func (c *conversation) matches(expected, got string) bool {
	if !strings.Contains(expected, "$") {
		return expected == got
	}
	p, found := pattern(expected)
	texts := p.FindStringSubmatch(got)
	if texts == nil {
		return false
	}
	for i, word := range found {
		if c.hashes == nil {
			c.hashes = make(map[string]string)
		}
		if known, ok := c.hashes[word]; ok && known != texts[i+1] {
			return false
		}
		for other, known := range c.hashes {
			if other != word && known == texts[i+1] {
				return false
			}
		}
		c.hashes[word] = texts[i+1]
	}
	return true
}

var (
	madeID   = regexp.MustCompile(`"id":"[0-9A-HJKMNP-TV-Z]{26}"`)
	madeTime = regexp.MustCompile(`"timestamp":1[0-9]{12}\b`)
)

// written is how a line that came is written into a file.
func written(got string) string {
	got = madeID.ReplaceAllString(got, `"id":"$$id"`)
	return madeTime.ReplaceAllString(got, `"timestamp":$$time`)
}

// jsonOr returns text if it is JSON, and null otherwise.
func jsonOr(text string) json.RawMessage {
	if !json.Valid([]byte(text)) {
		return json.RawMessage("null")
	}
	return json.RawMessage(text)
}
