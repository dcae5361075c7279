package schema

import ("testing";"encoding/json";"time";"github.com/go-json-experiment/json/jsontext")

type inner struct{ Name string `json:"name" jsonschema_description:"A name."`; N *int8 `json:"n,omitempty"` }
type level int
type named struct {
	A int `json:"a" jsonschema:"minimum=1,maximum=10"`
	B *int `json:"b,omitzero"`
	C []uint16 `json:"c"`
	D map[string]int32 `json:"d"`
	E json.RawMessage `json:"e"`
	F jsontext.Value `json:"f,omitempty"`
	G inner `json:"g"`
	H []inner `json:"h" jsonschema:"minItems=1,maxItems=3"`
	I string `json:"i" jsonschema:"enum=x,enum=y,minLength=1,maxLength=4"`
	J level `json:"j"`
	K float32 `json:"k"`
	L time.Time `json:"l"`
	M []byte `json:"m"`
	N any `json:"n"`
	O bool `json:"o"`
	P [3]int `json:"p"`
	Q time.Duration `json:"q"`
	R int `json:"r,string"`
	S *inner `json:"s"`
	T uint64 `json:"t"`
	U string `json:"-"`
	v string
	W string
	X map[string]any `json:"x"`
	Y struct{} `json:"y"`
	Z float64 `json:"z" jsonschema:"minimum=0,maximum=1"`
	inner
}
func TestProbe(t *testing.T){
	t.Logf("%s", Input[named]().JSON())
	t.Logf("%s", Output[named]().JSON())
	t.Logf("%s", Input[struct{}]().JSON())
	t.Logf("%s", Input[any]().JSON())
	t.Logf("%s", Input[int8]().JSON())
	t.Logf("%s", Input[[]string]().JSON())
	t.Logf("%s", Input[map[string]int]().JSON())
	t.Logf("%s", Input[*inner]().JSON())
	t.Logf("%s", Input[json.RawMessage]().JSON())
	for _, s := range []string{`{"type":"object","type":"string"}`, "{\"title\":\"\xff\"}", `{"$ref":"#"}`, `{"$ref":"file:///etc/passwd"}`,`{"$ref":"https://example.com/x"}`,`[]`,`1`,`true`,`false`,``,`{`,`{"type":"strin"}`,`{"$schema":"http://json-schema.org/draft-07/schema#","type":"integer"}`,`{"$schema":"https://json-schema.org/draft/2020-12/schema","$defs":{"a":{"type":"integer"}},"$ref":"#/$defs/a"}`,`{"$schema":"https://example.com/meta"}`,`{"$id":"https://example.com/a","$ref":"b"}`,`{"pattern":"("}`, `{"$ref":"other.json"}`, `{"$id":"file:///etc/x","$ref":"/etc/passwd"}`, `{"$ref":"https://json-schema.org/draft/2020-12/schema"}`} {
		x, err := Parse(json.RawMessage(s))
		t.Logf("%s -> %v %v", s, x != nil, err)
	}
}
