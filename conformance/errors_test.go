package conformance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kernos/daemon"
	"kernos/kernel"
	"kernos/message"
)

// everySyscall are the codes that every syscall may give, as Syscall.Describe without a name says.
// 404 is for types that don't exist, and 409 for idempotency keys: where a syscall gives one of them
// for a reason of its own, its description says so.
var everySyscall = []int{400, 403, 413, 422, 429, 500, 503, 504, 507}

// undescribed says that the description of a syscall lacks an error that it has given, or returns "".
// Syscalls that call others give the errors of those, too.
func undescribed(r *kernel.Registry, t message.Type, code int, text string) string {
	s, ok := r.Lookup(t)
	switch {
	case !ok, s.Effect == kernel.Delegated, slices.Contains(everySyscall, code), code == 409 && strings.HasPrefix(text, "The outcome is not known"):
		return ""
	case slices.ContainsFunc(s.Errors, func(e kernel.ErrorDefinition) bool { return e.Code == code }):
		return ""
	}
	return fmt.Sprintf("%s gave %d (%s), and its description doesn't list that", t, code, text)
}

// elsewhere are the syscalls whose answers come from servers and models, which take their time.
var elsewhere = []message.Type{"Agent.Ask", "Http.Fetch", "Model.Add", "Model.Check"}

var errorLine = regexp.MustCompile(`"kind":"error","type":"([A-Za-z0-9.]+)","data":\{"code":(\d+),"message":"((?:[^"\\]|\\.)*)"`)

// TestErrorsAreDescribed: every description is whole, and what conversations and generated requests get is what the descriptions of
// the syscalls list.
func TestErrorsAreDescribed(t *testing.T) {
	real, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, c := range conversations(t) {
		for _, line := range c.talk {
			for _, found := range errorLine.FindAllStringSubmatch(line.text, -1) {
				code, _ := strconv.Atoi(found[2])
				seen++
				if problem := undescribed(real, message.Type(found[1]), code, found[3]); !line.sent && problem != "" {
					t.Errorf("%s: %s", c.path, problem)
				}
			}
		}
	}
	w := newWhole(t, t.TempDir(), around{engine: engines["pebble"], files: t.TempDir()})
	g := generator{random: rand.New(rand.NewPCG(5, 6)), texts: append(slices.Repeat(fill(t, w), 10), texts...)}
	problems := make(map[string]bool)
	for _, typ := range w.kernel.Registry().All().Types() {
		s, _ := w.kernel.Registry().Lookup(typ)
		if s.Provider != kernel.BuiltIn {
			continue // a generated request has registered it
		}
		checkDescription(t, s, w.query("Syscall.Describe", `{"name":%q}`, typ))
		if s.Effect == kernel.Transient || s.Runs == kernel.Endless || slices.Contains(elsewhere, typ) {
			continue
		}
		for i := range 60 {
			m := w.ask(message.Message{Kind: s.Kind, Type: typ, Data: g.input(s.Input.JSON(), i)})
			if code := failure(m); code != 0 {
				seen++
				failed, _ := message.ParseError(m.Data)
				if problem := undescribed(w.kernel.Registry(), typ, code, failed.Message); problem != "" && !problems[fmt.Sprint(typ, code)] {
					problems[fmt.Sprint(typ, code)] = true
					t.Error(problem)
				}
			}
		}
	}
	if seen < 1000 {
		t.Errorf("%d errors were seen", seen)
	}
}

// checkDescription compares what Syscall.Describe says with the definition: a caller finds every
// event and every error in it, each with its reason, and an example that fits.
func checkDescription(t *testing.T, s *kernel.Syscall, m message.Message) {
	t.Helper()
	var d struct {
		Summary string
		Example json.RawMessage
		Emits   []struct{ Type, Description string }
		Errors  []struct {
			Code int
			When string
		}
	}
	if err := json.Unmarshal(m.Data, &d); err != nil || failure(m) != 0 {
		t.Fatalf("%s: %s, %v", s.Type, m.Data, err)
	}
	if d.Summary == "" || len(d.Emits) != len(s.Emits) || len(d.Errors) != len(s.Errors) {
		t.Errorf("%s: the description is not whole: %s", s.Type, m.Data)
	}
	if err := s.Input.Validate(d.Example); err != nil {
		t.Errorf("%s: the example %s: %v", s.Type, d.Example, err)
	}
	for i, e := range d.Emits {
		if e.Type != string(s.Emits[i].Type) || e.Description == "" {
			t.Errorf("%s: the event %+v", s.Type, e)
		}
	}
	for i, e := range d.Errors {
		if e.Code != s.Errors[i].Code || e.When == "" {
			t.Errorf("%s: the error %+v", s.Type, e)
		}
	}
}
