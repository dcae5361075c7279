package nearest_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/agnivade/levenshtein"

	"kernos/internal/nearest"
)

func TestNamesFindsWhatWasMeantNearestFirst(t *testing.T) {
	all := []string{"Memory.Set", "Memory.Get", "Memory.List", "Memory.Delete", "Ping", "Echo", "Http.Fetch", "VFS.Read"}
	for _, test := range []struct {
		name       string
		candidates []string
		want       []string
	}{
		{"Memory.Gett", all, []string{"Memory.Get"}},
		{"Memory.Xet", all, []string{"Memory.Get", "Memory.Set"}},
		{"Syscall.Lst", []string{"Syscall.List", "Syscall.Test"}, []string{"Syscall.List"}},

		// Case and punctuation don't count, and a name that differs in nothing else is the one.
		{"memory.get", all, []string{"Memory.Get"}},
		{"MEMORY_GET", all, []string{"Memory.Get"}},
		{"vfs/read", all, []string{"VFS.Read"}},
		{"echos", all, []string{"Echo"}},
		{"Pnig", all, []string{"Ping"}},
		{"Pin", all, []string{"Ping"}},
		{"Http.Fecth", all, []string{"Http.Fetch"}},
		{"Something.Else", all, []string{}},
		{"", all, []string{}},
		{"Memory.Get", nil, []string{}},

		// No more than three; those that are equally near in order of their names.
		{"Bat", []string{"Vat", "Rat", "Cat", "Hat"}, []string{"Cat", "Hat", "Rat"}},
		// One letter may be wrong in a short name, or two swapped; a third of a long one, and no more.
		{"abcd", []string{"abxd", "abxy", "axyz"}, []string{"abxd"}},
		{"abdc", []string{"abcd", "abxy"}, []string{"abcd"}},
		{"data", []string{"at", "every", "name"}, []string{}},
		// A name that shares no letter is not near, however short it is. Of two letters, one may be wrong.
		{"ab", []string{"xy", "ay"}, []string{"ay"}},
		{"os", []string{"job"}, []string{}},
		// A name that is given twice is one name.
		{"tokn", []string{"token", "job", "token"}, []string{"token"}},
		{"abcdefghijkl", []string{"wxyzefghijkl", "vwxyzfghijkl"}, []string{"wxyzefghijkl"}},
		{"abcdefghijkl", []string{"abcdefgh", "abcdefg", "abcdefghijklmnop", "abcdefghijklmnopq"}, []string{"abcdefgh", "abcdefghijklmnop"}},
	} {
		got := nearest.Names(test.name, test.candidates)
		if !slices.Equal(got, test.want) {
			t.Errorf("Names(%q) = %q, want %q", test.name, got, test.want)
		}
	}
}

func TestNamesLeavesTheCandidatesAsTheyAre(t *testing.T) {
	all := []string{"b", "a", "c"}
	nearest.Names("a", all)
	if !slices.Equal(all, []string{"b", "a", "c"}) {
		t.Errorf("they became %q", all)
	}
}

func TestHintAsksOnlyWhenThereIsSomethingToAsk(t *testing.T) {
	for _, test := range []struct{ name, want string }{
		{"Memory.Gat", "did you mean Memory.Get?"},
		{"Memory.Xet", "did you mean Memory.Get or Memory.Set?"},
		{"Nothing.LikeIt", ""},
	} {
		candidates := []string{"Memory.Get", "Memory.Set"}
		if test.name == "Memory.Gat" {
			candidates = candidates[:1]
		}
		if got := nearest.Hint(test.name, candidates); got != test.want {
			t.Errorf("Hint(%q) = %q, want %q", test.name, got, test.want)
		}
	}
}

func TestBestGuessesWhereNamesDoesNot(t *testing.T) {
	methods := []string{"node_append", "tree_create", "tree_delete", "tree_get"}
	for name, want := range map[string]string{"tree_destory": "tree_delete", "tree_gte": "tree_get", "TREE_GET": "tree_get", "defragment": "", "": ""} {
		if got := nearest.Best(name, methods); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

// Names is as if the distance of each candidate were computed: what it passes over is too far in any order of the letters.
func TestNamesPassesOverNothingThatIsNear(t *testing.T) {
	const name = "memory.get"
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		near := []byte(name)
		for range 3 { // a third of the letters, and "." doesn't count
			switch i := random.IntN(len(near)); random.IntN(3) {
			case 0:
				near[i] = byte('a' + random.IntN(26))
			case 1:
				near = slices.Insert(near, i, byte('a'+random.IntN(26)))
			default:
				near = slices.Delete(near, i, i+1)
			}
		}
		if d := levenshtein.ComputeDistance("memoryget", strings.ReplaceAll(string(near), ".", "")); d <= 3 && len(nearest.Names(name, []string{string(near)})) != 1 {
			t.Errorf("%s is at distance %d of %s, and isn't named", near, d, name)
		}
	}
}
