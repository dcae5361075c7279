package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"kernos/internal/jsonscan"
	"kernos/schema"
)

// FuzzReceive sends any frame: whatever it is, what comes back is JSON-RPC, every stream
// that is acknowledged is done, and the connection goes on.
func FuzzReceive(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"note_set","params":[{"key":"a"}]}`,
		`{"jsonrpc":"2.0","id":"x","method":"note_set","params":["a","b",["c"]]}`,
		`[{"jsonrpc":"2.0","id":1,"method":"service_schema"},{"jsonrpc":"2.0","method":"note_get_all"},1]`,
		`{"jsonrpc":"2.0","id":null,"method":"service_module_schema","params":["note"]}`,
		`{"jsonrpc":"2.0","id":1,"method":"service_resume","params":["a-1",0]}`,
		`{"jsonrpc":"2.0","id":1,"method":"service_unsubscribe","params":{"subscription":"a-1"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"rpc.discover","params":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"nte_set","params":{"method":"set"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"note_\u0000","params":[[]]}`,
		`[{"jsonrpc":"2.0","id":1,"method":"service_resume","params":["a-1",0]},{"jsonrpc":"2.0","id":2,"method":"service_unsubscribe","params":["a-1"]}]`,
		`[]`, `{`, `"`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		s := newService(t, nil)
		defer s.Close()
		p := newPipe()
		p.frames <- bytes.Clone(frame)
		p.frames <- []byte(`{"jsonrpc":"2.0","id":"the end","method":"service_unsubscribe","params":["x-0"]}`)
		served := make(chan error, 1)
		go func() { served <- s.Serve(context.Background(), p) }()
		open := make(map[string]int64)
		for {
			line := <-p.out
			if strings.Contains(line, `"the end"`) && strings.HasSuffix(line, `"result":false}`) {
				break
			}
			var all []response
			if err := json.Unmarshal([]byte(line), &all); err != nil {
				all = make([]response, 1)
				if err := json.Unmarshal([]byte(line), &all[0]); err != nil {
					t.Fatalf("%v: %s", err, line)
				}
			}
			for _, r := range all {
				var id string
				switch {
				case r.Method != "":
					i := r.Params.Result
					seq, known := open[r.Params.Subscription]
					if !known || i.Seq != seq+1 {
						t.Fatalf("an item out of its order: %s", line)
					}
					if open[r.Params.Subscription]++; i.Type == "done" {
						delete(open, r.Params.Subscription)
					}
				case json.Unmarshal(r.Result, &id) == nil && id != "":
					open[id] = 0
				case r.Error == nil && r.Result == nil:
					t.Fatalf("neither a result nor an error: %s", line)
				}
			}
		}
		if len(open) > 0 {
			t.Fatalf("%d streams are not done", len(open))
		}
		p.end(io.EOF)
		<-served
	})
}

// FuzzExample makes examples for any schema: each validates, and none takes for ever.
func FuzzExample(f *testing.F) {
	for _, seed := range []string{
		`{}`, `true`, `false`, `{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`,
		`{"type":"string","pattern":"^[a-z]{3}$","minLength":3}`, `{"type":"array","items":{"enum":[1,2]},"minItems":3,"uniqueItems":true}`,
		`{"type":"number","minimum":0.5,"maximum":0.7}`, `{"oneOf":[{"type":"null"},{"type":"integer"}]}`, `{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"const":1}}}`,
		`{"type":["integer","null"],"multipleOf":7}`, `{"allOf":[{"type":"object"}],"properties":{"x":true},"required":["x"]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := schema.Parse(text)
		if err != nil {
			return
		}
		example, ok := schema.ExampleOf(s)
		if ok && (!json.Valid(example) || s.Validate(example) != nil) {
			t.Errorf("%s is no example for %s", example, text)
		}
		// The schema as part of documents is a schema still.
		taken := newDefinitions("#/$defs/").take(s.JSON(), "#/here")
		if !json.Valid(taken) {
			t.Errorf("%s became %s", text, taken)
		}
	})
}

// FuzzCall makes calls with any parameters: what comes of a call is what its items say, and
// the last of them is done.
func FuzzCall(f *testing.F) {
	for _, seed := range []string{``, `[]`, `{}`, `[{"key":"a"}]`, `{"key":"a"}`, `["a","b",["c"]]`, `"a"`, `null`, ` 7 `, `{"method":"set","key":"a"}`, `[[]]`, `[{},{}]`} {
		f.Add("note_set", seed)
	}
	f.Add("service_module_schema", `["note"]`)
	f.Add("service_unsubscribe", `["a-1"]`)
	f.Add("nothing\x00_at_all", `["\u0000"]`)
	f.Fuzz(func(t *testing.T, method, params string) {
		if params != "" && !json.Valid([]byte(params)) || new(jsonscan.Scanner).Text([]byte(params)) != nil && params != "" {
			return // its reader has refused it
		}
		s := newService(t, nil)
		c := Call{Method: method, Params: json.RawMessage(params)}
		outcome, err := s.Call(t.Context(), c, nil)
		if err != nil {
			t.Fatal(err)
		}
		sub, err := s.Open(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		ran := make(chan struct{})
		go func() {
			defer close(ran)
			sub.Run()
		}()
		reader := newCollector()
		sub.Follow(reader)
		<-sub.Over()
		sub.Leave()
		s.Close()
		<-ran
		want := []string{"data 1", "done 2"}
		switch {
		case outcome.Guidance != nil:
			want = []string{"guidance 1", "error 2", "done 3"}
		case outcome.Err != nil:
			want = []string{"error 1", "done 2"}
		case !json.Valid(outcome.Data):
			t.Errorf("the data is %s", outcome.Data)
		}
		reader.expect(t, want...)
		if len(reader.items) > 0 {
			t.Errorf("and then %s", reader.next(t))
		}
	})
}
