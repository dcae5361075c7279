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
