package register

import (
	"fmt"
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store/storetest"
)

// A principal that claims as many names as there may be, whether it serves them or not, takes
// none of those that another one has claimed.
func TestAFloodOfNamesTakesNoneOfAnother(t *testing.T) {
	for _, served := range []bool{false, true} {
		c := claims{of: map[message.Type]principal.Claim{"Bank.Login": {ID: "bank"}}}
		isServed := func(t message.Type) bool { return served && t != "Bank.Login" }
		evict := func(caller principal.ID) bool {
			made, err := c.evict(caller, isServed)
			if err != nil {
				t.Fatal(err)
			}
			return made
		}
		set := func(i int) {
			if err := c.set(message.Type(fmt.Sprintf("Thief.Name%d", i)), principal.Claim{ID: "thief"}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 10 {
			set(i)
		}
		for i := range 20 {
			if dropped := evict("thief"); dropped == served {
				t.Errorf("with names that are served (%t), one was dropped: %t", served, dropped)
			}
			if c.of["Bank.Login"].ID != "bank" {
				t.Fatalf("with names that are served (%t), another's was dropped", served)
			}
			set(10 + i)
		}
		if !served && !evict("bank") {
			t.Error("there is no room for one that has few")
		}
	}
}

// A name stays with its principal when the kernel starts again, also if the token was rotated, and
// is free when the principal has given it back or has ended.
func TestANameStaysWithItsPrincipal(t *testing.T) {
	s := storetest.NewMemory()
	ended := map[principal.ID]bool{}
	find := func(id principal.ID) (*principal.Principal, error) {
		if ended[id] {
			return nil, nil
		}
		return principal.New(id, string(id), principal.Grant{Preset: principal.Handler})
	}
	start := func() *kernel.Kernel { return withModule(t, nil, &Options{Store: s, Find: find}) }
	const taken = `error 409 Bank.Login belongs to the token "bank", which registered it first; choose another name`
	registers := func(k *kernel.Kernel, who, want string) *program {
		t.Helper()
		p := connectAs(t, k, who)
		if got := p.call(registration("Bank.Login", "")); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s; want %s", who, got, want)
		}
		return p
	}
	registers(start(), "bank", "reply").close()
	k := start()
	registers(k, "thief", taken)
	registers(k, "bank", "reply").close()
	registers(k, "thief", taken)
	bank := registers(k, "bank", "reply")
	if got := bank.call(line("command", "Syscall.Unregister", "u", `{"name":"Bank.Login"}`)); got != `reply {"unregistered":true}` {
		t.Fatal(got)
	}
	registers(start(), "other", "reply").close()
	ended["other"] = true
	registers(start(), "bank", "reply").close()
}
