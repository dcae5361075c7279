package introspect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kernos/capability/introspect"
	"kernos/internal/ranked"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
)

// thousand is a module of syscalls that differ in a few words.
func thousand() kernel.Module {
	things := []string{"Invoice", "Customer", "Order", "Shipment", "Ticket", "Printer", "Camera", "Sensor", "Contract", "Payment",
		"Calendar", "Meeting", "Warehouse", "Vehicle", "Driver", "Route", "Recipe", "Patient", "Lecture", "Student"}
	actions := []string{"Create", "Delete", "Update", "Find", "Archive", "Approve", "Reject", "Export", "Import", "Share",
		"Copy", "Rename", "Count", "Compare", "Merge", "Split", "Print", "Sign", "Notify", "Assign",
		"Open", "Close", "Lock", "Unlock", "Translate", "Summarize", "Validate", "Convert", "Compress", "Encrypt",
		"Schedule", "Cancel", "Pause", "Resume", "Measure", "Calibrate", "Rotate", "Resize", "Crop", "Blend",
		"Audit", "Review", "Grade", "Rank", "Sort", "Filter", "Group", "Reserve", "Release", "Return"}
	type in struct {
		ID string `json:"id" jsonschema_description:"Which one."`
	}
	m := kernel.Module{Name: "thousand", Version: "1.0.0", Summary: "Many."}
	for _, thing := range things {
		for _, action := range actions {
			m.Syscalls = append(m.Syscalls, kernel.Query(kernel.Definition{
				Type: message.Type(thing + "." + action), Summary: fmt.Sprintf("%s one %s of the company.", action, strings.ToLower(thing)),
			}, func(context.Context, in) (struct{}, error) { return struct{}{}, nil }))
		}
	}
	return m
}

func TestSearchFindsOneOfAThousand(t *testing.T) {
	k := kerneltest.Around(t, nil, introspect.Module, thousand().Syscalls...)
	for query, want := range map[string]string{
		"merge two customers":          "Customer.Merge",
		"calibrating a sensor":         "Sensor.Calibrate",
		"Recipe.Translate":             "Recipe.Translate",
		"recipe_translate":             "Recipe.Translate",
		"print the invoices":           "Invoice.Print",
		"which syscalls are there":     "Syscall.List",
		"a message, returned as it is": "Echo",
	} {
		got := kerneltest.Answer(t, k, kerneltest.Query("req-1", "Syscall.Search", fmt.Sprintf(`{"query":%q}`, query)))
		var out struct {
			Syscalls []struct{ Name, Summary string }
		}
		if err := json.Unmarshal(got.Data, &out); err != nil || len(out.Syscalls) == 0 || out.Syscalls[0].Name != want || out.Syscalls[0].Summary == "" {
			t.Errorf("%q: got %s", query, got.Data)
		}
	}
	for data, want := range map[string]string{
		`{"query":"xylophone","mode":"words"}`:     `{"syscalls":[]}`,
		`{"query":"print invoice","limit":1}`:      `{"syscalls":[{"name":"Invoice.Print","kind":"query","summary":"Print one invoice of the company.","score":`,
		`{"query":""}`:                             `{"code":422`,
		`{"query":"print an invoice","limit":101}`: `{"code":422`,
	} {
		if got := kerneltest.Answer(t, k, kerneltest.Query("req-1", "Syscall.Search", data)); !strings.HasPrefix(string(got.Data), want) || strings.Count(string(got.Data), "score") > 1 {
			t.Errorf("%s: got %s", data, got.Data)
		}
	}
	// The list stays within a line: the summaries would not fit.
	if got := kerneltest.Answer(t, k, kerneltest.Query("req-1", "Syscall.List", `{}`)); strings.Contains(string(got.Data), "summaries") {
		t.Errorf("the list has %d bytes", len(got.Data))
	}
}

// What is called through Syscall.Call is answered as it would be itself, under the name that was
// sent.
func TestCallCallsAnySyscall(t *testing.T) {
	k := kerneltest.Around(t, nil, introspect.Module)
	described := kerneltest.Answer(t, k, kerneltest.Query("req-1", "Syscall.Describe", `{}`))
	for _, c := range []struct {
		kind       message.Kind
		data, want string
	}{
		{message.KindCommand, `{"type":"Echo","data":{"message":"hi"}}`, `{"echo":"hi"}`},
		{message.KindQuery, `{"type":"Ping","data":{"payload":[1.0]}}`, `{"payload":[1.0]}`},
		{message.KindCommand, `{"data":{"payload":1},"type":"Syscall.Ping"}`, `{"payload":1}`},
		{message.KindQuery, `{"type":"Syscall.Describe"}`, string(described.Data)},
		{message.KindQuery, `{"type":"Echo","data":{"message":"hi"}}`, `{"code":422,"message":"Echo is a command and was sent as a query, which may not change anything; send it with kind command"}`},
		{message.KindCommand, `{"type":"Echo","data":{"mesage":"hi"}}`, `{"code":422,"message":"Schema validation failed: missing required field: message (a string: Message to echo back); unknown field: mesage (did you mean message?)"}`},
		{message.KindCommand, `{"type":"Echo"}`, `{"code":422,"message":"Schema validation failed: missing required field: message (a string: Message to echo back)"}`},
		{message.KindCommand, `{"typ":"Echo"}`, `{"code":422,"message":"Schema validation failed: missing required field: type (a string: The syscall to call); unknown field: typ (did you mean type?)"}`},
		{message.KindCommand, `{"type":"Syscall.Call","data":{"type":"Echo"}}`, `{"code":422,"message":"Schema validation failed: type: Syscall.Call can't call itself; name the syscall that is meant"}`},
		{message.KindCommand, `{"type":"No.Such"}`, `{"code":404,"message":"No handler for No.Such`},
		{message.KindCommand, `{"type":"no such"}`, `{"code":422,"message":"Schema validation failed: type`},
	} {
		_, got := kerneltest.Exchange(k, kerneltest.Request(c.kind, "req-1", "Syscall.Call", c.data))
		if !strings.HasPrefix(string(got.Data), c.want) {
			t.Errorf("%s: got %s", c.data, got.Data)
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	r, err := kernel.NewRegistry(thousand())
	if err != nil {
		b.Fatal(err)
	}
	m := ranked.NewMeaning(nil)
	search := func(r *kernel.Registry) {
		if _, err := r.For(principal.TheOwner()).Search(b.Context(), m, ranked.Query{Text: "calibrate a sensor", Limit: 5}); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			r, err := kernel.NewRegistry(thousand())
			if err != nil {
				b.Fatal(err)
			}
			search(r)
		}
	})
	b.Run("next", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			search(r)
		}
	})
}

// What only the owner may call is found and described, with what a person types, if this program has it. What others have
// registered or mounted isn't, nor what a token was denied.
func TestWhatIsForTheOwnerOnly(t *testing.T) {
	syscall := func(name message.Type, access principal.Access, p kernel.Provider) kernel.Syscall {
		type in struct {
			Name  string `json:"name" jsonschema_description:"Its name."`
			Quick bool   `json:"quick,omitempty" jsonschema_description:"Whether it is quick."`
		}
		s := kernel.Command(kernel.Definition{Type: name, Summary: "Calibrate the telescope " + string(name) + ".", Access: access}, func(context.Context, in) (struct{}, error) { return struct{}{}, nil })
		s.Provider = p
		return s
	}
	k := kerneltest.Around(t, nil, introspect.Module,
		syscall("Telescope.Own", principal.OwnerOnly, kernel.BuiltIn), syscall("Telescope.Any", principal.ForAll, kernel.BuiltIn), syscall("Telescope.Denied", principal.ByName, kernel.BuiltIn),
		syscall("Telescope.Code", principal.OwnerOnly, kernel.Code), syscall("Telescope.Mounted", principal.OwnerOnly, kernel.Mounted), syscall("Telescope.Program", principal.OwnerOnly, kernel.Program))
	ask := func(p *principal.Principal, name message.Type, data string) string {
		return string(kerneltest.Outcome(kernel.ActFor(t.Context(), kernel.From(p, "http")), k, kerneltest.Query("req-1", name, data)).Data)
	}
	token := kerneltest.Principal(t, "01", "ci", principal.Grant{Preset: principal.Agent})
	found := ask(token, "Syscall.Search", `{"query":"calibrate the telescope","limit":10}`)
	for text, there := range map[string]bool{
		`"Telescope.Own","kind":"command","summary":"Calibrate the telescope Telescope.Own.","for":"owner only"`: true, `Telescope.Any.","score"`: true,
		"Telescope.Denied": false, "Telescope.Code": false, "Telescope.Mounted": false, "Telescope.Program": false,
	} {
		if strings.Contains(found, text) != there {
			t.Errorf("%s: %t in %s", text, !there, found)
		}
	}
	if got := ask(principal.TheOwner(), "Syscall.Search", `{"query":"calibrate the telescope","limit":10}`); strings.Contains(got, "owner only") || strings.Count(got, "Telescope.") != 12 {
		t.Errorf("the owner finds %s", got)
	}
	for name, want := range map[string]string{
		"Telescope.Own": `"for":"owner only","command":"kernos telescope own --name NAME"}`, "telescope_own": `"for":"owner only"`, "Telescope.Any": `{"name":"Telescope.Any","kind":"command"`,
		"Telescope.Denied": `{"code":403`, "Telescope.Code": `{"code":403`, "Telescope.Mounted": `{"code":403`, "Telescope.Program": `{"code":403`,
	} {
		for _, data := range []string{`{"name":"` + name + `"}`, `{"names":["` + name + `"]}`} {
			if got := ask(token, "Syscall.Describe", data); !strings.Contains(got, want) {
				t.Errorf("%s: want %s, got %s", data, want, got)
			}
		}
	}
	if got := ask(token, "Syscall.List", `{}`); strings.Contains(got, "Telescope.Own") {
		t.Errorf("listed: %s", got)
	}
}
