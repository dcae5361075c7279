package content

import "testing"

// Clauses: H20-5.3-13
func TestATextThatOnlyBeginsLikeAList(t *testing.T) {
	for _, test := range []struct{ text, description string }{
		{"argument-hint: [a] [b]\ndescription: D\n", "D"},
		{"description: [Beta] makes {x} # soon\nname: N\n", "[Beta] makes {x}"},
		{"description: a: b\nargument-hint: [a]\ntools: [x,\n  y]\n", "a: b"},
	} {
		f, err := parseFields(test.text)
		if err != nil || f.description != test.description || !f.repaired {
			t.Errorf("%q: %+v, %v", test.text, f, err)
		}
	}
}
