package client

import (
	"encoding/json"
	"testing"
)

func TestReferences(t *testing.T) {
	const pointer = `{"scheme":"file","path":"/b/x"}`
	for data, want := range map[string]string{
		`{"dataRef":` + pointer + `}`:                                         `1`,
		`{"dataRef":` + pointer + `,"size":2,"mediaType":"application/json"}`: `1`,
		`{"dataRef":` + pointer + `,"a":2}`:                                   `{"dataRef":` + pointer + `,"a":2}`,
		`{"a":2,"bodyRef":` + pointer + `,"c":3}`:                             `{"a":2,"body":1,"c":3}`,
		`{"body":"x","bodyRef":` + pointer + `}`:                              `{"body":"x","bodyRef":` + pointer + `}`,
		`{"xRef":` + pointer + `,"yRef":` + pointer + `}`:                     `{"x":1,"y":1}`,
		`{"Ref":` + pointer + `}`:                                             `{"Ref":` + pointer + `}`,
		`{"bodyRef":{"scheme":"ftp","path":"/x"},"hrefRef":"x"}`:              `{"bodyRef":{"scheme":"ftp","path":"/x"},"hrefRef":"x"}`,
		`"dataRef"`: `"dataRef"`,
		`[]`:        `[]`,
	} {
		got := json.RawMessage(data)
		for _, r := range References(got) {
			got = r.Replace(got, json.RawMessage("1"))
		}
		if string(got) != want {
			t.Errorf("%s: got %s, want %s", data, got, want)
		}
	}
}
