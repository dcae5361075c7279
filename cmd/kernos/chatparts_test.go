package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/capability/model/modeltest"
	"kernos/internal/testkit/tty"
)

// TestPartsOfAChat tries what a chat takes from elsewhere: decisions that stay, agents, skills, large files.
func TestPartsOfAChat(t *testing.T) {
	talks := newTalks(t)
	for uri, text := range map[string]string{
		"os://agents/writer.md": "---\ndescription: Writes.\ntools: [Echo]\n---\nYou write in rhymes.",
		"os://skills/rhyme.md":  "---\ndescription: How to rhyme.\n---\nRhyme the last words.",
	} {
		if _, notes, status := talks.house.run("", "vfs", "write", uri, "content="+text); status != 0 {
			t.Fatal(notes)
		}
	}
	fetch := modeltest.Answer{Calls: []modeltest.Call{{Name: "Http.Fetch", Args: `{"url":"http://127.0.0.1:1/"}`}}}
	t.Run("w allows a syscall in all sessions", func(t *testing.T) {
		x := talks.chat(t, 80, 40)
		x.idle()
		x.answers <- fetch
		x.Type("fetch it" + tty.Enter)
		x.Until("Allow Http.Fetch?")
		x.answers <- modeltest.Answer{Text: "It isn't there."}
		x.Type("w")
		x.Until("allowed always", "It isn't there.")
		x.idle()
		x.leave()
		y := talks.chat(t, 80, 40)
		y.says("fetch it again", fetch, modeltest.Answer{Text: "Still not."})
		if strings.Contains(y.Screen(), "needs an approval") {
			t.Errorf("it asks again:\n%s", y.Screen())
		}
		y.leave()
	})
	t.Run("an agent, and the completion of skills", func(t *testing.T) {
		x := talks.chat(t, 80, 40, "--agent", "os://agents/writer.md")
		x.says("hello", modeltest.Answer{Text: "Hello, my fellow."})
		x.command("/tools", "Echo  Return a message unchanged.")
		x.Type("read os://skills/rh" + tty.Tab)
		x.Until("> read os://skills/rhyme.md")
		x.Type(tty.CtrlC)
		x.idle()
		session := x.leave()
		if out, notes, _ := talks.house.run("", "session", "get", session, "--jq", ".agent.uri"); out != "os://agents/writer.md\n" {
			t.Errorf("the agent is %s%s", out, notes)
		}
	})
	t.Run("a large file", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(talks.dir, "large.txt"), []byte(strings.Repeat("a long text ", 50_000)), 0o600); err != nil {
			t.Fatal(err)
		}
		x := talks.chat(t, 80, 40)
		x.idle()
		x.answers <- modeltest.Answer{Text: "I have read all of it."}
		x.Type("read @large.txt" + tty.Enter)
		x.Until("[file large.txt]", "I have read all of it.")
		x.idle()
		x.leave()
	})
}

// TestAChatWithoutItsServer kills the server in the middle of a turn: the chat finds the next one, which goes on.
func TestAChatWithoutItsServer(t *testing.T) {
	talks := newTalks(t)
	if _, notes, status := talks.house.run("", "stop"); status != 0 {
		t.Fatal(notes)
	}
	server := talks.house.serve()
	x := talks.chat(t, 80, 24)
	x.idle()
	x.answers <- modeltest.Answer{Text: "The first half of it, and no more.", Hold: make(chan struct{})}
	x.answers <- modeltest.Answer{Text: "The whole answer, once."}
	x.Type("tell me" + tty.Enter)
	x.Until("The first half")
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.wait()
	talks.house.serve()
	x.Until("The whole answer, once.")
	x.idle()
	if n := strings.Count(x.Screen(), "The whole answer"); n != 1 {
		t.Errorf("the answer is there %d times:\n%s", n, x.Screen())
	}
	x.leave()
}
