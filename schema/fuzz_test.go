package schema

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
)

type fuzzed struct {
	name   string
	schema *Schema
	seeds  []string
}

// fuzzedSchemas use every keyword that the fast path knows.
func fuzzedSchemas() []fuzzed {
	type leaf struct {
		Name string `json:"name" jsonschema:"minLength=1,maxLength=3"`
		N    int8   `json:"n,omitempty"`
	}
	type branch struct {
		Leaves []leaf          `json:"leaves" jsonschema:"minItems=1,maxItems=2"`
		By     map[string]leaf `json:"by,omitempty"`
		Raw    json.RawMessage `json:"raw,omitempty"`
	}
	return []fuzzed{
		{"empty", Input[struct{}](), []string{`{}`, `{"a":1}`, `[]`, ` { } `}},
		{"strings", Input[struct {
			Mode string `json:"mode" jsonschema:"enum=fast,enum=slow,enum=ä\"b"`
			Key  string `json:"key,omitempty" jsonschema:"minLength=1,maxLength=4,format=password"`
		}](), []string{`{"mode":"fast"}`, `{"mode":"sl\u006fw","key":"ä€😀"}`, `{"m\u006fde":"fast","key":""}`, `{"mode":"fast","key":"\ud83d\ude00\ud83d\ude00xyz"}`}},
		{"integers", Input[struct {
			A int    `json:"a"`
			B uint8  `json:"b,omitempty"`
			C int32  `json:"c,omitempty"`
			D uint64 `json:"d,omitempty"`
		}](), []string{`{"a":1}`, `{"a":-0,"b":255}`, `{"a":9007199254740991,"b":256}`, `{"a":1.0,"c":-2147483648}`, `{"a":1e2,"d":-1}`, `{"a":9007199254740992}`, `{"a":1e999999999}`, `{"a":1e-999999999}`}},
		{"numbers", Input[struct {
			X float64 `json:"x"`
			R float64 `json:"r,omitempty" jsonschema:"minimum=0,maximum=1"`
			B bool    `json:"b,omitempty"`
		}](), []string{`{"x":1.5e300,"r":1}`, `{"x":-1e999999999,"r":0.5,"b":true}`, `{"x":1,"r":2}`, `{"x":1,"r":1e-999999999,"b":null}`}},
		{"nested", Input[branch](), []string{`{"leaves":[{"name":"a"}]}`, `{"leaves":[],"by":{"x":{"name":"abc","n":-128}},"raw":[{}]}`, `{"leaves":[{"name":"a","n":128},{}]}`, `{"leaves":[{"name":"a"},{"name":"b"},{"name":"c"}]}`, `{"leaves":[{"name":"abcd"}]}`}},
		{"shared", Input[struct {
			At   *spot           `json:"at"`
			Over []spot          `json:"over,omitempty"`
			By   map[string]town `json:"by,omitempty"`
		}](), []string{`{"at":{"in":{"name":"a"}}}`, `{"at":{"in":{}}}`, `{"at":{"in":{"name":"a"}},"over":[{"in":{"name":"b"},"n":128}]}`, `{"at":{"in":{"name":"a","code":"b"}},"by":{"x":{"name":1}}}`}},
		{"map", Input[map[string][]int16](), []string{`{}`, `{"a":[1,2],"":[]}`, `{"a":[40000]}`}},
		{"types", parsed(`{"type":"object","properties":{"a":{"oneOf":[{"type":"number"},{"type":"string"}],"maxLength":2},"b":{"anyOf":[{"type":"integer"},{"type":"number"},{"type":"null"}],"maximum":9}}}`),
			[]string{`{"a":1}`, `{"a":1.5,"b":2}`, `{"a":"xy","b":null}`, `{"a":"xyz"}`, `{"a":null}`, `{"a":[],"b":"1"}`, `{"b":10}`}},
		{"any", Input[any](), []string{`null`, `[1e5]`}},
		{"untyped", parsed(`{"minimum":-3,"maximum":3,"minLength":2,"minItems":1,"items":{"type":"null"},"properties":{"a":true,"b":{}},"required":["a"],"description":"x"}`),
			[]string{`2`, `4`, `"a"`, `"ab"`, `[null]`, `[]`, `{"a":1}`, `{"b":1}`, `true`, `null`}},
		{"types", parsed(`{"type":"array","items":{"type":"object","properties":{"n":{"type":"number","minimum":1},"z":{"type":"null"},"b":{"type":"boolean"},"e":{"enum":["a",""]}},"additionalProperties":{"type":"string","maxLength":2}}}`),
			[]string{`[{"n":1,"z":null,"b":false,"e":""}]`, `[{"n":0.5}]`, `[{"other":"abc"}]`, `[{"e":1},[]]`}},
	}
}

func parsed(text string) *Schema {
	s, err := Parse(json.RawMessage(text))
	if err != nil {
		panic(err)
	}
	return s
}

// FuzzInput holds the fast path against the library. What it accepts, the library
// must accept; what it leaves to the library needlessly is slow but right, and only
// numbers in an unusual notation may be.
func FuzzInput(f *testing.F) {
	schemas := fuzzedSchemas()
	for i, s := range schemas {
		for _, seed := range s.seeds {
			f.Add(uint8(i), []byte(seed))
		}
		f.Add(uint8(i), []byte{0, 1, 2, 3, 4, 5, 6, 7})
		f.Add(uint8(i), []byte{250, 17, 33, 8, 91, 120, 5, 64, 200, 3})
	}
	f.Fuzz(func(t *testing.T, which uint8, input []byte) {
		s := schemas[int(which)%len(schemas)]
		var scan jsonscan.Scanner
		if scan.Text(input) == nil {
			agree(t, s, input)
		}
		var doc any
		if err := json.Unmarshal(s.schema.JSON(), &doc); err != nil {
			t.Fatal(err)
		}
		b := builder{choices: input}
		if whole, ok := doc.(map[string]any); ok {
			b.definitions, _ = whole["$defs"].(map[string]any)
		}
		value := b.value(nil, doc, 0)
		if err := scan.Text(value); err != nil {
			t.Fatalf("the test builds what is not JSON: %s: %v", value, err)
		}
		agree(t, s, value)
	})
}

func agree(t *testing.T, s fuzzed, value []byte) {
	t.Helper()
	fast := fastNode(s.schema.JSON())
	if fast == nil {
		t.Fatalf("%s: the fast path does not know %s", s.name, s.schema.JSON())
	}
	accepts, err := fast.accepts(value), s.schema.validateFully(value)
	switch {
	case accepts && err != nil:
		t.Errorf("%s: the fast path accepts %s; the library does not: %v", s.name, value, err)
	case !accepts && err == nil && !unusual(value):
		t.Errorf("%s: the fast path does not accept %s; the library does", s.name, value)
	}
	if got := s.schema.Validate(value); (got == nil) != (err == nil) {
		t.Errorf("%s: Validate says %v of %s, the library %v", s.name, got, value, err)
	}
}

// unusual reports whether a number in the text is not written as plain digits, or is
// a long one.
func unusual(value []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(value))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return false
		}
		if token.Kind() == '0' {
			if n := token.String(); len(n) > 15 || strings.ContainsAny(n, ".eE") {
				return true
			}
		}
	}
}

// A builder makes a value that is near to a schema: the bytes of the input choose
// what fits and, now and then, what does not.
type builder struct {
	choices     []byte
	definitions map[string]any
}

// choose returns a number below n.
func (b *builder) choose(n int) int {
	if len(b.choices) == 0 {
		return 0
	}
	c := int(b.choices[0])
	b.choices = b.choices[1:]
	return c % n
}

func (b *builder) value(dst []byte, schema any, depth int) []byte {
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		s, _ = b.definitions[strings.TrimPrefix(ref, definitionPrefix)].(map[string]any)
	}
	kinds := []string{"null", "boolean", "integer", "number", "string", "array", "object"}
	kind, _ := s["type"].(string)
	if kind == "" || depth > 6 || b.choose(12) == 11 {
		kind = kinds[b.choose(len(kinds))]
		if depth > 6 {
			kind = "null"
		}
	}
	switch kind {
	case "null":
		return append(dst, "null"...)
	case "boolean":
		return append(dst, []string{"true", "false"}[b.choose(2)]...)
	case "integer", "number":
		return b.number(dst, s)
	case "string":
		return b.text(dst, s)
	case "array":
		return b.array(dst, s, depth)
	}
	return b.object(dst, s, depth)
}

func (b *builder) number(dst []byte, s map[string]any) []byte {
	plain := []string{"0", "-0", "1", "-1", "3", "127", "128", "-129", "255", "999999999999999", "9007199254740991", "9007199254740992", "1.0", "0.5", "1e2", "1E-2", "1e400", "-1e999999999", "100e-2"}
	for _, keyword := range []string{"minimum", "maximum"} {
		if bound, ok := s[keyword].(float64); ok {
			for _, step := range []float64{-1, 0, 1} {
				plain = append(plain, strconv.FormatFloat(bound+step, 'f', -1, 64))
			}
		}
	}
	return append(dst, plain[b.choose(len(plain))]...)
}

func (b *builder) text(dst []byte, s map[string]any) []byte {
	texts := []string{`""`, `"a"`, `"ab"`, `"abc"`, `"abcde"`, `"\u00e4"`, `"ä"`, `"😀"`, `"\ud83d\ude00a"`, `"\\\""`, `"\n"`}
	if enum, ok := s["enum"].([]any); ok {
		for _, e := range enum {
			if e, ok := e.(string); ok {
				texts = append(texts, string(jsonscan.AppendQuoted(nil, e)), escapeAll(e))
			}
		}
	}
	return append(dst, texts[b.choose(len(texts))]...)
}

// escapeAll writes each character of the basic plane as an escape.
func escapeAll(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range s {
		out.WriteString(`\u` + strings.Repeat("0", 4-len(strconv.FormatInt(int64(r), 16))) + strconv.FormatInt(int64(r), 16))
	}
	return out.String() + `"`
}

func (b *builder) space(dst []byte) []byte {
	if b.choose(9) == 8 {
		return append(dst, " \t\r\n"[:1+b.choose(4)]...)
	}
	return dst
}

func (b *builder) array(dst []byte, s map[string]any, depth int) []byte {
	dst = b.space(append(dst, '['))
	for i := range b.choose(5) {
		if i > 0 {
			dst = b.space(append(dst, ','))
		}
		dst = b.space(b.value(dst, s["items"], depth+1))
	}
	return append(dst, ']')
}

func (b *builder) object(dst []byte, s map[string]any, depth int) []byte {
	properties, _ := s["properties"].(map[string]any)
	dst = b.space(append(dst, '{'))
	first := true
	member := func(token string, schema any) {
		if !first {
			dst = b.space(append(dst, ','))
		}
		first = false
		dst = b.space(append(b.space(append(dst, token...)), ':'))
		dst = b.space(b.value(dst, schema, depth+1))
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		switch b.choose(6) {
		case 0:
		case 1:
			member(escapeAll(name), properties[name])
		default:
			member(`"`+name+`"`, properties[name])
		}
	}
	for i := range b.choose(3) {
		member(`"other `+strconv.Itoa(i)+`"`, s["additionalProperties"])
	}
	return append(dst, '}')
}
