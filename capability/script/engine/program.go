package engine

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-sourcemap/sourcemap"

	"github.com/evanw/esbuild/pkg/api"

	"kernos/message"
)

// A Source is code as it was written.
type Source struct {
	Name     string // the name in errors, such as that of a syscall or of a file
	Code     string
	Language string // "ts", which includes JavaScript and is the default, "js", or "wasm", whose code is base64
}

const wasm = "wasm" // a language

// A Program is a source that was checked, or that is checked when it first runs.
type Program struct {
	Source Source

	// What the code exports. [Engine.Load] leaves it to the caller to know.
	Handler                   bool            // a function with the name handler
	Stream                    bool            // the handler is a generator, whose items are events
	InputSchema, OutputSchema json.RawMessage // nil if the code doesn't export them
	Presentation              json.RawMessage // as above

	Kind, Description, Version string // "" if the code doesn't export them

	key   string     // the key in Engine.hot
	mu    sync.Mutex // while it is loaded
	js    string     // the JavaScript that runs
	lines string     // the source map of js
}

// A CodeError is a fault in the code of a program: it can't be translated, or it threw an exception.
type CodeError struct {
	Name         string // the name of the source
	Line, Column int    // position in the source, from 1; 0 if it isn't known
	Text         string // the line itself; without a position, the last line that the code has logged
	Message      string // such as "TypeError: x is not a function"

	Cause *message.Error // the cause of the exception, or nil
}

// Public returns the text that callers see who may not see the code: without the position, the line and the log. What
// the code throws is its interface, and stays.
func (e *CodeError) Public() string { return fmt.Sprintf("%s: %s", e.Name, e.Message) }

func (e *CodeError) Error() string {
	if e.Line == 0 {
		return strings.TrimSpace(e.Public() + " " + e.Text)
	}
	text := fmt.Sprintf("%s:%d:%d: %s", e.Name, e.Line, e.Column, e.Message)
	if line := strings.TrimSpace(e.Text); line != "" { // a place after the last line has none
		text += ", in: " + message.Clip(line, 200)
	}
	return text
}

// line returns a line of the source, from 1.
func (s Source) line(n int) string {
	for line := range strings.Lines(s.Code) {
		if n--; n == 0 {
			return strings.TrimRight(line, "\r\n")
		}
	}
	return ""
}

// Load returns a program that was compiled before, by this or an earlier process. Nothing is done until it runs.
func (e *Engine) Load(src Source) *Program {
	return &Program{Source: src, key: strconv.FormatUint(e.programs.Add(1), 36)}
}

// Compile translates a source, loads it once, and finds what it exports. A fault in the code is a *[CodeError].
func (e *Engine) Compile(ctx context.Context, src Source) (*Program, error) {
	p := e.Load(src)
	if src.Language == wasm {
		_, err := e.module(p)
		p.Handler = err == nil
		return p, err
	}
	if err := e.translate(ctx, p); err != nil {
		return nil, err
	}
	_, out, err := e.load(ctx, p)
	if err != nil {
		return nil, err
	}
	var exports struct {
		Handler bool            `json:"handler"`
		Stream  bool            `json:"stream"`
		Input   json.RawMessage `json:"input"`
		Output  json.RawMessage `json:"output"`

		Presentation json.RawMessage `json:"presentation"`

		Kind        string `json:"kind"`
		Description string `json:"description"`
		Version     string `json:"version"`
	}
	if err := jsonv2.Unmarshal(out, &exports); err != nil {
		return nil, fmt.Errorf("read what the code exports: %w", err)
	}
	p.Handler, p.Stream, p.InputSchema, p.OutputSchema = exports.Handler, exports.Stream, exports.Input, exports.Output
	p.Presentation = exports.Presentation
	p.Kind, p.Description, p.Version = exports.Kind, exports.Description, exports.Version
	return p, nil
}

// loadLimits are the limits of code while it is loaded.
var loadLimits = Limits{Time: time.Second}

// load evaluates the code of p in an instance, keeps what that changed, and returns it with what the code exports.
func (e *Engine) load(ctx context.Context, p *Program) (*delta, json.RawMessage, error) {
	v, err := e.acquire(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	defer e.release(v)
	r := newRun(ctx, v, p, nil, loadLimits)
	defer r.end()
	module := v.evaluate(p.js, codeName, evalModule)
	out, err := r.until(v.image.load, module)
	if err != nil {
		return nil, nil, err
	}
	d := v.delta()
	e.hot.Put(p.key, d, len(d.data)+8*len(d.at))
	return d, out, nil
}

// codeName is the name of the code in QuickJS's stack traces.
const codeName = "code"

// esbuild is recursive, and can't be stopped, so what it gets is bounded, and how often it may be left behind.
const (
	maxCode       = 64 << 10        // bytes of a source
	maxNesting    = 500             // nested brackets, and operators in a row
	maxReading    = 4 << 20         // bytes of TypeScript, counted as often as they may be read: about a second
	maxTranslate  = 5 * time.Second // how long translating one source may take
	maxTranslates = 2               // translations at once
)

// nested reports whether brackets, or operators without an operand between them, are nested too deeply. Those in
// texts count too.
func nested(code string) bool {
	depth, row := 0, 0
	for i := range len(code) {
		switch code[i] {
		case '(', '[', '{', '<':
			depth++
			row++
		case ')', ']', '}', '>':
			depth = max(depth-1, 0)
			row = 0
		case '!', '~', '+', '-':
			row++
		case ' ', '\t', '\r', '\n':
		default:
			row = 0
		}
		if depth > maxNesting || row > maxNesting {
			return true
		}
	}
	return false
}

// In TypeScript, esbuild reads what comes after "a ? (b) : c =>" twice, and what comes after "infer a extends". Where they
// are nested, each doubles the time.
var arrowInQuestion = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?s)\?[\s\v\pZ\x{FEFF}]*[(</].*?\)[\s\v\pZ\x{FEFF}]*[:/].*?=>`)
})

// ambiguous reports whether esbuild could take too long for code as TypeScript. It takes the worst: that all such
// expressions are nested, and that texts and comments are code.
func ambiguous(code string) bool {
	doubled := len(arrowInQuestion().FindAllStringIndex(code, 32)) + strings.Count(code, "infer")
	return len(code)<<min(doubled, 32) > maxReading
}

// translate makes JavaScript of the source: without types, and with the modules it imports.
func (e *Engine) translate(ctx context.Context, p *Program) error {
	src := p.Source
	fault := &CodeError{Name: src.Name}
	plain := src.Language != "js" && ambiguous(src.Code)
	if plain {
		src.Language = "js" // the code may be JavaScript
	}
	options := buildOptions(src)
	switch {
	case options == nil:
		return message.Errorf(422, "language must be ts, js or wasm, got %q", src.Language)
	case len(src.Code) > maxCode:
		fault.Message = fmt.Sprintf("the code has %d bytes; at most %d are taken", len(src.Code), maxCode)
		return fault
	case nested(src.Code):
		fault.Message = fmt.Sprintf("the code has more than %d levels of brackets", maxNesting)
		return fault
	}
	ctx, cancel := context.WithTimeout(ctx, maxTranslate)
	defer cancel()
	if err := e.enter(ctx, e.translating); err != nil {
		return message.Errorf(503, "Too many sources are being translated: try again later")
	}
	built := make(chan api.BuildResult, 1)
	go func() {
		defer e.leave(e.translating)
		built <- api.Build(*options)
	}()
	select {
	case <-ctx.Done():
		fault.Message = "the code takes too long to translate: split it"
		return fault
	case result := <-built:
		if plain && len(result.Errors) > 0 {
			fault.Message = "the code has types, and too many expressions like a ? (b) : c => d, or too many infer, to be read as TypeScript: write some of them with if, or leave out the types"
			return fault
		}
		return p.take(result)
	}
}

// buildOptions returns nil if the language isn't known.
func buildOptions(src Source) *api.BuildOptions {
	loader, ok := map[string]api.Loader{"": api.LoaderTS, "ts": api.LoaderTS, "js": api.LoaderJS}[src.Language]
	if !ok {
		return nil
	}
	return &api.BuildOptions{
		Stdin:          &api.StdinOptions{Contents: src.Code, Sourcefile: codeName, Loader: loader},
		AbsWorkingDir:  os.TempDir(), // nothing is read there
		Bundle:         true,
		Format:         api.FormatESModule,
		Target:         api.ES2023,
		Platform:       api.PlatformNeutral,
		Sourcemap:      api.SourceMapExternal,
		SourcesContent: api.SourcesContentExclude,
		LegalComments:  api.LegalCommentsNone,
		LogLevel:       api.LogLevelSilent,
		Outfile:        "out.js",
		TsconfigRaw:    "{}",
		Define:         map[string]string{"require": "undefined"}, // otherwise esbuild puts a function of its own there
		Plugins:        []api.Plugin{modules},
	}
}

// take keeps what esbuild made of the source.
func (p *Program) take(result api.BuildResult) error {
	if len(result.Errors) > 0 {
		m := result.Errors[0]
		err := &CodeError{Name: p.Source.Name, Message: m.Text}
		if m.Location != nil {
			err.Line, err.Column, err.Text = m.Location.Line, m.Location.Column+1, m.Location.LineText
		}
		return err
	}
	for _, f := range result.OutputFiles {
		if strings.HasSuffix(f.Path, ".map") {
			p.lines = string(f.Contents)
		} else {
			p.js = string(f.Contents)
		}
	}
	return nil
}

//go:embed js/schema.js
var schemaModule string

// modules refuses the import of everything that isn't here.
var modules = api.Plugin{Name: "kernos", Setup: func(b api.PluginBuild) {
	b.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
		switch {
		case a.Kind == api.ResolveEntryPoint:
			return api.OnResolveResult{}, nil
		case a.Path == "kernos:schema":
			return api.OnResolveResult{Path: a.Path, Namespace: "kernos", SideEffects: api.SideEffectsFalse}, nil
		}
		return api.OnResolveResult{}, fmt.Errorf("%q can't be imported: code may import kernos:schema and nothing else", a.Path)
	})
	b.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: "kernos"}, func(api.OnLoadArgs) (api.OnLoadResult, error) {
		return api.OnLoadResult{Contents: &schemaModule, Loader: api.LoaderJS}, nil
	})
}}

// locate returns a CodeError for an exception, with the place in the source that is the first
// in the stack of QuickJS.
func (p *Program) locate(text, stack string) *CodeError {
	err := &CodeError{Name: p.Source.Name, Message: text}
	lines, fault := sourcemap.Parse("", []byte(p.lines))
	if fault != nil {
		return err
	}
	for frame := range strings.Lines(stack) {
		at := strings.Index(frame, codeName+":")
		if at < 0 {
			continue
		}
		var line, column int
		if _, fault := fmt.Sscanf(frame[at+len(codeName):], ":%d:%d", &line, &column); fault != nil {
			continue
		}
		if file, _, line, column, ok := lines.Source(line, column-1); ok && strings.HasSuffix(file, codeName) {
			err.Line, err.Column, err.Text = line, column+1, p.Source.line(line)
			return err
		}
	}
	return err
}
