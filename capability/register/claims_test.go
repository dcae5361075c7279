package register

import (
	"fmt"
	"testing"

	"kernos/kernel/principal"
	"kernos/message"
)

// A principal that claims as many names as there may be, whether it serves them or not, takes
// none of those that another one has claimed.
func TestAFloodOfNamesTakesNoneOfAnother(t *testing.T) {
	holder := func(id principal.ID) *principal.Principal {
		p, err := principal.New(id, string(id), principal.Grant{Preset: principal.Handler})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	bank, thief := holder("bank"), holder("thief")
	for _, served := range []bool{false, true} {
		d := &directory{claims: map[message.Type]*principal.Principal{"Bank.Login": bank}, services: map[message.Type]*service{}}
		claim := func(i int) {
			name := message.Type(fmt.Sprintf("Thief.Name%d", i))
			if d.claims[name] = thief; served {
				d.services[name] = new(service)
			}
		}
		for i := range 10 {
			claim(i)
		}
		for i := range 20 {
			dropped := d.dropClaim(thief)
			if dropped == served {
				t.Errorf("with names that are served (%t), one was dropped: %t", served, dropped)
			}
			if d.claims["Bank.Login"] != bank {
				t.Fatalf("with names that are served (%t), another's was dropped", served)
			}
			claim(10 + i)
		}
		if !served && !d.dropClaim(bank) {
			t.Error("there is no room for one that has few")
		}
	}
}
