package attack

import (
	"reflect"
	"strings"
	"testing"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/message"
)

// personal are queries whose answers differ from one caller to another although nothing is left out.
var personal = map[message.Type]string{
	"Kernel.Status":    "figures about this moment",
	"Message.Stats":    "figures about this moment",
	"Syscall.Describe": "without a name, it explains the kernel to its caller",
	"Content.Hydrate":  "it has a note of its own, in metadata",
	"Kernel.Backup":    "a backup, of this moment",
	"Crypto.Derive":    "a key of the caller",
	"Vector.Query":     "items of one collection, which the caller sees or not",
}

// An answer that leaves out what its caller may not see says so, and the schema of the reply describes that. The owner's
// answers have no such note.
func TestNarrowedAnswersSaySo(t *testing.T) {
	w := open(t)
	w.must("Memory.Set", `{"key":"notes/mine","value":1}`, nil)
	w.must("Memory.Set", `{"key":"other/hidden","value":{"note":"hidden"}}`, nil)
	w.must("Session.Create", `{"title":"hidden"}`, nil)
	w.must("Job.Start", `{"name":"Ping","payload":{"payload":1},"delay":"1h"}`, nil)
	w.must("Vector.Upsert", `{"collection":"hidden","items":[{"id":"1","text":"hidden"}]}`, nil)
	w.must("Notify.Send", `{"text":"hidden"}`, nil)
	token := w.token("narrow", `"allow":["*"],"memory":["notes"],"files":["os://memory/notes"]`)
	if status, body := w.post(token, "/v1/messages", `{"kind":"query","type":"Memory.Get","data":{"key":"notes/mine"},"metadata":{"id":"flow","timestamp":1,"correlation":"flow"}}`+"\n"); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	data := map[message.Type]string{
		"Message.Watch": `{"from":1,"limit":1,"type":"Memory.Get"}`, "Message.List": `{}`, "Message.Search": `{"query":"hidden"}`, "Memory.Search": `{"query":"hidden"}`,
		"Message.Graph": `{"correlation":"flow","format":"json"}`, "Message.Replay": `{"correlation":"flow"}`, "Memory.List": `{}`,
		"Content.Search": `{"query":"hidden","uri":"os://memory/notes"}`, "Content.Index": `{"uri":"os://memory/notes"}`,
		"VFS.List": `{"uri":"os://memory","recursive":true}`, "Syscall.Search": `{"query":"token"}`, "Job.List": `{}`, "Session.List": `{}`,
	}
	field, _ := reflect.TypeFor[kernel.Narrowed]().FieldByName("Note")
	narrowed := 0
	for _, s := range w.served() {
		if s.Kind != message.KindQuery || personal[s.Type] != "" || s.Runs == kernel.Endless && data[s.Type] == "" {
			continue
		}
		with := data[s.Type]
		if with == "" {
			with = attempt(s, "narrow")
		}
		own, seen := w.owner(s.Type, with), w.call(token, s.Type, with)
		describes := strings.Contains(string(s.Output.JSON()), field.Tag.Get("jsonschema_description"))
		note := jsonscan.Unquote(jsonscan.Member(seen.data, "note"))
		switch {
		case describes && (seen.code != 0 || note != "only what token narrow may see"):
			t.Errorf("%s %s: %v has no note", s.Type, with, seen)
		case describes && jsonscan.Member(own.data, "note") != nil:
			t.Errorf("%s %s: the owner's answer has a note: %v", s.Type, with, own)
		case describes:
			narrowed++
		case seen.code == 0 && strings.TrimSpace(seen.String()) != own.String():
			t.Errorf("%s %s answers the owner %v, and a token %v, and has no note", s.Type, with, own, seen)
		}
	}
	if narrowed < 15 {
		t.Errorf("the test shows little: %d answers have a note", narrowed)
	}
}
