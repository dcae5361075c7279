package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// What the fast path does not know it must leave to the library, whole.
func TestFastPathLeavesWhatItDoesNotKnow(t *testing.T) {
	for _, text := range []string{
		`{"pattern":"a"}`, `{"format":"uri"}`, `{"type":["string","null"]}`, `{"enum":[1]}`, `{"enum":[]}`, `{"const":1}`,
		`{"anyOf":[true]}`, `{"anyOf":[]}`, `{"oneOf":[{"type":"number"},{"type":"integer"}]}`, `{"oneOf":[{"type":"string","maxLength":1},{"type":"null"}]}`,
		`{"type":"string","oneOf":[{"type":"number"}]}`, `{"$ref":"#"}`, `{"minimum":0.5}`, `{"maximum":9007199254740992}`, `{"exclusiveMinimum":1}`,
		`{"minLength":1.0}`, `{"uniqueItems":true}`, `{"items":{"not":true}}`,
		`{"items":false}`, `{"required":["a"]}`, `{"additionalProperties":{"if":true}}`, `false`,
		`{"$schema":"http://json-schema.org/draft-07/schema#"}`,
		`{"$ref":"#/$defs/a"}`, `{"$ref":"#/$defs/a","$defs":{"a":{"pattern":"a"}}}`, `{"$ref":"#/$defs/a","minLength":1,"$defs":{"a":{"type":"string"}}}`,
		`{"$ref":"#/$defs/a/items","$defs":{"a":{"items":true}}}`, `{"$ref":"#/$defs/a%62","$defs":{"a%62":true,"ab":{"type":"string"}}}`,
		`{"$ref":"#a","$defs":{"a":{"$anchor":"a"}}}`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"$id":"b","type":"string"}}}`,
	} {
		if fastNode([]byte(text)) != nil {
			t.Errorf("%s is taken for a plain schema", text)
		}
	}
	// Of properties, only the objects that have them.
	for _, text := range []string{
		`{"properties":{"a":{"multipleOf":2},"b":{"type":"null"}}}`, `{"properties":{"a":false}}`, `{"properties":{"a":{"$defs":{"b":{}},"$ref":"#/$defs/b"}}}`,
		`{"$ref":"#/$defs/x","$defs":{"x":{"properties":{"a":{"$ref":"#/$defs/x"}}}}}`,
	} {
		n := fastNode([]byte(text))
		if n == nil || !n.accepts([]byte(`{"b":null}`)) {
			t.Errorf("%s isn't known without its property", text)
			continue
		}
		for _, value := range []string{`1`, `{}`, `[]`, `""`, `true`, `null`} {
			if n.accepts([]byte(`{"a":` + value + `}`)) {
				t.Errorf("%s accepts a = %s", text, value)
			}
		}
	}
	if n := fastNode([]byte(`{"type":"string","format":"password"}`)); n == nil || !n.accepts([]byte(`"x"`)) {
		t.Error("a password is not taken for a text")
	}
	for _, text := range []string{`true`, `{}`, `{"description":"x"}`, `{"title":"x","default":1,"examples":[1]}`} {
		if n := fastNode([]byte(text)); n == nil || n != anything {
			t.Errorf("%s is not taken for everything", text)
		}
	}
}

// Definitions that refer to others twice each would take for ever if each were compiled
// wherever it stands.
func TestFastPathCompilesADefinitionOnce(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/l60","$defs":{"l0":{"type":"string"}`)
	for i := 1; i <= 60; i++ {
		fmt.Fprintf(&b, `,"l%d":{"properties":{"a":{"$ref":"#/$defs/l%d"},"b":{"$ref":"#/$defs/l%d"}}}`, i, i-1, i-1)
	}
	n := fastNode([]byte(b.String() + "}}"))
	if n == nil || !n.accepts([]byte(`{"a":{"b":{}}}`)) || n.accepts([]byte(strings.Repeat(`{"b":`, 60)+"1"+strings.Repeat("}", 60))) {
		t.Error("references are not followed")
	}
}

// The required properties are bits of one word.
func TestFastPathKnowsSixtyFourProperties(t *testing.T) {
	build := func(n int) (schema, value string) {
		var properties, names, members []string
		for i := range n {
			properties = append(properties, fmt.Sprintf(`"p%d":{"type":"integer"}`, i))
			names = append(names, fmt.Sprintf(`"p%d"`, i))
			members = append(members, fmt.Sprintf(`"p%d":%d`, i, i))
		}
		return `{"properties":{` + strings.Join(properties, ",") + `},"required":[` + strings.Join(names, ",") + `]}`, `{` + strings.Join(members, ",") + `}`
	}
	schema, value := build(64)
	n := fastNode([]byte(schema))
	if n == nil || !n.accepts([]byte(value)) {
		t.Error("64 properties are not accepted")
	} else if _, most := build(63); n.accepts([]byte(most)) {
		t.Error("the 64th property is not required")
	}
	schema, value = build(65)
	if fastNode([]byte(schema)) != nil {
		t.Error("65 properties are taken on")
	}
	if err := parsed(schema).Validate(json.RawMessage(value)); err != nil {
		t.Error(err)
	}
}

// A schema is compiled by the first caller.
func TestSchemaIsSafeForConcurrentUse(t *testing.T) {
	s := Input[purchase]()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := s.Validate(json.RawMessage(`{"key":"a"}`)); err != nil {
				t.Error(err)
			}
			if err := s.Validate(json.RawMessage(`{"key":1}`)); err == nil {
				t.Errorf("goroutine %d: accepted", i)
			}
		})
	}
	wg.Wait()
}

// A number such as 1e999999999 has a billion digits; neither path may write it out.
func TestHugeExponentsAreJudgedAtOnce(t *testing.T) {
	type numbers struct {
		I int     `json:"i,omitempty"`
		F float64 `json:"f,omitempty"`
		R float64 `json:"r,omitempty" jsonschema:"minimum=0,maximum=1"`
		A any     `json:"a,omitempty"`
	}
	s := Input[numbers]()
	long := strings.Repeat("9", 3000)
	for value, valid := range map[string]bool{
		`{"i":1e999999999}`:                              false,
		`{"i":-1e999999999}`:                             false,
		`{"i":1e-999999999}`:                             false,
		`{"i":0e999999999}`:                              true,
		`{"i":0e-999999999}`:                             true,
		`{"i":1e99999999999999999999}`:                   false,
		`{"i":1E-99999999999999999999}`:                  false,
		`{"i":` + long + `e-3000}`:                       false,
		`{"i":1` + strings.Repeat("0", 2000) + `e-2000}`: true,
		`{"f":1e999999999}`:                              true,
		`{"f":1e-999999999}`:                             true,
		`{"r":1e-999999999}`:                             true,
		`{"r":-1e-999999999}`:                            false,
		`{"r":1e999999999}`:                              false,
		`{"r":1E+999999999}`:                             false,
		`{"a":[1e999999999,1e-999999999]}`:               true,
		`{"a":{"x":-1e99999999999999999999}}`:            true,
	} {
		var err error
		bytes := allocated(func() { err = s.Validate(json.RawMessage(value)) })
		if (err == nil) != valid {
			t.Errorf("%.60s: %v", value, err)
		}
		if bytes > 1<<20 {
			t.Errorf("%.60s took %d bytes of memory", value, bytes)
		}
	}
}

var benchmarked = json.RawMessage(`{"items":[{"name":"a","count":3},{"name":"b"}],"mode":"fast","key":"abcd","rush":true,"ship":{"box":{"size":12}}}`)

// The time field is not plain, so the type for the fast path has none.
type plainPurchase struct {
	Items []item `json:"items,omitempty" jsonschema:"minItems=1,maxItems=3"`
	Mode  string `json:"mode,omitempty" jsonschema:"enum=fast,enum=slow"`
	Key   string `json:"key,omitempty" jsonschema:"minLength=1,maxLength=4"`
	Rush  bool   `json:"rush,omitempty"`
	Ship  struct {
		Box struct {
			Size int8 `json:"size"`
		} `json:"box"`
	} `json:"ship,omitempty"`
	From *town `json:"from,omitempty"`
}

func TestFastPathAllocatesNothing(t *testing.T) {
	s := Input[plainPurchase]()
	for name, value := range map[string]json.RawMessage{
		"objects, arrays, plain strings, numbers": json.RawMessage(`{"items":[{"name":"a","count":3},{"name":"b"}],"rush":true,"ship":{"box":{"size":12}}}`),
		"strings of limited length":               json.RawMessage(`{"key":"abcd"}`),
		"shared types":                            json.RawMessage(`{"from":{"name":"a"}}`),
		"strings of an enum":                      json.RawMessage(`{"mode":"fast"}`),
	} {
		t.Run(name, func(t *testing.T) {
			if err := s.Validate(value); err != nil {
				t.Fatal(err)
			}
			if n := testing.AllocsPerRun(100, func() { _ = s.Validate(value) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

func BenchmarkValidate(b *testing.B) {
	s := Input[plainPurchase]()
	for name, validate := range map[string]func(json.RawMessage) error{"fast": s.Validate, "library": s.validateFully} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(benchmarked)))
			for b.Loop() {
				if err := validate(benchmarked); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A name in the schema may look like an escape in the input, and is none.
func TestFastPathTellsBackslashesFromEscapes(t *testing.T) {
	s, err := Parse([]byte(`{"type":"object","properties":{"a\\\\b":{}},"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]bool{`{"a\\b":1}`: false, `{"a\\\\b":1}`: true} {
		if fast, full := fastNode(s.JSON()).accepts([]byte(value)), s.validateFully([]byte(value)) == nil; fast != want || full != want {
			t.Errorf("%s: fast %v, library %v, want %v", value, fast, full, want)
		}
	}
}

// fastNode is the form for the fast path of a schema; nil if it has none.
func fastNode(text []byte) *node { return written(text).plain() }
