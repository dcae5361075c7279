package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"kernos/capability/model/modeltest"
	"kernos/internal/exit"
	"kernos/internal/testkit/tty"
)

// TestPartsOfAChat tries what a chat takes from elsewhere: decisions that stay, agents, skills, large files.
func TestPartsOfAChat(t *testing.T) {
	talks := newTalks(t)
	for uri, text := range map[string]string{
		"os://agents/writer.md": "---\ndescription: Writes.\ntools: [Echo]\n---\nYou write in rhymes.",
		"os://skills/rhyme.md":  "---\ndescription: How to rhyme.\n---\nRhyme the last words.",
	} {
		talks.house.must("", "vfs", "write", uri, "content="+text)
	}
	fetch := modeltest.Answer{Calls: []modeltest.Call{{Name: "Http.Fetch", Args: `{"url":"http://127.0.0.1:1/"}`}}}
	t.Run("what is typed while a question comes answers nothing", func(t *testing.T) {
		x := talks.chat(t, 80, 40)
		x.idle()
		x.Submit("think")
		x.Until("> think\n")
		x.Type("and read")
		x.Edits("> and read")
		x.answers <- fetch
		x.Until("Allow Http.Fetch? It is asked when the line below is empty\n> and read")
		x.Type(" a dawn")
		x.Edits("> and read a dawn")
		x.Type(tty.Enter)
		x.Until("queued: and read a dawn", question)
		x.answers <- modeltest.Answer{Text: "So I don't."}
		x.answers <- modeltest.Answer{Text: "A dawn."}
		x.Type("d")
		x.Until("    denied", "So I don't.\n\n> and read a dawn\n\nA dawn.\n\n"+ready)
		x.leave()
	})
	t.Run("w allows a syscall in all sessions", func(t *testing.T) {
		x := talks.chat(t, 80, 40)
		x.idle()
		x.answers <- fetch
		x.Submit("fetch it")
		x.Until(question)
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
		x.Submit("read @large.txt")
		x.Until("[file large.txt]", "I have read all of it.")
		x.idle()
		x.leave()
	})
}

// TestAChatWithoutItsServer kills the server in the middle of a turn: the chat finds the next one, which goes on.
func TestAChatWithoutItsServer(t *testing.T) {
	talks := newTalks(t)
	talks.house.must("", "stop")
	server := talks.house.serve()
	x := talks.chat(t, 80, 24)
	x.idle()
	x.answers <- modeltest.Answer{Text: "The first half of it, and no more.", Hold: make(chan struct{})}
	x.answers <- modeltest.Answer{Text: "The whole answer, once."}
	x.Submit("tell me")
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

// TestAStoppedDaemonStaysStopped stops the daemon while chats and commands wait or repeat a query: none of them starts it again.
func TestAStoppedDaemonStaysStopped(t *testing.T) {
	talks := newTalks(t)
	h := talks.house
	x := talks.chat(t, 80, 24)
	x.idle()
	x.answers <- modeltest.Answer{Calls: []modeltest.Call{{Name: "Http.Fetch", Args: `{"url":"http://127.0.0.1:1/"}`}}}
	x.Submit("fetch")
	x.Until(question)
	watch := h.command("job", "list", "-w")
	shown, err := watch.StdoutPipe()
	if err := errors.Join(err, watch.Start()); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(shown).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	h.must("", "stop")
	if err := watch.Wait(); err == nil || watch.ProcessState.ExitCode() != exit.Unreachable {
		t.Errorf("a repeated query without a daemon ends with %v", err)
	}
	x.Until("no daemon is running; kernos serve starts one")
	if _, _, running := h.daemon(); running {
		t.Error("the daemon runs again")
	}
	h.must("", "memory", "set", "k", "--value", "1") // a new command starts it
	if _, _, running := h.daemon(); !running {
		t.Error("no daemon runs")
	}
	x.leave()
}

// An agent that waits for an approval is left waiting, and the command names what asks about it.
func TestAnAgentThatWaitsForAnApproval(t *testing.T) {
	talks := newTalks(t)
	talks.answers <- modeltest.Answer{Calls: []modeltest.Call{{Name: "Http.Fetch", Args: `{"url":"http://127.0.0.1:1/"}`}}}
	_, notes, status := talks.house.run("", "agent", "ask", "fetch it")
	hint := regexp.MustCompile(`Http\.Fetch needs an approval \(.*\), and the turn waits for it; kernos chat --resume (\w+) asks about it`).FindStringSubmatch(notes)
	if status != exit.Forbidden || hint == nil {
		t.Fatalf("status %d: %s", status, notes)
	}
	talks.answers <- modeltest.Answer{Text: "Then not."}
	x := talks.chat(t, 80, 24, "--resume", hint[1])
	x.Until(question)
	x.Type("d")
	x.Until("Then not.")
	x.idle()
	x.leave()
}

// TestTheOfferOfAKey answers the offer to seal a key in every way. The key itself is kept nowhere.
func TestTheOfferOfAKey(t *testing.T) {
	const key = "sk-0123456789abcdef"
	provider := modeltest.Serve(t, modeltest.Answer{Text: "I am connected."})
	h := newHouse(t)
	h.env = append(h.env, "OPENAI_API_KEY="+key, "OPENAI_BASE_URL="+provider.URL+"/v1/")
	x := &talk{t: t, house: h, dir: t.TempDir()}
	offered := func() *talk {
		t.Helper()
		one := x.chat(t, 60, 30)
		one.Until("OPENAI_API_KEY is set. Seal this key for " + strings.TrimPrefix(provider.URL, "http://") + ",\nand connect gpt-5-mini? [y/N]")
		return one
	}
	for _, left := range []struct {
		by     string
		status int
	}{{tty.CtrlC, exit.Interrupted}, {tty.CtrlD, 0}} {
		one := offered()
		one.Type(left.by)
		if status := one.Wait(); status != left.status {
			t.Errorf("%q: status %d:\n%s", left.by, status, one.Screen())
		}
	}
	refused := offered()
	refused.Type("n" + tty.Enter)
	refused.Until("The model demo answers")
	refused.idle()
	refused.Type("/quit" + tty.Enter)
	refused.Wait()
	if out, notes, _ := h.run("", "model", "list", "--jq", ".models[].name"); out != "demo\n" {
		t.Errorf("without a yes there are %s%s", out, notes)
	}
	accepted := offered()
	accepted.Type("y" + tty.Enter)
	accepted.Until("openai answers; /help lists the commands.")
	accepted.idle()
	accepted.Submit("who are you?")
	accepted.Until("I am connected.")
	accepted.idle()
	accepted.leave()
	if _, notes, status := h.run("", "stop"); status != 0 {
		t.Error(notes)
	}
	h.lacks(key)
	out, _, _ := h.run("", "log", "--json", "-n", "1000")
	if !strings.Contains(out, "Model.Add") || strings.Contains(out, key) {
		t.Errorf("the log is\n%s", out)
	}
}

// TestAChatElsewhere talks with the kernel of a context over a network that fails in the middle of a turn.
func TestAChatElsewhere(t *testing.T) {
	talks := newTalks(t)
	near := newHouse(t)
	talks.house.must("", "stop")
	talks.house.env = append(talks.house.env, "KERNOS_NO_HTTP=false")
	talks.house.serve("--addr", "127.0.0.1:0")
	network := newNetwork(t, talks.house.reached()["http"])
	near.addContext("far", talks.house, network.address(), "--preset", "agent", "--allow", "Session.*", "--allow", "Model.List")
	here := *talks
	here.house = near
	x := here.chat(t, 80, 30, "--context", "far")
	x.idle()
	hold := make(chan struct{})
	x.answers <- modeltest.Answer{Text: "The first half of it and the other half of it.", Hold: hold}
	x.Submit("tell me")
	x.Until("The first half")
	network.cut()
	close(hold)
	x.Until("The first half of it and the other half of it.")
	x.idle()
	if n := strings.Count(x.Screen(), "The first half"); n != 1 {
		t.Errorf("the answer is there %d times:\n%s", n, x.Screen())
	}
	network.cut()
	x.says("and now", modeltest.Answer{Text: "That was all."})
	x.leave()
}

// A network carries the connections to an address, until they are cut.
type network struct {
	net.Listener
	mu   sync.Mutex
	open []net.Conn
}

func newNetwork(t *testing.T, to string) *network {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &network{Listener: l}
	t.Cleanup(func() {
		_ = l.Close()
		n.cut()
	})
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			n.mu.Lock()
			n.open = append(n.open, in, out)
			n.mu.Unlock()
			for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					_, _ = io.Copy(way[0], way[1])
					_, _ = way[0].Close(), way[1].Close()
				}()
			}
		}
	}()
	return n
}

func (n *network) address() string { return n.Addr().String() }

// cut ends all connections.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.open {
		_ = c.Close()
	}
	n.open = nil
}
