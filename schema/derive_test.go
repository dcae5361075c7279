package schema

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

type address struct {
	Street string `json:"street" jsonschema_description:"Street and number."`
	Zip    string `json:"zip,omitempty"`
}

// town and spot are shared, and one is within the other.
type town struct {
	Name string `json:"name" jsonschema_description:"What it is called."`
	Code string `json:"code,omitempty" jsonschema:"writeOnly=true"`
}

func (town) SchemaName() string { return "Town" }

type spot struct {
	In *town `json:"in"`
	N  int8  `json:"n,omitempty"`
}

func (spot) SchemaName() string { return "Spot" }

func TestDeriveWritesTheWholeSchemaOfAType(t *testing.T) {
	type integers struct {
		I   int    `json:"i"`
		I64 int64  `json:"i64"`
		I32 int32  `json:"i32"`
		I16 int16  `json:"i16"`
		I8  int8   `json:"i8"`
		U   uint   `json:"u"`
		U64 uint64 `json:"u64"`
		U32 uint32 `json:"u32"`
		U16 uint16 `json:"u16"`
		U8  uint8  `json:"u8"`
	}
	for _, c := range []struct {
		name   string
		schema *Schema
		want   string
	}{
		{
			"an empty struct is a closed object with nothing in it", Input[struct{}](),
			`{"type":"object","properties":{},"required":[],"additionalProperties":false}`,
		},
		{"any is everything", Input[any](), `{}`},
		{"raw JSON is everything", Input[json.RawMessage](), `{}`},
		{"a jsontext value is everything", Input[jsontext.Value](), `{}`},
		{"a plain string", Input[string](), `{"type":"string"}`},
		{"a slice", Input[[]string](), `{"type":"array","items":{"type":"string"}}`},
		{
			"a pointer is what it points to", Input[*address](),
			`{"type":"object","properties":{"street":{"type":"string","description":"Street and number."},"zip":{"type":"string"}},"required":["street"],"additionalProperties":false}`,
		},
		{
			"names come from json tags or else from Go, and only exported fields count",
			Input[struct {
				Tagged  string `json:"named"`
				Untag   string
				Skipped string `json:"-"`
				hidden  string
			}](),
			`{"type":"object","properties":{"named":{"type":"string"},"Untag":{"type":"string"}},"required":["named","Untag"],"additionalProperties":false}`,
		},
		{
			"omitempty and omitzero make a field optional, a pointer does not",
			Input[struct {
				A string  `json:"a,omitempty"`
				B string  `json:"b,omitzero"`
				C *string `json:"c"`
			}](),
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"}},"required":["c"],"additionalProperties":false}`,
		},
		{
			"a closed object without required fields says so",
			Input[struct {
				A bool `json:"a,omitempty"`
			}](),
			`{"type":"object","properties":{"a":{"type":"boolean"}},"required":[],"additionalProperties":false}`,
		},
		{
			"raw JSON inside a struct is everything, and required",
			Input[struct {
				A json.RawMessage `json:"a"`
				B jsontext.Value  `json:"b"`
				C any             `json:"c"`
			}](),
			`{"type":"object","properties":{"a":{},"b":{},"c":{}},"required":["a","b","c"],"additionalProperties":false}`,
		},
		{
			"raw JSON keeps its description",
			Input[struct {
				A json.RawMessage `json:"a" jsonschema_description:"Anything."`
			}](),
			`{"type":"object","properties":{"a":{"description":"Anything."}},"required":["a"],"additionalProperties":false}`,
		},
		{
			"keywords stand in the order type, enum, lengths, bounds, counts, description",
			Input[struct {
				Mode string   `json:"mode" jsonschema_description:"How." jsonschema:"maxLength=9,minLength=1,enum=slow,enum=fast"`
				N    int      `json:"n" jsonschema:"maximum=10,minimum=1" jsonschema_description:"How many."`
				L    []string `json:"l" jsonschema:"maxItems=3,minItems=1" jsonschema_description:"Which."`
			}](),
			`{"type":"object","properties":{` +
				`"mode":{"type":"string","enum":["slow","fast"],"minLength":1,"maxLength":9,"description":"How."},` +
				`"n":{"type":"integer","minimum":1,"maximum":10,"description":"How many."},` +
				`"l":{"type":"array","minItems":1,"maxItems":3,"description":"Which.","items":{"type":"string"}}},` +
				`"required":["mode","n","l"],"additionalProperties":false}`,
		},
		{
			"nested structs are written out, closed each",
			Input[struct {
				Home  address   `json:"home"`
				Other []address `json:"other,omitempty"`
				None  struct{}  `json:"none,omitempty"`
			}](),
			`{"type":"object","properties":{` +
				`"home":{"type":"object","properties":{"street":{"type":"string","description":"Street and number."},"zip":{"type":"string"}},"required":["street"],"additionalProperties":false},` +
				`"other":{"type":"array","items":{"type":"object","properties":{"street":{"type":"string","description":"Street and number."},"zip":{"type":"string"}},"required":["street"],"additionalProperties":false}},` +
				`"none":{"type":"object","properties":{},"required":[],"additionalProperties":false}},` +
				`"required":["home"],"additionalProperties":false}`,
		},
		{
			"shared types stand once, and are referred to",
			Input[struct {
				From *town           `json:"from" jsonschema_description:"Where it begins."`
				Over []spot          `json:"over,omitempty"`
				By   map[string]town `json:"by,omitempty"`
			}](),
			`{"$defs":{` +
				`"Spot":{"type":"object","properties":{"in":{"$ref":"#/$defs/Town"},"n":{"type":"integer","minimum":-128,"maximum":127}},"required":["in"],"additionalProperties":false},` +
				`"Town":{"type":"object","properties":{"name":{"type":"string","description":"What it is called."},"code":{"type":"string","writeOnly":true}},"required":["name"],"additionalProperties":false}},` +
				`"type":"object","properties":{` +
				`"from":{"$ref":"#/$defs/Town","description":"Where it begins."},` +
				`"over":{"type":"array","items":{"$ref":"#/$defs/Spot"}},` +
				`"by":{"type":"object","additionalProperties":{"$ref":"#/$defs/Town"}}},` +
				`"required":["from"],"additionalProperties":false}`,
		},
		{
			"a shared type that is all of a schema is written out", Input[*spot](),
			`{"$defs":{"Town":{"type":"object","properties":{"name":{"type":"string","description":"What it is called."},"code":{"type":"string","writeOnly":true}},"required":["name"],"additionalProperties":false}},` +
				`"type":"object","properties":{"in":{"$ref":"#/$defs/Town"},"n":{"type":"integer","minimum":-128,"maximum":127}},"required":["in"],"additionalProperties":false}`,
		},
		{
			"integers that callers give have the bounds of their Go types, 64 bits those of JSON", Input[integers](),
			`{"type":"object","properties":{` +
				`"i":{"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991},` +
				`"i64":{"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991},` +
				`"i32":{"type":"integer","minimum":-2147483648,"maximum":2147483647},` +
				`"i16":{"type":"integer","minimum":-32768,"maximum":32767},` +
				`"i8":{"type":"integer","minimum":-128,"maximum":127},` +
				`"u":{"type":"integer","minimum":0,"maximum":9007199254740991},` +
				`"u64":{"type":"integer","minimum":0,"maximum":9007199254740991},` +
				`"u32":{"type":"integer","minimum":0,"maximum":4294967295},` +
				`"u16":{"type":"integer","minimum":0,"maximum":65535},` +
				`"u8":{"type":"integer","minimum":0,"maximum":255}},` +
				`"required":["i","i64","i32","i16","i8","u","u64","u32","u16","u8"],"additionalProperties":false}`,
		},
		{
			"integers that a syscall gives have none",
			Output[struct {
				N int8 `json:"n"`
			}](),
			`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`,
		},
		{
			"integers inside pointers and slices are bounded too",
			Input[struct {
				P *int8   `json:"p"`
				S []uint8 `json:"-"`
				L []int16 `json:"l"`
			}](),
			`{"type":"object","properties":{"p":{"type":"integer","minimum":-128,"maximum":127},"l":{"type":"array","items":{"type":"integer","minimum":-32768,"maximum":32767}}},"required":["p","l"],"additionalProperties":false}`,
		},
		{
			"a time is a string with a format",
			Input[struct {
				At time.Time `json:"at"`
			}](),
			`{"type":"object","properties":{"at":{"type":"string","format":"date-time"}},"required":["at"],"additionalProperties":false}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(c.schema.JSON()); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if _, err := Parse(c.schema.JSON()); err != nil {
				t.Errorf("the derived schema is no schema: %v", err)
			}
		})
	}
}

// The derived schema must be the one that Appendix D of the specification shows, to
// the byte but for white space.
func TestDeriveGivesEchoTheSchemaOfTheSpecification(t *testing.T) {
	type echo struct {
		Message string `json:"message" jsonschema_description:"Message to echo back. Any string value is accepted."`
	}
	spec := jsontext.Value(`{
      "type": "object",
      "properties": {
        "message": {
          "type": "string",
          "description": "Message to echo back. Any string value is accepted."
        }
      },
      "required": ["message"],
      "additionalProperties": false
    }`)
	if err := spec.Compact(); err != nil {
		t.Fatal(err)
	}
	if got := Input[echo]().JSON(); string(got) != string(spec) {
		t.Errorf("got  %s\nwant %s", got, spec)
	}
}

func TestDeriveBoundsTheValuesOfMaps(t *testing.T) {
	s := Input[map[string]int8]()
	for value, valid := range map[string]bool{`{}`: true, `{"a":127,"b":-128}`: true, `{"a":128}`: false, `{"a":"x"}`: false, `[]`: false} {
		if err := s.Validate(json.RawMessage(value)); (err == nil) != valid {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// A mark that is dropped in silence is a secret in the journal.
func TestDeriveMarksSecretsOfEveryType(t *testing.T) {
	type secrets struct {
		S string            `json:"s" jsonschema:"writeOnly=true"`
		I int               `json:"i" jsonschema_extras:"writeOnly=true"`
		F float64           `json:"f" jsonschema_extras:"writeOnly=true"`
		L []int             `json:"l" jsonschema_extras:"writeOnly=true"`
		M map[string]string `json:"m" jsonschema_extras:"writeOnly=true"`
		A any               `json:"a" jsonschema_extras:"writeOnly=true"`
		O address           `json:"o" jsonschema_extras:"writeOnly=true"`
	}
	var s struct{ Properties map[string]json.RawMessage }
	if err := json.Unmarshal(Input[secrets]().JSON(), &s); err != nil {
		t.Fatal(err)
	}
	for name, p := range s.Properties {
		if !strings.Contains(string(p), `"writeOnly":true`) {
			t.Errorf("%s is not marked: %s", name, p)
		}
	}
}

// The tag jsonschema would be dropped in silence here.
func TestDeriveRefusesAMarkThatHasNoEffect(t *testing.T) {
	type login struct {
		Pin int `json:"pin" jsonschema:"writeOnly=true"`
	}
	if err := Input[login]().Err(); err == nil || !strings.Contains(err.Error(), "Pin") {
		t.Errorf("got %v", err)
	}
}

// A secret of a shared type is one wherever the type stands.
func TestDeriveMarksSecretsOfSharedTypes(t *testing.T) {
	s := Input[struct {
		At   spot  `json:"at"`
		Lock *town `json:"lock,omitempty" jsonschema_extras:"writeOnly=true"`
	}]()
	got, _ := s.Redact(json.RawMessage(`{"at":{"in":{"name":"a","code":"hunter2"}},"lock":{"name":"b"}}`))
	if want := `{"at":{"in":{"name":"a","code":"[redacted]"}},"lock":"[redacted]"}`; string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

type village struct{}

func (village) SchemaName() string { return "Town" }

func TestDeriveRefusesTwoTypesOfOneName(t *testing.T) {
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "both defined as Town") {
			t.Errorf("got the panic %q", text)
		}
	}()
	Input[struct {
		A town    `json:"a"`
		B village `json:"b"`
	}]().JSON()
}

type (
	chain  struct{ Next *chain }
	folder struct{ Files map[string][]folder }
	outer  struct{ Middle struct{ Chain chain } }
)

func TestDeriveRefusesTypesThatContainThemselves(t *testing.T) {
	for _, s := range []*Schema{Input[chain](), Output[folder](), Input[[]outer]()} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, "contains itself") {
					t.Errorf("got the panic %q", text)
				}
			}()
			s.JSON()
		}()
	}
}

// A type that stands in two places does not contain itself.
func TestDeriveAllowsATypeTwice(t *testing.T) {
	type pair struct {
		A address   `json:"a"`
		B []address `json:"b"`
	}
	if err := Input[pair]().Validate(json.RawMessage(`{"a":{"street":"x"},"b":[{"street":"y"}]}`)); err != nil {
		t.Error(err)
	}
}

type forest []forest

// A slice type that contains itself has no struct in its cycle. Overrunning the stack
// can't be recovered from, so a process of its own does it.
func TestDeriveRefusesSlicesThatContainThemselves(t *testing.T) {
	if os.Getenv("KERNOS_TEST_DERIVE") != "" {
		debug.SetMaxStack(1 << 20)
		defer func() { fmt.Println("panicked:", recover()) }()
		Input[forest]().JSON()
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "KERNOS_TEST_DERIVE=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "contains itself") {
		t.Errorf("%v: %.200s", err, out)
	}
}

// Callers see a field that is not on the wire as little as the schema does.
func TestDeriveIgnoresCyclesThroughFieldsThatAreNotOnTheWire(t *testing.T) {
	type node struct {
		Name   string `json:"name"`
		Parent *chain `json:"-"`
	}
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("refused: %v", p)
		}
	}()
	Input[node]().JSON()
}
