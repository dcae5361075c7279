package schema_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kernos/schema"
)

func TestParseReadsTheDraftsThatASchemaNames(t *testing.T) {
	for _, c := range []struct {
		name, text string
		valid      []string
		invalid    []string
	}{
		{
			"draft-07 with definitions",
			`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"n":{"type":"integer"}},"properties":{"a":{"$ref":"#/definitions/n"}}}`,
			[]string{`{}`, `{"a":1}`},
			[]string{`{"a":"1"}`},
		},
		{
			"draft-07 with a list of items", // in 2020-12 this is prefixItems
			`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":false}`,
			[]string{`["a"]`, `[]`},
			[]string{`[1]`, `["a","b"]`},
		},
		{
			"2020-12",
			`{"$schema":"https://json-schema.org/draft/2020-12/schema","prefixItems":[{"type":"string"}],"items":{"type":"integer"}}`,
			[]string{`["a",1,2]`},
			[]string{`[1]`, `["a","b"]`},
		},
		{
			"2020-12 is what is meant when nothing is said",
			`{"prefixItems":[{"type":"string"}]}`,
			[]string{`["a",1]`},
			[]string{`[1]`},
		},
		{
			"a schema that refers to itself",
			`{"type":"object","properties":{"next":{"$ref":"#"},"v":{"type":"integer"}},"required":["v"]}`,
			[]string{`{"v":1}`, `{"v":1,"next":{"v":2,"next":{"v":3}}}`},
			[]string{`{"v":1,"next":{}}`, `{"v":1,"next":{"v":1,"next":1}}`},
		},
		{"true", `true`, []string{`1`, `null`, `{}`}, nil},
		{"false", `false`, nil, []string{`1`, `null`, `{}`}},
		{"formats are asserted", `{"format":"date-time"}`, []string{`"2025-01-02T03:04:05Z"`, `1`}, []string{`"soon"`}},
		{"white space", " {\n \"type\" :\t\"string\" } ", []string{`"a"`, ` "a" `}, []string{`1`}},
		{"an escaped keyword", `{"\u0074ype":"string"}`, []string{`"a"`}, []string{`1`}},
		{"a required name without a property", `{"required":["a"]}`, []string{`{"a":1}`, `1`}, []string{`{}`}},
		{"an enum of several types", `{"enum":["a",1,null]}`, []string{`"a"`, `1`, `1.0`, `null`}, []string{`"b"`, `2`, `false`}},
		{"a list of types", `{"type":["string","null"]}`, []string{`"a"`, `null`}, []string{`1`}},
		{"fractions as bounds", `{"minimum":0.5,"maximum":1.5}`, []string{`1`, `0.5`, `1.5`}, []string{`0`, `2`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := schema.Parse(json.RawMessage(c.text))
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range c.valid {
				if err := s.Validate(json.RawMessage(v)); err != nil {
					t.Errorf("%s: %v", v, err)
				}
			}
			for _, v := range c.invalid {
				if err := s.Validate(json.RawMessage(v)); err == nil {
					t.Errorf("%s is accepted", v)
				}
			}
		})
	}
}

func TestParseKeepsTheSchemaWithoutItsWhiteSpace(t *testing.T) {
	text := []byte("{ \"type\" : \"string\",\n\"title\": \"a b\" }")
	s, err := schema.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	clear(text) // the caller may reuse it
	if got := string(s.JSON()); got != `{"type":"string","title":"a b"}` {
		t.Errorf("got %s", got)
	}
}

func TestParseRefusesWhatIsNoSchema(t *testing.T) {
	for _, text := range []string{
		``, ` `, `{`, `{}{}`, `nil`, `1`, `"string"`, `null`, `[]`, `[{}]`, "{\"title\":\"\x00\"}",
		`{"type":"strin"}`, `{"type":1}`, `{"properties":[]}`, `{"required":"a"}`, `{"minLength":-1}`,
		`{"minimum":"1"}`, `{"enum":1}`, `{"pattern":"("}`, `{"$ref":"#/nowhere"}`, `{"items":1}`,
		`{"$schema":"https://example.com/my-own-draft"}`,
	} {
		if _, err := schema.Parse(json.RawMessage(text)); err == nil {
			t.Errorf("%q is accepted", text)
		} else if !strings.HasPrefix(err.Error(), "not a JSON Schema: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Two readers of a text with a repeated name may take it for two different schemas,
// and text that is not UTF-8 can't be shown to callers.
func TestParseIsAsStrictAboutJSONAsTheKernel(t *testing.T) {
	for _, text := range []string{
		`{"properties":{"a":{"type":"string"}},"properties":{"a":{"type":"integer"}}}`,
		"{\"title\":\"\xff\"}",
		`{"title":"\ud800"}`,
	} {
		if _, err := schema.Parse(json.RawMessage(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestParseReadsNothingOutsideTheSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(path, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	asked := false
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer server.Close()
	for _, text := range []string{
		`{"$ref":"file://` + path + `"}`,
		`{"properties":{"a":{"$ref":"file://` + path + `"}}}`,
		`{"$id":"file://` + filepath.Dir(path) + `/this.json","$ref":"other.json"}`,
		`{"$ref":"` + server.URL + `/schema.json"}`,
		`{"$dynamicRef":"` + server.URL + `/schema.json"}`,
		`{"$schema":"` + server.URL + `/schema.json"}`,
		`{"$ref":"http://` + server.Listener.Addr().String() + `/schema.json"}`,
	} {
		if _, err := schema.Parse(json.RawMessage(text)); err == nil {
			t.Errorf("%s is accepted", text)
		} else if !strings.Contains(err.Error(), "may not refer to other documents") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if asked {
		t.Error("the server was asked")
	}
}

// A relative reference has no document to be relative to; taking it for the schema
// itself would check something else than was asked for.
func TestParseRefusesRelativeReferences(t *testing.T) {
	for _, text := range []string{
		`{"properties":{"a":{"$ref":"other.json"}}}`,
		`{"properties":{"a":{"$ref":"./other.json#/$defs/a"}},"$defs":{"a":{"type":"string"}}}`,
	} {
		if _, err := schema.Parse(json.RawMessage(text)); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

// The library computes with exact fractions and gives up on such numbers.
func TestParseSurvivesHugeExponents(t *testing.T) {
	for _, text := range []string{
		`{"multipleOf":1e-999999999}`, `{"multipleOf":1e999999999}`,
		`{"minimum":1e-999999999}`, `{"exclusiveMaximum":-1e999999999}`,
		`{"minLength":1e999999999}`, `{"maxItems":1e-999999999}`,
		`{"enum":[1e999999999]}`, `{"const":1e-999999999}`, `{"default":1e999999999}`,
	} {
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%s: %v", text, p)
				}
			}()
			s, err := schema.Parse(json.RawMessage(text))
			if err != nil {
				return
			}
			for _, v := range []string{`1`, `"a"`, `[]`, `1e999999999`} {
				_ = s.Validate(json.RawMessage(v))
			}
		}()
	}
}

// A bound that is dropped in silence lets in what it was to keep out.
func TestParseDropsNoBound(t *testing.T) {
	for _, text := range []string{`{"minimum":1e999999999}`, `{"exclusiveMaximum":-1e999999999}`} {
		s, err := schema.Parse(json.RawMessage(text))
		if err == nil && s.Validate(json.RawMessage(`5`)) == nil {
			t.Errorf("%s accepts 5", text)
		}
	}
}

// The metaschemas of a draft are compiled for the first schema that names it.
func TestSchemasAreCheckedAgainstTheirDraft(t *testing.T) {
	var wg sync.WaitGroup
	for _, draft := range []string{
		"http://json-schema.org/draft-04/schema#",
		"http://json-schema.org/draft-06/schema#",
		"http://json-schema.org/draft-07/schema#",
		"https://json-schema.org/draft/2019-09/schema",
		"https://json-schema.org/draft/2020-12/schema",
	} {
		for range 4 {
			wg.Go(func() {
				if _, err := schema.Parse(json.RawMessage(`{"$schema":"` + draft + `","properties":{"a":{"minLength":-1}}}`)); err == nil || !strings.Contains(err.Error(), "/properties/a/minLength") {
					t.Errorf("%s: a broken schema: %v", draft, err)
				}
				if _, err := schema.Parse(json.RawMessage(`{"$schema":"` + draft + `","properties":{"a":{"minLength":1}}}`)); err != nil {
					t.Errorf("%s: %v", draft, err)
				}
			})
		}
	}
	wg.Wait()
}
