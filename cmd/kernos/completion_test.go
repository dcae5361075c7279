package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"kernos/internal/testkit/tool"
)

// tabs is a script that presses the tab key at the end of command lines. Each is given as it
// was typed, and then as bash splits it, with unit separators in between. What could stand
// there is written to a line.
const tabs = `
source <(kernos completion bash) || exit 1
while IFS= read -r line; do
    IFS=$'\x1f' read -r -d $'\x1e' -a COMP_WORDS < <(printf '%s\x1e' "${line#*$'\x1f'}")
    COMP_LINE=${line%%$'\x1f'*}
    [[ $COMP_LINE == *' ' ]] && COMP_WORDS+=('')
    COMP_POINT=${#COMP_LINE}
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMP_TYPE=9
    COMPREPLY=()
    "$(complete -p kernos | sed 's/.*-F \([^ ]*\).*/\1/')" kernos "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}" 2>/dev/null
    (IFS=,; printf '%s\n' "${COMPREPLY[*]}")
done
`

// TestCompletionInBash runs the script in a bash that has nothing else.
func TestCompletionInBash(t *testing.T) {
	h := newCaller(t)
	for _, args := range [][]string{
		{"memory", "set", "--key", "notes/1", "--value", "milk"},
		{"memory", "set", "--key", "notes/two words", "--value", "milk"},
		{"memory", "set", "--key", "urn:a:b", "--value", "milk"},
		{"context", "add", "office", "ws://127.0.0.1:1/"},
	} {
		h.must("", args...)
	}
	cases := []struct {
		line string // as bash splits it, with a bar where there is no blank
		want string
	}{
		{"kernos mem", "memory"},
		{"kernos do", "docs,doctor"},
		{"kernos memory ", "delete,get,history,increment,list,restore,search,set"},
		{"kernos memory s", "search,set"},
		{"kernos memory set --valueRef.s", "--valueRef.scheme"},
		{"kernos memory set --t", "--ttl,--template,--timeout"},
		{"kernos memory set a", "as="},
		{"kernos memory set --valueRef.scheme ", "file,https,data"},
		{"kernos memory set --valueRef.scheme h", "https"},
		{"kernos memory set --valueRef.scheme|=|h", "https"},
		{"kernos memory set --valueRef.scheme|=", "file,https,data"},
		{"kernos memory set as|=|j", "json"},
		{"kernos memory get --key notes/1", "notes/1"},
		{"kernos memory get --key no", "notes/1,notes/two words"},
		{"kernos memory get --key notes/t", `notes/two\ words`},
		{"kernos memory get key|=|notes/1", "notes/1"},
		{"kernos memory get -- notes/1", "notes/1"},
		{"kernos memory get --key ur", "urn:a:b"},
		{"kernos memory get --key urn|:|a|:", "b"},
		{"kernos memory get key|=|urn|:|a", "a:b"},
		{"kernos memory get --output ", "pretty,json,ndjson,raw,table"},
		{"kernos memory get --output|=|t", "table"},
		{"kernos memory get --context o", "office"},
		{"kernos --context office mem", ""}, // it wasn't asked yet
		{"kernos context use ", "local,office"},
		{"kernos call Memory.G", "Memory.Get"},
		{"kernos help memory g", "get"},
		{"kernos memory set value|=@|completion.b", "@completion.bash"},
		{"kernos memory set --data @|testd", "@testdata/"},
	}
	var typed strings.Builder
	for _, c := range cases {
		words := strings.NewReplacer(" ", "\x1f", "|", "\x1f").Replace(strings.TrimRight(c.line, " "))
		typed.WriteString(strings.ReplaceAll(c.line, "|", "") + "\x1f" + words + "\n")
	}
	tool.Need(t, "bash")
	bash := exec.Command("bash", "--norc", "--noprofile", "-c", tabs)
	bash.Env = h.env
	var notes bytes.Buffer
	bash.Stdin, bash.Stderr = strings.NewReader(typed.String()), &notes
	said, err := bash.Output()
	lines := strings.Split(strings.TrimSuffix(string(said), "\n"), "\n")
	if err != nil || notes.Len() > 0 || len(lines) != len(cases) {
		t.Fatalf("%v: %s%s", err, said, notes.String())
	}
	for i, c := range cases {
		if lines[i] != c.want {
			t.Errorf("%s: got %q, want %q", c.line, lines[i], c.want)
		}
	}
	// None of it has started a daemon, or needs one.
	h.must("", "stop")
	out, _, _ := h.run("", "__complete", "memory", "s")
	if _, _, running := h.daemon(); running || !strings.HasPrefix(out, "search\t") {
		t.Errorf("a daemon runs: %t: %s", running, out)
	}
}
