package cursor

import (
	"strings"

	"kernos/message"
	"kernos/store"
)

// maxShort is how many of the latest ids are looked at for one in its short form.
const maxShort = 20_000

// Whole returns the id that a text stands for: the text itself, or the id of which it is the short form that tables have,
// its beginning and its end with … between them. The short form is looked for among the latest keys below a prefix, which
// end with the ids, and which keep reports true for. "" means that there is none. The error is a 422 if there are several.
func Whole(s store.Store, prefix []byte, text string, keep func(id string) bool) (id string, err error) {
	head, tail, short := strings.Cut(text, "…")
	if !short {
		return text, nil
	}
	keys := store.Prefix(append(append([]byte(nil), prefix...), head...))
	keys.Reverse = true
	looked := 0
	for e, err := range s.Scan(keys) {
		if err != nil {
			return "", err
		}
		if looked++; looked > maxShort {
			break
		}
		other := string(e.Key[len(prefix):])
		if !strings.HasSuffix(other, tail) || len(other) < len(head)+len(tail) || !keep(other) {
			continue
		}
		if id != "" {
			return "", message.Errorf(422, "The short id %s stands for %s and for %s, and maybe for others; give the whole id", message.Clip(text, 64), other, id)
		}
		id = other
	}
	return id, nil
}
