package client_test

import (
	"encoding/json"
	"errors"
	"testing"

	"kernos/client"
	"kernos/message"
)

func TestReferencesAreResolved(t *testing.T) {
	const pointer = `{"scheme":"file","path":"/b/x"}`
	output := client.ReadField(json.RawMessage(`{"type":"object","properties":{"body":{"type":"string"},"bodyRef":{"type":"object"},
		"versions":{"type":"array","items":{"type":"object","properties":{"value":{},"valueRef":{"type":"object"}}}}}}`))
	fetch := func(_ string, p message.BlobPointer) ([]byte, error) {
		switch p.Path {
		case "/b/binary":
			return nil, nil
		case "/b/lost":
			return nil, errors.New("lost")
		}
		return []byte("[1]"), nil
	}
	for _, test := range []struct {
		output     *client.Field
		data, want string
	}{
		{output, `{"dataRef":` + pointer + `}`, `[1]`},
		{nil, `{"dataRef":` + pointer + `,"size":2,"mediaType":"application/json"}`, `[1]`},
		{nil, `{"dataRef":` + pointer + `,"a":2}`, `{"data":"[1]","a":2}`},
		{output, `{"dataRef":` + pointer + `,"a":2}`, `{"dataRef":` + pointer + `,"a":2}`},
		{output, `{"a":2,"bodyRef":` + pointer + `,"c":3}`, `{"a":2,"body":"[1]","c":3}`},
		{output, `{"body":"x","bodyRef":` + pointer + `}`, `{"body":"x","bodyRef":` + pointer + `}`},
		{output, `{"bodyRef":{"scheme":"file","path":"/b/binary"}}`, `{"bodyRef":{"scheme":"file","path":"/b/binary"}}`},
		{output, `{"bodyRef":{"scheme":"file","path":"/b/lost"}}`, `!`},
		{output, `{"bodyRef":{"scheme":"ftp","path":"/x"}}`, `{"bodyRef":{"scheme":"ftp","path":"/x"}}`},
		{output, `{"imageRef":` + pointer + `}`, `{"imageRef":` + pointer + `}`}, // data, and not a reference
		{output, `{"versions":[{"valueRef":` + pointer + `},{"value":2}]}`, `{"versions":[{"value":[1]},{"value":2}]}`},
		{new(client.Field), `{"imageRef":` + pointer + `}`, `{"imageRef":` + pointer + `}`},
		{nil, `{"xRef":` + pointer + `,"y":{"zRef":` + pointer + `}}`, `{"x":"[1]","y":{"zRef":` + pointer + `}}`},
		{nil, `"dataRef"`, `"dataRef"`},
		{nil, `{"x\u0052ef":` + pointer + `}`, `{"x":"[1]"}`},
		{output, `{"a":2,"body":"x"}`, `{"a":2,"body":"x"}`},
	} {
		if test.data != test.want && !client.MayRefer(json.RawMessage(test.data)) {
			t.Errorf("%s has a pointer", test.data)
		}
		got, err := client.Resolve(json.RawMessage(test.data), test.output, fetch)
		if test.want == "!" && err != nil {
			continue
		}
		if err != nil || string(got) != test.want {
			t.Errorf("%s: got %s, %v; want %s", test.data, got, err, test.want)
		}
	}
	if client.MayRefer(json.RawMessage(`{"payload":"x"}`)) {
		t.Error("an answer without a pointer has one")
	}
}
