package register_test

import (
	"fmt"
	"strings"
	"testing"

	"kernos/capability/register"
)

// large is the line that registers a type with a schema of about 10 KB.
func large(name string) string {
	return line("command", "Syscall.Register", "register", fmt.Sprintf(
		`{"name":%q,"kind":"query","description":"A syscall of a test.","inputSchema":{"type":"object","description":%q},"outputSchema":{},"handler":"connection"}`,
		name, strings.Repeat("x", 10_000)))
}

// Schemas take many times the memory of their text. A token has a budget for them, over all its
// connections, which leaves other callers theirs; what it takes back it may use again.
func TestTheSchemasOfATokenHaveABudget(t *testing.T) {
	k := withModule(t, nil, &register.Options{SchemaBytesEach: 1 << 20})
	one, two := connectAs(t, k, "one"), connectAs(t, k, "one")
	registered := 0
	got := ""
	for i := range 20 {
		p := []*program{one, two}[i%2]
		if got = p.call(large(fmt.Sprintf("Large.N%d", i))); !strings.HasPrefix(got, "reply") {
			break
		}
		registered++
	}
	if want := `error 429 The registered schemas of the token "one" may take 1048576 bytes, and no more are taken; end some`; registered != 6 || got != want {
		t.Fatalf("after %d types: %s", registered, got)
	}
	if got := connectAs(t, k, "two").call(large("Other.Large")); !strings.HasPrefix(got, "reply") {
		t.Errorf("another token: %s", got)
	}
	if got := one.call(line("command", "Syscall.Unregister", "u", `{"name":"Large.N0"}`)); got != `reply {"unregistered":true}` {
		t.Fatal(got)
	}
	if got := one.call(large("Large.Again")); !strings.HasPrefix(got, "reply") {
		t.Errorf("after one was taken back: %s", got)
	}
	two.close()
	if got := one.call(large("Large.Last")); !strings.HasPrefix(got, "reply") {
		t.Errorf("after a connection has ended: %s", got)
	}
}
