package memory

import (
	"fmt"
	"testing"

	"kernos/message"
)

func TestIncrement(t *testing.T) {
	w := newWorld(t, Options{})
	for _, c := range []struct{ data, want string }{
		{`{"key":"n"}`, `{"value":1}`}, // it counts as 0
		{`{"key":"n","by":41}`, `{"value":42}`},
		{`{"key":"/n","by":-2}`, `{"value":40}`},
		{`{"key":"n","by":0.5}`, `{"value":40.5}`},
		{`{"key":"n","by":1e1}`, `{"value":50.5}`},
	} {
		w.reply("Increment", c.data, c.want)
	}
	w.reply("Get", `{"key":"n"}`, `50.5`)

	// Whole numbers stay exact, as far as 64 bits go.
	w.reply("Set", `{"key":"n","value":9007199254740993}`, ok)
	w.reply("Increment", `{"key":"n"}`, `{"value":9007199254740994}`)
	w.reply("Set", `{"key":"n","value":9223372036854775807}`, ok)
	w.refuse("Increment", `{"key":"n"}`, 422, "is too large")
	w.reply("Increment", `{"key":"n","by":0}`, `{"value":9223372036854775807}`)
	w.reply("Increment", `{"key":"n","by":-1}`, `{"value":9223372036854775806}`)
	w.reply("Set", `{"key":"n","value":92233720368547758070}`, ok)
	w.refuse("Increment", `{"key":"n"}`, 422, "is too large")
	w.reply("Set", `{"key":"n","value":1.7e308}`, ok)
	w.refuse("Increment", `{"key":"n","by":1.7e308}`, 422, "is too large")

	w.reply("Set", `{"key":"text","value":"5"}`, ok)
	w.refuse("Increment", `{"key":"text"}`, 409, "text holds the string \"5\", and only a number can be incremented")
	w.refuse("Increment", `{"key":"n","by":"1"}`, 422, "by: expected a number")
	w.refuse("Increment", `{"key":"proc/uptime"}`, 403, "read-only")
	w.refuse("Increment", `{"key":"vault/n"}`, 422, "vault/* requires")
	w.refuse("Increment", `{}`, 422, "key")
}

// No increment is lost, however many come at once.
func TestIncrementsAddUp(t *testing.T) {
	w := newWorld(t, Options{})
	const each = 25
	together(func(int) {
		for range each {
			if m := w.ask("Increment", `{"key":"n"}`); m.Kind != message.KindReply {
				t.Errorf("%s", m.Data)
			}
		}
	})
	w.reply("Get", `{"key":"n"}`, fmt.Sprint(clients*each))
}
