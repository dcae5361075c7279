package mark_test

import (
	"testing"

	"kernos/message"
	"kernos/message/mark"
)

// Each kind has a mark of its own, which differs from those of the others in all that is shown somewhere.
func TestKindsDiffer(t *testing.T) {
	seen := map[string]message.Kind{mark.Claim: ""}
	for _, kind := range []message.Kind{message.KindCommand, message.KindQuery, message.KindEvent, message.KindReply, message.KindError} {
		m := mark.Of[kind]
		for _, part := range []string{m.Sign, m.Light, m.Dark, m.Fill, m.Terminal} {
			if other, ok := seen[part]; ok || part == "" {
				t.Errorf("%q is of %s, and of %s", part, other, kind)
			}
			seen[part] = kind
		}
	}
}
