//go:build shells

// These tests need zsh and fish, which are not everywhere:
//
//	go test -tags shells -run Completion ./cmd/kernos
package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// known returns a house where something was called before, so that there is something to
// complete.
func known(t *testing.T) *house {
	h := newCaller(t)
	for _, args := range [][]string{
		{"memory", "set", "--key", "notes/1", "--value", "milk"},
		{"memory", "set", "--key", "two words:a=b", "--value", "milk"},
		{"vfs", "read", "--uri", "os://greeting.md"},
		{"context", "add", "office", "ws://127.0.0.1:1/"},
	} {
		h.must("", args...)
	}
	return h
}

// pressTabs is a script for zsh that types its arguments at another zsh, each with a tab
// behind it, and writes the result to the file $LINES_FILE.
const pressTabs = `
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; autoload -Uz compinit; compinit -u -D; source <(kernos completion zsh); setopt no_auto_menu no_beep
take() { print -r -- "$BUFFER" >> $LINES_FILE; BUFFER=; }; zle -N take; bindkey "^T" take
zle-line-init() { print -n READY; }; zle -N zle-line-init'
zpty -r shell seen '*READY*'
for line in "$@"; do
    zpty -n -w shell "$line"$'\t\x14'
done
zpty -w shell 'exit'
while zpty -r shell seen; do :; done
`

func TestCompletionInZsh(t *testing.T) {
	h := known(t)
	file := filepath.Join(t.TempDir(), "lines")
	cases := [][2]string{
		{"kernos mem", "kernos memory "},
		{"kernos memory s", "kernos memory set "},
		{"kernos memory set --valueRef.s", "kernos memory set --valueRef.scheme "},
		{"kernos memory set --valueRef.scheme h", "kernos memory set --valueRef.scheme https "},
		{"kernos memory set --valueRef.scheme=h", "kernos memory set --valueRef.scheme=https "},
		{"kernos memory set a", "kernos memory set as="},
		{"kernos memory set as=j", "kernos memory set as=json "},
		{"kernos memory get --key no", "kernos memory get --key notes/1 "},
		{"kernos memory get --key=two", `kernos memory get --key=two\ words:a=b `},
		{"kernos memory get key=no", "kernos memory get key=notes/1 "},
		{"kernos memory get -- no", "kernos memory get -- notes/1 "},
		{"kernos vfs read --uri os", "kernos vfs read --uri os://greeting.md "},
		{"kernos vfs read uri=os://g", "kernos vfs read uri=os://greeting.md "},
		{"kernos memory get --output=t", "kernos memory get --output=table "},
		{"kernos context use of", "kernos context use office "},
		{"kernos call Memory.G", "kernos call Memory.Get "},
		{"kernos help memory g", "kernos help memory get "},
		{"kernos memory set value=@completion.b", "kernos memory set value=@completion.bash "},
	}
	args := []string{"-f", "-c", pressTabs, "zsh"}
	var want strings.Builder
	for _, c := range cases {
		args = append(args, c[0])
		want.WriteString(c[1] + "\n")
	}
	zsh := exec.Command("zsh", args...)
	zsh.Env = append(h.env, "LINES_FILE="+file, "TERM=dumb")
	if out, err := zsh.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != want.String() {
		t.Errorf("%v: got\n%swant\n%s", err, got, want.String())
	}
}

func TestCompletionInFish(t *testing.T) {
	h := known(t)
	cases := [][2]string{
		{"kernos mem", "memory"},
		{"kernos memory ", "delete,get,history,list,set"},
		{"kernos memory set --valueRef.s", "--valueRef.scheme"},
		{"kernos memory set --valueRef.scheme ", "data,file,https"},
		{"kernos memory set --valueRef.scheme=h", "--valueRef.scheme=https"},
		{"kernos memory set as=", "as=json,as=text"},
		{"kernos memory get --key no", "notes/1"},
		{"kernos memory get --key two", "two words:a=b"},
		{"kernos memory get key=no", "key=notes/1"},
		{"kernos memory get -- no", "notes/1"},
		{"kernos vfs read uri=os://g", "uri=os://greeting.md"},
		{"kernos memory get --output=t", "--output=table"},
		{"kernos context use ", "local,office"},
		{"kernos call Memory.G", "Memory.Get"},
		{"kernos help memory g", "get"},
		{"kernos memory set value=@completion.b", "value=@completion.bash"},
	}
	args := []string{"--no-config", "-c", `kernos completion fish | source; for line in $argv; complete -C $line | string split -f1 \t | string join ,; end; true`}
	var want strings.Builder
	for _, c := range cases {
		args = append(args, c[0])
		want.WriteString(c[1] + "\n")
	}
	fish := exec.Command("fish", args...)
	fish.Env = h.env
	var notes bytes.Buffer
	fish.Stderr = &notes
	if got, err := fish.Output(); err != nil || string(got) != want.String() {
		t.Errorf("%v: %s: got\n%swant\n%s", err, notes.String(), got, want.String())
	}
}
