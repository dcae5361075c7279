package client_test

import (
	"strings"
	"testing"

	"kernos/client"
)

func TestCheckSequence(t *testing.T) {
	item := func(word string) client.Item {
		i := client.Item{Type: client.ItemType(word), ServiceHash: "h", Provenance: []string{}, ContentType: "m.x"}
		if word == "mishap" {
			i.Type, i.Recoverable = client.Error, true
		}
		return i
	}
	for words, want := range map[string]string{
		"progress progress data data done": "",
		"done":                             "",
		"progress done":                    "",
		"guidance error done":              "",
		"error done":                       "",
		"data error done":                  "",
		"mishap data done":                 "",
		"":                                 "without items",
		"data":                             "the last item is data",
		"done done":                        "done comes after done",
		"done data":                        "data comes after done",
		"guidance done":                    "followed by done",
		"error data done":                  "followed by data",
		"error error done":                 "followed by error",
	} {
		var items []client.Item
		for _, word := range strings.Fields(words) {
			items = append(items, item(word))
		}
		err := client.CheckSequence(items)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", words, err, want)
		}
	}
	bare := []client.Item{{Type: client.Done}}
	if err := client.CheckSequence(bare); err == nil {
		t.Error("an item without a hash passes")
	}
	gap := []client.Item{item("data"), item("done")}
	gap[0].Seq, gap[1].Seq = 1, 3
	if err := client.CheckSequence(gap); err == nil {
		t.Error("a gap passes")
	}
}
