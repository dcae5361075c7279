package line

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kernos/client"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/jsonvalue"
	"kernos/internal/quantity"
	"kernos/internal/when"
	"kernos/message"
)

func typed(name, kind string) *client.Field { return &client.Field{Name: name, Types: []string{kind}} }

// plantMethod has a parameter of every sort.
func plantMethod() *client.Method {
	owner := typed("owner", "object")
	owner.Fields = []*client.Field{typed("name", "string"), typed("age", "integer")}
	tags := typed("tags", "array")
	tags.Items = typed("", "string")
	counts := typed("counts", "array")
	counts.Items = typed("", "integer")
	matrix := typed("matrix", "array")
	matrix.Items = typed("", "array")
	matrix.Items.Items = typed("", "number")
	kind := &client.Field{Name: "kind", Enum: []json.RawMessage{json.RawMessage(`"oak"`), json.RawMessage(`3`)}}
	name := typed("name", "string")
	name.Required = true
	return &client.Method{
		Module: "garden", Name: "plant", Schema: json.RawMessage(`{"type":"object"}`),
		Field: client.Field{Types: []string{"object"}, Fields: []*client.Field{
			name, typed("maxHeight", "number"), typed("alive", "boolean"), owner, tags, counts, matrix, kind,
			{Name: "anything"}, typed("list", "array"), typed("output", "string"), typed("free", "object"),
			{Name: "maybe", Types: []string{"string", "null"}}, {Name: "either", Types: []string{"string", "integer"}},
		}},
	}
}

func TestParameters(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"text": "a\nb\n", "number": "12\n", "json": `{"a":1}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		``:                                 `{}`,
		`--name oak`:                       `{"name":"oak"}`,
		`--name=oak`:                       `{"name":"oak"}`,
		`--name -5`:                        `{"name":"-5"}`,
		`--name --alive`:                   `{"name":"--alive"}`,
		`--name -h`:                        `{"name":"-h"}`,
		`--name --output --alive`:          `{"alive":true,"name":"--output"}`,
		`--name -- --alive`:                `{"alive":true,"name":"--"}`,
		`--name -ojson -ojson --alive`:     `{"alive":true,"name":"-ojson"}`,
		`oak`:                              `{"name":"oak"}`,
		`oak --alive -o=json`:              `{"alive":true,"name":"oak"}`,
		`--alive --json os://a?b=c -r=0`:   `{"alive":true,"name":"os://a?b=c"}`,
		`name=oak`:                         `{"name":"oak"}`,
		`name=`:                            `{"name":""}`,
		`name=a=b`:                         `{"name":"a=b"}`,
		`name:="oak"`:                      `{"name":"oak"}`,
		`name=12`:                          `{"name":"12"}`,
		`--max-height 1.50`:                `{"maxHeight":1.50}`,
		`--max_height -3`:                  `{"maxHeight":-3}`,
		`--alive`:                          `{"alive":true}`,
		`--alive=false`:                    `{"alive":false}`,
		`--no-alive`:                       `{"alive":false}`,
		`--alive --name x`:                 `{"alive":true,"name":"x"}`,
		`--owner.name Ada --owner.age 36`:  `{"owner":{"age":36,"name":"Ada"}}`,
		`--owner {"name":"Ada"}`:           `{"owner":{"name":"Ada"}}`,
		`owner.name=Ada`:                   `{"owner":{"name":"Ada"}}`,
		`--tags a --tags b`:                `{"tags":["a","b"]}`,
		`tags=a tags=b`:                    `{"tags":["a","b"]}`,
		`--tags ["a"] --tags []`:           `{"tags":["[\"a\"]","[]"]}`,
		`tags:=[]`:                         `{"tags":[]}`,
		`--counts [1,2] --counts 3`:        `{"counts":[1,2,3]}`,
		`--counts 1 --counts 2`:            `{"counts":[1,2]}`,
		`--matrix [1,2] --matrix [3]`:      `{"matrix":[[1,2],[3]]}`,
		`matrix:=[[1]]`:                    `{"matrix":[[1]]}`,
		`--kind oak`:                       `{"kind":"oak"}`,
		`--kind 3`:                         `{"kind":3}`,
		`--anything milk`:                  `{"anything":"milk"}`,
		`--anything 5`:                     `{"anything":"5"}`,
		`--anything "5"`:                   `{"anything":"\"5\""}`,
		`--anything {}`:                    `{"anything":"{}"}`,
		`--anything @x`:                    `{"anything":"@x"}`,
		`anything:=5`:                      `{"anything":5}`,
		`anything=5`:                       `{"anything":"5"}`,
		`--list 1 --list x`:                `{"list":["1","x"]}`,
		`list:=[1,"x"]`:                    `{"list":[1,"x"]}`,
		`output=x`:                         `{"output":"x"}`,
		`--free.a.b 1`:                     `{"free":{"a":{"b":"1"}}}`,
		`--maybe x`:                        `{"maybe":"x"}`,
		`maybe:=null`:                      `{"maybe":null}`,
		`--either 5`:                       `{"either":"5"}`,
		`either:=5`:                        `{"either":5}`,
		`--either x`:                       `{"either":"x"}`,
		`other=x more.a:=1`:                `{"more":{"a":1},"other":"x"}`,
		`-- oak`:                           `{"name":"oak"}`,
		`-- --alive`:                       `{"name":"--alive"}`,
		`-- -h 5`:                          `{"maxHeight":5,"name":"-h"}`,
		`-- name=x`:                        `{"name":"name=x"}`,
		`-- --`:                            `{"name":"--"}`,
		`-- x 1 true {} -a --b ["c"]`:      `{"alive":true,"maxHeight":1,"name":"x","owner":{},"tags":["-a","--b","[\"c\"]"]}`,
		`--name oak -- 5`:                  `{"maxHeight":5,"name":"oak"}`,
		`--data {"name":"x"} -- 5 true`:    `{"alive":true,"maxHeight":5,"name":"x"}`,
		`--`:                               `{}`,
		`name=@` + dir + `/text`:           `{"name":"a\nb\n"}`,
		`maxHeight=@` + dir + `/number`:    `{"maxHeight":12}`,
		`owner:=@` + dir + `/json`:         `{"owner":{"a":1}}`,
		`name=@-`:                          `{"name":"{\"name\":\"in\"}"}`,
		`--data {"name":"x","z":1}`:        `{"name":"x","z":1}`,
		`-d {"z":[1]}`:                     `{"z":[1]}`,
		`--data - --alive`:                 `{"alive":true,"name":"in"}`,
		`--alive --data @` + dir + `/json`: `{"a":1,"alive":true}`,
		`--data {"tags":["x"]} --tags y`:   `{"tags":["y"]}`,
		`--data {"owner":{"name":"A"}} --owner.age 1`: `{"owner":{"age":1,"name":"A"}}`,
	} {
		got, err := (&Line{Args: strings.Fields(line)}).Parameters(plantMethod(), Input{Stdin: strings.NewReader(`{"name":"in"}`)})
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", line, got, err, want)
		}
	}
}

// A method whose schema names no parameter takes all, unless its schema is closed.
func TestParametersOfAnyNames(t *testing.T) {
	for schema, any := range map[string]bool{`{}`: true, `{"type":"object"}`: true, `{"type":"object","additionalProperties":false}`: false, `{"type":"string"}`: false} {
		m := &client.Method{Module: "text", Name: "upper", Schema: json.RawMessage(schema), Field: *client.ReadField(json.RawMessage(schema))}
		l := &Line{Args: strings.Fields("--text oak --owner.name Ada n:=5 --background --delay 1h")} // the last two aren't parameters
		got, err := l.Parameters(m, Input{})
		if want := `{"n":5,"owner":{"name":"Ada"},"text":"oak"}`; any && (err != nil || string(got) != want || !l.Background || l.Delay != "1h") {
			t.Errorf("%s: got %s, %+v, %v; want %s", schema, got, l.Flags, err, want)
		} else if !any && err == nil {
			t.Errorf("%s: got %s", schema, got)
		}
		if help := MethodHelp(m, []string{"kernos", "text", "upper"}, 0); any != strings.Contains(help, "It takes parameters of any names.") {
			t.Errorf("%s: %s", schema, help)
		}
	}
}

func TestParametersThatCannotBe(t *testing.T) {
	for line, want := range map[string]string{
		`--nam x`:                      "there is no parameter nam; did you mean name",
		`--owner.nam x`:                "there is no parameter owner.nam",
		`--name`:                       "--name needs a value",
		`--name a --name b`:            "name is given twice",
		`--name a name=b`:              "name is given twice",
		`--max-height tall`:            `max-height: expected a number, got "tall"`,
		`--owner.age old`:              `owner.age: expected an integer, got "old"`,
		`--alive=perhaps`:              `alive: expected true or false, got "perhaps"`,
		`--owner Ada`:                  "expected a JSON object",
		`--counts x`:                   `counts: expected an integer, got "x"`,
		`--matrix 1`:                   "expected a JSON list",
		`name:=oak`:                    "oak is not JSON; for a text write name=…",
		`name=@/nosuch/file`:           "/nosuch/file",
		`{"name":"oak"}`:               `is the JSON object all parameters, or the value of name? Write --data '{…}' or --name '{…}'`,
		`{"name":`:                     `the JSON object with all parameters isn't JSON: unexpected end of JSON input, at byte 8; for a text that begins so, write --name '{…'`,
		`oak word`:                     `"word" needs the name of a parameter; did you mean --maxHeight word?`,
		`--name oak word`:              `"word" needs the name of a parameter`,
		`--name ` + "\xff":             "name: it isn't UTF-8 text",
		`anything:="` + "\xff\"":       "is not JSON",
		`--data {"name":"` + "\xff\"}": "--data isn't UTF-8 text",
		`-ojson --output raw`:          "can't be both json and raw",
		`--json -r`:                    "can't be both json and raw",
		`--timeout soon`:               "expected a time such as",
		`=x`:                           `"=x" needs the name of a parameter`,
		`:=1`:                          `":=1" needs the name of a parameter`,
		`-x`:                           "there is no flag -x",
		`--data`:                       "--data needs a value",
		`--data x`:                     "--data is not JSON",
		`--data [1]`:                   "--data must be one JSON object",
		`--data [1] --name x`:          "--data must be one JSON object",
		`-- x tall`:                    `maxHeight: expected a number, got "tall"`,
		`-- x 1 true absent`:           "expected a JSON object",
		`--data - name=@-`:             "once only",
		`--data {} --data {}`:          "--data is given twice",
		`--timeout abc`:                `--timeout: expected a time such as 90m, 720h or 30d, got "abc"`,
		`tags:=["a"] --tags b`:         "as a whole, and element by element",
		`owner:=1 owner.name=x`:        "owner is given as 1, and as an object",
		`tags=a tags.x=1`:              "as a list, and as an object",
		`--output xml`:                 "--output can be",
		`--jq . --template {{.}}`:      "give one of them",
		`--output raw --template {{}}`: "leave --output out",
	} {
		got, err := (&Line{Args: strings.Fields(line)}).Parameters(plantMethod(), Input{Stdin: strings.NewReader("{}")})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %s, %v; want %q", line, got, err, want)
		}
	}
}

// The flags about the message make place for parameters of their name.
func TestFlagsOfTheMessage(t *testing.T) {
	m := plantMethod()
	l := &Line{Args: strings.Fields(`oak --correlation w --causation m --idempotency-key k --timeout 3s -v -r`)}
	params, err := l.Parameters(m, Input{})
	if want := (client.Metadata{Correlation: "w", Causation: "m", IdempotencyKey: "k"}); err != nil || string(params) != `{"name":"oak"}` ||
		l.Message != want || l.Timeout != quantity.PositiveDuration(3*time.Second) || !l.Verbose || l.Show.Mode != "raw" {
		t.Errorf("got %s, %+v, %v", params, l.Flags, err)
	}
	m.Fields = append(m.Fields, typed("correlation", "string"), typed("timeout", "integer"), typed("raw", "boolean"))
	l = &Line{Args: strings.Fields(`oak --correlation w --timeout 3 --raw --causation m`)}
	params, err = l.Parameters(m, Input{})
	if err != nil || string(params) != `{"correlation":"w","name":"oak","raw":true,"timeout":3}` || l.Message != (client.Metadata{Causation: "m"}) || l.Show.Mode != "" {
		t.Errorf("got %s, %+v, %v", params, l.Flags, err)
	}
}

// What a file has reaches the server as it is, by reference if it has to, or not at all.
func TestFilesGoByReference(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"binary": "a\xff", "long": `["long enough"]`, "short": "[1]"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := plantMethod()
	for _, name := range []string{"nameRef", "anythingRef"} {
		ref := typed(name, "object")
		ref.Fields = []*client.Field{typed("scheme", "string"), typed("path", "string")}
		m.Fields = append(m.Fields, ref)
	}
	for line, want := range map[string]string{
		"name=@short":       `{"name":"[1]"} `,
		"name=@long":        `{"nameRef":{"scheme":"file","path":"/kept"}} ["long enough"]`,
		"name=@binary":      `{"nameRef":{"scheme":"file","path":"/kept"}} ` + "a\xff",
		"anything=@long":    `{"anythingRef":{"scheme":"file","path":"/kept"}} "[\"long enough\"]"`,
		"anything:=@long":   `{"anythingRef":{"scheme":"file","path":"/kept"}} ["long enough"]`,
		"anything:=@short":  `{"anything":[1]} `,
		"maybe=@long":       `{"maybe":"[\"long enough\"]"} `,
		"anything=@binary":  "!anything: DIR/binary isn't UTF-8 text, and anything takes text only",
		"anything:=@binary": "!isn't UTF-8 text",
		"maybe=@binary":     "!maybe: DIR/binary isn't UTF-8 text",
	} {
		kept := ""
		in := Input{Inline: 8, Keep: func(content io.Reader) (message.BlobPointer, error) {
			data, err := io.ReadAll(content)
			if err == nil {
				kept = string(data)
			}
			return message.FileBlob("/kept"), err
		}}
		got, err := (&Line{Args: []string{strings.Replace(line, "@", "@"+dir+"/", 1)}}).Parameters(m, in)
		if text, refused := strings.CutPrefix(want, "!"); refused {
			if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), dir, "DIR"), text) || kept != "" {
				t.Errorf("%s: got %s, %v; want %q", line, got, err, text)
			}
		} else if err != nil || string(got)+" "+kept != want {
			t.Errorf("%s: got %s %s, %v; want %s", line, got, kept, err, want)
		}
	}
}

// What is wrong with one parameter is no reason to forget the others: they are part of the
// command that is suggested.
func TestParametersThatCanBeRead(t *testing.T) {
	for line, want := range map[string]string{
		`--name oak --max-height tall --alive`: `{"alive":true,"name":"oak"}`,
		`--nam oak --alive`:                    `{"alive":true,"name":"oak"}`,
		`--nam=oak --max-hight 3`:              `{"maxHeight":3,"name":"oak"}`,
		`--xyzzy 5 --alive`:                    `{"alive":true}`,
		`--xyzzy --alive`:                      `{"alive":true}`,
		`--name oak --name elm`:                `{"name":"oak"}`,
		`--data nonsense --name oak`:           `{"name":"oak"}`,
		`-- oak tall`:                          `{"name":"oak"}`,
	} {
		got, err := (&Line{Args: strings.Fields(line)}).Parameters(plantMethod(), Input{})
		if _, invalid := errors.AsType[*Invalid](err); !invalid || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", line, got, err, want)
		}
	}
}

func TestParametersWithoutASchema(t *testing.T) {
	for line, want := range map[string]string{
		`--name oak --alive`:    `{"alive":true,"name":"oak"}`,
		`--a.b=1 c:=1 d=1`:      `{"a":{"b":"1"},"c":1,"d":"1"}`,
		`--alive --name oak`:    `{"alive":true,"name":"oak"}`,
		`--data {"a":[1]} b:=2`: `{"a":[1],"b":2}`,
		`{"a":[1]} b:=2`:        `{"a":[1],"b":2}`,
	} {
		got, err := (&Line{Args: strings.Fields(line)}).Parameters(nil, Input{})
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", line, got, err, want)
		}
	}
}

func TestReadLine(t *testing.T) {
	for line, want := range map[string]string{
		``:                                  "| {}",
		`memory`:                            "memory| {}",
		`memory --output table`:             "memory| {}",
		`memory get --key x`:                `memory get|parameters {"key":"x"}`,
		`Memory.Get key=x`:                  `Memory.Get|parameters {"key":"x"}`,
		`--context a memory get --key x`:    `memory get|parameters {"key":"x"}`,
		`--context get memory get --key x`:  `memory get|parameters {"key":"x"}`,
		`memory --context a get --key x`:    `memory get|parameters {"key":"x"}`,
		`memory get --key x --context a`:    `memory get|parameters {"key":"x"}`,
		`memory get --key x --help`:         `memory get|parameters {"key":"x"}`,
		`memory get --output raw --key x`:   `memory get|parameters {"key":"x"}`,
		`memory get --key x --output raw`:   `memory get|parameters {"key":"x"}`,
		`-o raw memory get --key -ok`:       `memory get|parameters {"key":"-ok"}`,
		`memory get --key x -- --context a`: `memory get|parameters {"key":"x","other":["--context","a"]}`,
		`memory get --key -h`:               `memory get|parameters {"key":"-h"}`,
		`memory get --key --output`:         `memory get|parameters {"key":"--output"}`,
		`-ojson memory get --key x`:         `memory get|parameters {"key":"x"}`,
		`memory -o=json get --json --key x`: `memory get|parameters {"key":"x"}`,
		`memory -v get --correlation c`:     `memory get| {}`,
	} {
		l, err := Read(strings.Fields(line))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		other := typed("other", "array")
		params, err := l.Parameters(&client.Method{Field: client.Field{Fields: []*client.Field{typed("key", "string"), other}}}, Input{})
		got := strings.Join(l.Words, " ") + "|"
		if l.HasParameters {
			got += "parameters"
		}
		if got += " " + string(params); err != nil || strings.TrimPrefix(got, " ") != strings.TrimPrefix(want, " ") {
			t.Errorf("%s: got %s, %v; want %s", line, got, err, want)
		}
		if strings.Contains(strings.Split(line, " -- ")[0], "--context a") && l.Context != "a" {
			t.Errorf("%s: the context is %q", line, l.Context)
		}
	}
	for _, line := range []string{`--key x memory get`, `memory get --context`, `memory get --context a --server ws://x/`, `memory get --context a --context b`} {
		if _, err := Read(strings.Fields(line)); err == nil {
			t.Errorf("%s is taken", line)
		}
	}
}

// FuzzArguments shows that parameters that are written as a command line and read again
// are the same.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		`{"name":"oak","maxHeight":1.5,"alive":false,"owner":{"name":"A d'a","age":3},"tags":["a","-b",""],"counts":[1]}`,
		`{"matrix":[[1],[]],"kind":3,"anything":"5","list":[[1],"x",true],"output":"-x","free":{"a.b":1}}`,
		`{"maybe":null,"either":"5","other":"@x","":1,"a=b":2,"--x":3}`, `{"tags":["[1]"],"anything":"@file"}`, `{"tags":[]}`, `{"owner":{}}`,
	} {
		f.Add([]byte(seed))
	}
	m := plantMethod()
	f.Fuzz(func(t *testing.T, params []byte) {
		if jsonvalue.Kind(string(params)) != "object" {
			return
		}
		words := Arguments(m, params)
		got, err := (&Line{Args: words}).Parameters(m, Input{})
		if err != nil {
			t.Fatalf("%s is written %q, and refused: %v", params, words, err)
		}
		if !jsonvalue.Same(got, params) {
			t.Fatalf("%s is written %q, and read as %s", params, words, got)
		}
	})
}

func TestShellQuote(t *testing.T) {
	for word, want := range map[string]string{"a/b-c_d": "a/b-c_d", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'", "é": "'é'"} {
		if got := terminal.ShellQuote(word); got != want {
			t.Errorf("%q: got %s, want %s", word, got, want)
		}
	}
}

// A name that the method does not have is taken for the nearest one that it has.
func TestParametersAreRenamed(t *testing.T) {
	m := plantMethod()
	for given, want := range map[string]string{
		`{"nam":"oak"}`:               `{"name":"oak"}`,
		`{"max_hight":"5","name":""}`: `{"name":"","maxHeight":5}`,
		`{"nam":"oak","name":"elm"}`:  `{"nam":"oak","name":"elm"}`,
		`{"xyzzy":1}`:                 `{"xyzzy":1}`,
		`[1]`:                         `[1]`,
	} {
		if got := renamed(m, json.RawMessage(given)); string(got) != want {
			t.Errorf("%s becomes %s", given, got)
		}
	}
}

func TestAParameterOfWhichOneIsRequired(t *testing.T) {
	m := &client.Method{Field: client.Field{
		Fields: []*client.Field{{Name: "name", Types: []string{"string"}}, {Name: "payload"}, {Name: "steps", Types: []string{"array"}}},
		Forms:  []*client.Field{{Needs: []string{"name"}}, {Needs: []string{"steps"}}},
	}}
	for line, want := range map[string]string{
		`Echo payload:={"a":1}`: `{"name":"Echo","payload":{"a":1}}`,
		`steps:=[1]`:            `{"steps":[1]}`,
		`Echo {"a":1}`:          `"{\"a\":1}" needs the name of a parameter; did you mean payload:='{"a":1}'?`,
		`Echo word`:             `"word" needs the name of a parameter; did you mean --payload word?`,
	} {
		got, err := (&Line{Args: strings.Fields(line)}).Parameters(m, Input{})
		if err != nil {
			got = json.RawMessage(err.Error())
		}
		if string(got) != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
}

// Words are the values of the parameters that the server names for them, in order, except those that flags have set.
func TestWordsInTheirPlaces(t *testing.T) {
	text := func(name string, required bool) *client.Field {
		return &client.Field{Name: name, Types: []string{"string"}, Required: required}
	}
	list := &client.Field{Name: "tags", Types: []string{"array"}, Items: &client.Field{Types: []string{"string"}}}
	m := &client.Method{Module: "note", Name: "set", Presentation: client.Presentation{Arguments: []string{"key", "value"}}, Field: client.Field{Types: []string{"object"}, Fields: []*client.Field{text("value", true), text("key", true), list}}}
	tagged := &client.Method{Module: "note", Name: "tag", Presentation: client.Presentation{Arguments: []string{"key", "tags"}}, Field: m.Field}
	for _, c := range []struct {
		m          *client.Method
		line, want string
	}{
		{m, "a b", `{"key":"a","value":"b"}`},
		{m, "a --value b", `{"key":"a","value":"b"}`},
		{m, "--key a b", `{"key":"a","value":"b"}`},
		{m, "b --key a", `{"key":"a","value":"b"}`},
		{m, "a", `{"key":"a"}`},
		{m, "a b c", `"c" is one word too many`},
		{m, "--key a --value b c", `"c" is one word too many`},
		{tagged, "a b c d", `{"key":"a","tags":["b","c","d"]}`},
	} {
		got, err := (&Line{Args: strings.Fields(c.line)}).Parameters(c.m, Input{})
		if text := string(got); err != nil && !strings.HasPrefix(err.Error(), c.want) || err == nil && text != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.line, text, err, c.want)
		}
		if err == nil {
			if again, err := (&Line{Args: Arguments(c.m, got)}).Parameters(c.m, Input{}); err != nil || !jsonvalue.Same(again, got) {
				t.Errorf("%s is written as %q, which is %s, %v", got, Arguments(c.m, got), again, err)
			}
		}
	}
}

// Times and durations are written as people write them, or as the numbers that they are.
func TestTimesAndDurations(t *testing.T) {
	number := func(name, format string) *client.Field {
		return &client.Field{Name: name, Types: []string{"integer"}, Format: format}
	}
	m := &client.Method{Field: client.Field{Types: []string{"object"}, Fields: []*client.Field{number("at", when.FormatTime), number("for", when.FormatSpan)}}}
	for line, want := range map[string]string{
		"--for 1.5h": `{"for":5400000}`, "--for 250": `{"for":250}`, "--for 2d": `{"for":172800000}`,
		"--at 2026-01-31T12:00:00Z": `{"at":1769860800000}`, "--at 1769860800000": `{"at":1769860800000}`,
		"--for soon": "for: expected milliseconds, or a time such as 90s", "--at soon": "at: expected milliseconds since 1970, or a time such as",
	} {
		got, err := (&Line{Args: strings.Fields(line)}).Parameters(m, Input{})
		if err != nil && !strings.HasPrefix(err.Error(), want) || err == nil && string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", line, got, err, want)
		}
	}
}
