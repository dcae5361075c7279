package terminal

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"kernos/client"
	"kernos/daemon"
	"kernos/kernel"
	"kernos/message"
)

// presented returns how the reply to a call is shown to people, as the syscall's own definition wants it.
func presented(t *testing.T, typ message.Type, params, reply string) string {
	t.Helper()
	r, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	s, ok := r.Lookup(typ)
	if !ok {
		t.Fatal(typ)
	}
	m := &client.Method{Presentation: client.Presentation{Columns: s.Columns, Result: s.Result}}
	m.Module, m.Name = kernel.Method(typ)
	var out strings.Builder
	p, err := NewPrinter(&Screen{Out: &out, Err: &out, Width: 400, Now: time.UnixMilli(1735000000000)}, Output{Method: m, Params: json.RawMessage(params)})
	if err == nil {
		err = p.Print(t.Context(), &client.Item{Type: client.Data, ContentType: m.Module + "." + m.Name, Data: json.RawMessage(reply)})
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The table of jobs shows what each job waits for, or its outcome.
func TestTableOfJobs(t *testing.T) {
	at := clock(time.UnixMilli(1735000000000), time.UnixMilli(1735000000000))
	for job, want := range map[string]string{
		`"status":"pending","waitsFor":"Text.Send","due":1735000000000`:             "waits for a program that serves Text.Send",
		`"status":"pending","waitsFor":"Text.Send","why":"it is code of /src"`:      "it is code of /src",
		`"status":"pending","paused":"its concurrencyKey is paused"`:                "paused: its concurrencyKey is paused",
		`"status":"pending","due":1735000000000`:                                    "due " + at,
		`"status":"running","due":1735000000000`:                                    at,
		`"status":"pending","schedule":"@daily","next":1735000000000`:               "next " + at + " (@daily)",
		`"status":"running","progress":{"note":"halfway","percentage":0.5,"at":1}`:  "50% halfway",
		`"status":"failed","error":{"code":499,"message":"canceled"},"ended":1`:     "499 canceled",
		`"status":"completed","ended":1735000000000,"waitsFor":"","due":1735000000`: "ended " + at,
	} {
		got := presented(t, "Job.List", "{}", `{"jobs":[{"jobId":"01K9Z000000000000000X4V2QD","created":1735000000000,`+job+`}],"cursor":"d8"}`)
		lines := strings.Split(got, "\n")
		if lines[0] != "kernos: cursor: d8" || !strings.HasPrefix(lines[2], "01K9Z…X4V2QD  ") || !strings.HasSuffix(lines[2], "  "+want) {
			t.Errorf("%s: %s", job, got)
		}
	}
}

// A browser is listed as the holder of a key, not as a token with a secret.
func TestTableOfTokens(t *testing.T) {
	for token, want := range map[string]string{
		`"preset":"agent","created":1735000000000,"memory":["ci","b"],"readOnly":true,"rate":0.5`: "agent   " + time.UnixMilli(1735000000000).Format("2006-01-02 15:04") + "  never    --memory ci,b --read-only --rate 0.5",
		`"browser":{"name":"Firefox 143","origin":"http://a","used":1,"owner":1}`:                 "key of a browser at http://a (Firefox 143), used " + time.UnixMilli(1).Format("2006-01-02 15:04") + ", as the owner until " + time.UnixMilli(1).Format("2006-01-02 15:04"),
		`"browser":{"origin":"https://b"},"expired":true`:                                         "-       -        expired  key of a browser at https://b",
		`"cookie":true,"expires":1735000000000`:                                                   "cookie of an earlier version, no longer accepted",
	} {
		if got := presented(t, "Token.List", "{}", `{"tokens":[{"name":"ci",`+token+`}]}`); !strings.HasPrefix(got, "NAME  PRESET  CREATED (") || !strings.HasSuffix(strings.Join(strings.Fields(got), " "), " "+strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%s: %s", token, got)
		}
	}
}

// What one syscall replies is a line, a list of names and facts, or what it is.
func TestPresent(t *testing.T) {
	for _, c := range []struct {
		typ                 message.Type
		params, reply, want string
	}{
		{"Memory.Set", `{"key":"notes/1","value":1}`, `{"success":true,"revision":3}`, "Set notes/1 (version 3)\n"},
		{"Memory.Set", `{"key":"a\u001b[2J"}`, `{"success":true}`, "Set a␛[2J\n"},
		{"Memory.List", `{}`, `{"keys":["a","b/"]}`, "KEY\na\nb/\n"},
		{"Memory.List", `{}`, `{"keys":[]}`, "kernos: no keys\nKEY\n"},
		{"Memory.Get", `{}`, `["a"]`, "[\n  \"a\"\n]\n"},
		{"Agent.Ask", `{"text":"?"}`, `{"session":"s","status":"completed","text":"One.\nTwo."}`, "One.\nTwo.\n"},
		{"Agent.Ask", `{"text":"?"}`, `{"error":1}`, "{\n  \"error\": 1\n}\n"},
		{"Token.Show", `{"name":"ci"}`, `{"name":"ci","id":"p1","allow":["A.*","B.*"]}`, "name     ci\nid       p1\npreset   -\ncreated  -\nexpires  never\nrule     --allow A.*,B.*\n"},
		{"Token.Revoke", `{"name":"ci"}`, `{"revoked":true,"id":"p1"}`, "The token ci is no longer accepted\n"},
		{"Mcp.Allow", `{"name":"a"}`, `{"tools":["A.B","A.C"]}`, "Sessions call A.B, A.C without asking\n"},
		{"Job.Cancel", `{"jobId":"j1"}`, `{"jobId":"j1","canceled":false}`, "j1 had ended\n"},
		{"Vector.Query", `{}`, `{"hits":[{"id":"a","score":0.5,"metadata":{"b":[1]}}]}`, "ID  SCORE  TEXT  METADATA\na   0.5          {\"b\":[1]}\n"},
		{"Session.List", `{}`, `{"sessions":[{"session":"01K9Z000000000000000X4V2QD","turns":0,"updated":1734996400000,"title":"Tea"}]}`,
			"ID            STATUS  AGE  TURNS  MODEL    TITLE\n01K9Z…X4V2QD          1h   0      default  Tea\n"},
	} {
		if got := presented(t, c.typ, c.params, c.reply); got != c.want {
			t.Errorf("%s %s: got\n%s", c.typ, c.reply, got)
		}
	}
}

// A list of jobs fits 80 columns, names the zone of its times, shows states in colour, and says how many jobs it leaves out.
func TestListOfJobsInATerminal(t *testing.T) {
	r, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	s, _ := r.Lookup("Job.List")
	zone := time.Local
	time.Local = time.FixedZone("CEST", 2*60*60)
	defer func() { time.Local = zone }()
	reply := `{"jobs":[{"jobId":"01K9Z000000000000000X4V2QD","status":"failed","name":"A.Very.Long.Name.Of.A.Syscall","created":1735000000000,"error":{"code":502,"message":"` + strings.Repeat("wide ", 40) + `"}},
		{"jobId":"01K9Z000000000000000X4V2QE","status":"running","name":"Echo","created":1734900000000}],"cursor":"d8"}`
	show := func(colour bool, more More) string {
		var out strings.Builder
		screen := &Screen{Out: &out, Err: &out, Width: 80, Colour: colour, Now: time.UnixMilli(1735000000000)}
		if done, err := screen.Present(&client.Presentation{Columns: s.Columns}, nil, json.RawMessage(reply), more); err != nil || !done {
			t.Fatal(done, err)
		}
		return out.String()
	}
	plain := show(false, func(cursor string) string { return "7 more after " + cursor })
	lines := strings.Split(plain, "\n")
	for _, line := range lines {
		if Columns(line) > 80 {
			t.Errorf("a line has %d columns: %s", Columns(line), line)
		}
	}
	for i, want := range []string{"STARTED (CEST)  NOTE", "  02:26:40 ", "  Dec 22 22:40", "kernos: 7 more after d8"} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("%q isn't in %q", want, lines[i])
		}
	}
	if strings.Contains(plain, "\x1b") {
		t.Errorf("a screen without colours has some: %q", plain)
	}
	for _, want := range []string{"\x1b[31mfailed\x1b[0m", "\x1b[36mrunning\x1b[0m"} {
		if got := show(true, nil); !strings.Contains(got, want) || !strings.Contains(got, "kernos: cursor: d8") {
			t.Errorf("%q isn't in %q", want, got)
		}
	}
}

// In a terminal of 80 columns, the command of each thing that needs a person can be typed as it stands there.
func TestCommandsInATerminalAreWhole(t *testing.T) {
	r, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	s, _ := r.Lookup("Kernel.Attention")
	reply := `{"needs":[{"kind":"approval","id":"01K9Z000000000000000X4V2QD","since":1735000000000,"what":"` + strings.Repeat("wide ", 40) + `","command":"kernos chat --resume 01K9Z000000000000000X4V2QD"}]}`
	var out strings.Builder
	screen := &Screen{Out: &out, Err: &out, Width: 80, Now: time.UnixMilli(1735000000000)}
	if done, err := screen.Present(&client.Presentation{Columns: s.Columns}, nil, json.RawMessage(reply), nil); err != nil || !done {
		t.Fatal(done, err)
	}
	if row := strings.Split(out.String(), "\n")[1]; Columns(row) > 80 || !strings.HasSuffix(row, "  kernos chat --resume 01K9Z000000000000000X4V2QD") || !strings.Contains(row, "wide wide") {
		t.Error(row)
	}
}
