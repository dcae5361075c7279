package memory

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

func TestListShowsImmediateChildren(t *testing.T) {
	w := newWorld(t, Options{})
	for _, key := range []string{"b", "a/1", "a/2/x", "a/2/y", "a/2", "a/2-", "a/20", "a/é", "vault2", "a!", "c/d/e/f"} {
		w.reply("Set", `{"key":"`+key+`","value":1}`, ok)
	}
	w.reply("Set", `{"key":"vault/k","value":"`+wellFormed+`"}`, ok)
	root := `{"keys":["a!","a/","b","c/","vault/","vault2"]}`
	for prefix, want := range map[string]string{
		``: root, `/`: root, `//`: root,
		`a`: `{"keys":["a/1","a/2","a/2-","a/2/","a/20","a/é"]}`, `/a/`: `{"keys":["a/1","a/2","a/2-","a/2/","a/20","a/é"]}`,
		`a/2`: `{"keys":["a/2/x","a/2/y"]}`, `a//2//`: `{"keys":["a/2/x","a/2/y"]}`,
		`c`: `{"keys":["c/d/"]}`, `c/d`: `{"keys":["c/d/e/"]}`, `b`: `{"keys":[]}`, `none`: `{"keys":[]}`, `a/e`: `{"keys":[]}`,
		`vault`: `{"keys":["vault/k"]}`,
	} {
		w.reply("List", `{"prefix":"`+prefix+`"}`, want)
	}
	w.reply("List", `{}`, root)
	w.reply("List", `{"recursive":true}`, `{"keys":["a!","a/1","a/2","a/2-","a/2/x","a/2/y","a/20","a/é","b","c/d/e/f","vault/k","vault2"]}`)
	w.reply("List", `{"prefix":"a/2","recursive":true}`, `{"keys":["a/2/x","a/2/y"]}`)
}

func TestListPagesAreStable(t *testing.T) {
	w := newWorld(t, Options{})
	var want []string
	for i := range 20 {
		w.reply("Set", fmt.Sprintf(`{"key":"f/%02d","value":1}`, i), ok)
		want = append(want, fmt.Sprintf("f/%02d", i))
		for j := range 30 { // more than is passed over one by one
			w.reply("Set", fmt.Sprintf(`{"key":"f/%02d/%d","value":1}`, i, j), ok)
		}
		want = append(want, fmt.Sprintf("f/%02d/", i))
	}
	for _, limit := range []int{1, 2, 3, 39, 40, 41, 1000} {
		if got := w.page(fmt.Sprintf(`"prefix":"f","limit":%d`, limit), nil); !slices.Equal(got, want) {
			t.Errorf("limit %d: %q", limit, got)
		}
	}
	if got := w.page(`"prefix":"f","limit":7,"recursive":true`, nil); len(got) != 20*31 || !slices.IsSorted(got) {
		t.Errorf("recursively: %d keys", len(got))
	}
	// What was given is not given again, and what stays is not left out.
	n := 0
	got := w.page(`"prefix":"f","limit":2`, func() {
		w.ask("Delete", fmt.Sprintf(`{"key":"f/%02d"}`, n))
		w.ask("Set", fmt.Sprintf(`{"key":"f/%02d-","value":1}`, n))
		w.ask("Set", fmt.Sprintf(`{"key":"a%d","value":1}`, n))
		n++
	})
	if !slices.Equal(got, want) {
		t.Errorf("with changes before the cursor: %q", got)
	}
	// A cursor is good for the list that it came from.
	var out listOutput
	if err := json.Unmarshal(w.ask("List", `{"prefix":"f","limit":2}`).Data, &out); err != nil {
		t.Fatal(err)
	}
	w.refuse("List", `{"prefix":"g","cursor":"`+out.Cursor+`"}`, 422, "Invalid cursor")
	w.refuse("List", `{"prefix":"f","recursive":true,"cursor":"`+out.Cursor+`"}`, 422, "Invalid cursor")
}

func TestTenThousandKeys(t *testing.T) {
	w := newWorld(t, Options{})
	const n = 10_000
	for i := range n {
		w.reply("Set", fmt.Sprintf(`{"key":"many/%d/%d","value":%d}`, i%100, i, i), ok)
	}
	for i := 0; i < n; i += 97 {
		w.reply("Get", fmt.Sprintf(`{"key":"many/%d/%d"}`, i%100, i), fmt.Sprint(i))
	}
	if got := w.page(`"prefix":"many"`, nil); len(got) != 100 {
		t.Errorf("there are %d folders", len(got))
	}
	if got := w.page(`"recursive":true,"limit":3000`, nil); len(got) != n {
		t.Errorf("there are %d keys", len(got))
	}
	// Folders are jumped over, not walked through.
	reads := 0
	w.store.Fail(func(string) error { reads++; return nil })
	w.ask("List", `{"prefix":"many"}`)
	w.store.Fail(nil)
	if reads > 100*(fewInside+6) {
		t.Errorf("a list of 100 folders took %d reads", reads)
	}
}
