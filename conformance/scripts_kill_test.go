package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"kernos/capability/script"
	"kernos/message"
	"kernos/store/storetest"
)

// TestRegistrationsAreKilled kills a kernel while code is registered. What was acknowledged is there, with its versions and
// their weights; what wasn't is there as a whole or not at all.
func TestRegistrationsAreKilled(t *testing.T) {
	rounds := max(3, *crashes/2)
	for name, e := range engines {
		t.Run(name, func(t *testing.T) {
			v := &killedScripts{engine: e, versions: make(map[string]int)}
			storetest.Victim{Work: v.work, Check: v.check, Reports: 20 * rounds}.Kill(t, rounds)
		})
	}
}

// killedScripts registers three versions under each name; the second and the third share the calls.
type killedScripts struct {
	engine   storetest.Engine
	versions map[string]int // that were acknowledged
}

// registerVersion is the data of a registration of the nth version, from 1.
func registerVersion(name string, n int) string {
	weights := ""
	if n > 1 {
		weights = fmt.Sprintf(`,"weights":{"%d.0.0":1,"%d.0.0":3}`, n-1, n)
	}
	return fmt.Sprintf(`{"name":%q,"version":"%d.0.0","kind":"query","inputSchema":{},"outputSchema":{},"code":"export const handler = () => %d;"%s}`, name, n, n, weights)
}

func (v *killedScripts) work(dir string, report func(string)) error {
	w, err := openWhole(dir, around{engine: v.engine})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(w.Home().Files(), 0o700); err != nil {
		return err
	}
	ctx := script.FromFile(context.Background(), script.File{URI: "os://syscalls/killed", Folder: w.Home().Files()}) // without a limit of rate
	for i := 0; ; i++ {
		name := fmt.Sprintf("Killed.At%dN%d", time.Now().UnixNano(), i)
		for n := 1; n <= 3; n++ {
			m, err := w.Call(ctx, message.Message{Kind: message.KindCommand, Type: "Syscall.Register", Data: json.RawMessage(registerVersion(name, n))}, nil)
			if err != nil || m.Kind != message.KindReply {
				return fmt.Errorf("Syscall.Register: %s, %v", m.Data, err)
			}
			report(fmt.Sprintf("%s %d", name, n))
		}
	}
}

func (v *killedScripts) check(t *testing.T, dir string, reported []string) {
	for _, line := range reported {
		var name string
		var n int
		if _, err := fmt.Sscan(line, &name, &n); err != nil {
			t.Fatalf("the victim reports %q", line)
		}
		v.versions[name] = n
	}
	w, err := openWhole(dir, around{engine: v.engine})
	if err != nil {
		t.Fatalf("after a kill: %v", err)
	}
	defer w.Close()
	var list struct{ Syscalls []string }
	if err := json.Unmarshal(w.query("Syscall.List", `{}`).Data, &list); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, name := range list.Syscalls {
		if strings.HasPrefix(name, "Killed.") {
			found[name] = true
			v.checkOne(t, w, name)
		}
	}
	for name := range v.versions {
		if !found[name] {
			t.Errorf("%s was acknowledged, and is lost", name)
		}
	}
}

// checkOne looks at a syscall that is there.
func (v *killedScripts) checkOne(t *testing.T, w *whole, name string) {
	var out struct {
		Versions []struct {
			Version string
			Weight  int
		}
	}
	if m := w.query("Syscall.Versions", `{"name":%q}`, name); json.Unmarshal(m.Data, &out) != nil || len(out.Versions) < max(1, v.versions[name]) {
		t.Errorf("%s has %s, and %d versions were acknowledged", name, m.Data, v.versions[name])
		return
	}
	newest := len(out.Versions)
	for i, one := range out.Versions {
		weight := map[int]int{0: 1, 1: 0}[i]
		if newest > 1 {
			weight = map[int]int{0: 3, 1: 1}[i]
		}
		if one.Version != fmt.Sprintf("%d.0.0", newest-i) || one.Weight != weight {
			t.Errorf("%s has %+v", name, out.Versions)
		}
	}
	for range 4 {
		if m := w.query(message.Type(name), `{}`); m.Kind != message.KindReply || string(m.Data) != fmt.Sprint(newest) && string(m.Data) != fmt.Sprint(newest-1) {
			t.Errorf("%s answers %s", name, m.Data)
		}
	}
}
