package content

import (
	"encoding/json"
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
)

func TestSearchFindsSkillsAndAgents(t *testing.T) {
	files := library()
	files["skills/tax/SKILL.md"] = "---\nname: tax\ndescription: Computes what a company owes to the government\n---\n"
	files["agents/cook.md"] = "---\nname: cook\ndescription: Plans meals and writes recipes\n---\nYou cook."
	dir, _ := directory(t, files)
	k := kerneltest.Of(t, &kernel.Options{Blobs: kerneltest.NewBlobs(t)}, New(dir, nil).Module())
	for data, want := range map[string]string{
		`{"query":"pdf"}`: "os://skills/pdf/SKILL.md", `{"query":"dinner ideas"}`: "os://agents/cook.md", `{"query":"finance","uri":"os://skills"}`: "os://skills/tax/SKILL.md",
		`{"query":"dinner ideas","mode":"words"}`: "", `{"query":"recipes","uri":"os://skills","mode":"words"}`: "",
	} {
		reply := call(t, k, "Content.Search", data)
		var out searchOutput
		if err := json.Unmarshal(reply.Data, &out); err != nil || reply.Kind != "reply" {
			t.Fatalf("%s: %s", data, reply.Data)
		}
		got := ""
		if len(out.Hits) > 0 {
			got = out.Hits[0].URI
		}
		if got != want {
			t.Errorf("%s: got %s", data, reply.Data)
		}
	}
	if reply := call(t, k, "Content.Search", `{"query":"pdf","uri":"os://nowhere"}`); !strings.Contains(string(reply.Data), `"code":404`) {
		t.Errorf("got %s", reply.Data)
	}
}
