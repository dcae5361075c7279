package message_test

import (
	"regexp"
	"strings"
	"testing"

	"kernos/message"
)

func TestTypeIsDomainAndActionInPascalCase(t *testing.T) {
	for _, test := range []struct {
		name  message.Type
		valid bool
	}{
		// The examples of the specification.
		{"Memory.Get", true}, {"Http.Fetch", true}, {"Crypto.Seal", true}, {"Job.Completed", true}, {"Syscall.Describe", true},
		{"memory.get", false}, {"MemoryGet", false}, {"Memory.get", false},

		{"Echo", true}, {"Ping", true}, // the kernel owns these two
		{"ping", false}, {"Pong", false}, {"Echo.", false}, {".Echo", false},
		{"A.B", true}, {"VFS.Read", true}, {"Job.TreeCreate2", true}, {"A1.B2", true},
		{"", false}, {".", false}, {"A.", false}, {".B", false}, {"A.B.C", false}, {"A..B", false}, {"1A.B", false}, {"A.1B", false},
		{"A_b.C", false}, {"A-b.C", false}, {"A b.C", false}, {"A.B ", false}, {" A.B", false}, {"A.B\n", false}, {"A/B", false},
		{"Ä.B", false}, {"A.Bé", false}, {"А.В", false}, {"A\x00.B", false}, {"A.B[", false}, {"A.B`", false}, {"A@.B", false}, {"A.B{", false}, {"A.B:", false},
		{message.ValidationFailed, true},
		{message.Type("A." + strings.Repeat("B", 126)), true},
		{message.Type("A." + strings.Repeat("B", 127)), false},
	} {
		if got := test.name.Valid(); got != test.valid {
			t.Errorf("Type(%q).Valid() = %v", test.name, got)
		}
	}
}

// The pattern of the specification, section 4.4.1, is the judge for every byte.
func TestTypeAgreesWithThePatternForEveryByte(t *testing.T) {
	pattern := regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*\.[A-Z][a-zA-Z0-9]*\z`)
	for c := range 256 {
		for _, name := range []string{
			string([]byte{byte(c)}) + ".B", "A" + string([]byte{byte(c)}) + ".B", "A." + string([]byte{byte(c)}), "A.B" + string([]byte{byte(c)}), "A" + string([]byte{byte(c)}) + "B",
		} {
			if got, want := message.Type(name).Valid(), pattern.MatchString(name); got != want {
				t.Errorf("Type(%q).Valid() = %v, the pattern says %v", name, got, want)
			}
		}
	}
}

func TestDomainAndActionAreTheTwoSides(t *testing.T) {
	for _, test := range []struct {
		name           message.Type
		domain, action string
	}{{"Memory.Get", "Memory", "Get"}, {"Ping", "", "Ping"}, {"Echo", "", "Echo"}} {
		if test.name.Domain() != test.domain || test.name.Action() != test.action {
			t.Errorf("%s has domain %q and action %q", test.name, test.name.Domain(), test.name.Action())
		}
	}
}

func TestRepairGuessesTheTypeThatWasMeant(t *testing.T) {
	for _, test := range []struct {
		name string
		want message.Type
	}{
		{"memory.get", "Memory.Get"}, {"memory_get", "Memory.Get"}, {"memory/get", "Memory.Get"}, {"memory-get", "Memory.Get"},
		{"memory:get", "Memory.Get"}, {"memory get", "Memory.Get"}, {"Memory.get", "Memory.Get"}, {"Memory..Get", "Memory.Get"},
		{"/memory/get/", "Memory.Get"}, {"job_tree_create", "Job.TreeCreate"}, {"vFS.read", "VFS.Read"}, {"Memory.Get.", "Memory.Get"},
		{"ping", "Ping"}, {"echo", "Echo"}, {"Ping.", "Ping"},

		{"Memory.Get", ""}, // it is one already
		{"Ping", ""}, {"", ""}, {"...", ""}, {"pong", ""}, {"memoryget", ""}, {"1.2", ""}, {"é.a", ""}, {"a.é", ""}, {"\xFF.a", ""}, {"a!.b", ""},
		{"a." + strings.Repeat("b", 126), message.Type("A.B" + strings.Repeat("b", 125))},
		{"a." + strings.Repeat("b", 127), ""},
	} {
		got := message.Repair(test.name)
		if got != test.want {
			t.Errorf("Repair(%q) = %q, want %q", test.name, got, test.want)
		}
		if got != "" && !got.Valid() {
			t.Errorf("Repair(%q) = %q, which is no type", test.name, got)
		}
	}
}
