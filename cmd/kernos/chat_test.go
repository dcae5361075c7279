package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kernos/capability/model/modeltest"
	"kernos/cmd/kernos/chat"
	"kernos/internal/testkit/tty"
)

// A talk is kernos chat on a terminal, with a provider that says what the test wants.
type talk struct {
	*tty.Terminal
	t       *testing.T
	house   *house
	answers chan modeltest.Answer
	dir     string
}

// newTalks returns a house whose default model gives the answers that are sent to the channel.
func newTalks(t *testing.T) *talk {
	answers := make(chan modeltest.Answer, 16)
	provider := modeltest.ServeFunc(t, func(string, []byte) modeltest.Answer { return <-answers })
	x := &talk{t: t, house: newHouse(t), answers: answers, dir: t.TempDir()}
	if out, notes, status := x.house.run("", "trust", x.dir); status != 0 {
		t.Fatal(out, notes)
	}
	for _, setting := range []string{"default", "other"} {
		if out, notes, status := x.house.run("", "memory", "set", "models/"+setting, "value:="+provider.Settings(modeltest.OpenAI, "")); status != 0 {
			t.Fatal(out, notes)
		}
	}
	return x
}

// chat starts kernos chat on a terminal.
func (x *talk) chat(t *testing.T, columns, rows int, args ...string) *talk {
	t.Helper()
	c := x.house.command(append([]string{"chat"}, args...)...)
	c.Dir = x.dir
	c.Env = append(c.Env, "TERM=xterm-256color")
	one := *x
	one.t, one.Terminal = t, tty.Start(t, c, columns, rows)
	return &one
}

// ready is what the editor shows while it is empty and the model waits for the person. After a line that was
// sent by Submit, it is shown when the turn has ended and all of it is printed.
const ready = "> a message, /help, @file"

// question is an approval that a key answers.
const question = "Allow Http.Fetch?\na allow · s session · w always · d deny · e edit · ? why"

// idle waits until the model waits for the person.
func (x *talk) idle() {
	x.t.Helper()
	x.Until(ready)
}

// says sends an input, to which the model gives these answers, and waits until the turn has ended.
func (x *talk) says(text string, answers ...modeltest.Answer) {
	x.t.Helper()
	x.idle()
	for _, a := range answers {
		x.answers <- a
	}
	x.Submit(text)
	x.Until("> "+text+"\n\n", ready)
}

// command types a command, and waits until it has shown each of these.
func (x *talk) command(text string, shown ...string) {
	x.t.Helper()
	x.idle()
	x.Submit(text)
	x.Until(shown...)
	x.idle()
}

// leave ends the chat, and returns the session.
func (x *talk) leave() string {
	x.t.Helper()
	x.Type(tty.CtrlD)
	if status := x.Wait(); status != 0 {
		x.t.Errorf("status %d: %s", status, x.Screen())
	}
	found := regexp.MustCompile(`--resume\s+(\w{26})`).FindStringSubmatch(x.Screen())
	if found == nil {
		x.t.Fatalf("it doesn't say how to come back:\n%s", x.Screen())
	}
	return found[1]
}

const recipe = "Here is **how** to make a good cup of tea for a long afternoon:\n\n1. boil `water`\n2. pour\n\n```\nkettle --on\n```\n\n| what | how much |\n|---|---|\n| tea | a spoon |\n\nSee [the book](https://example.com/tea)."

func TestChat(t *testing.T) {
	talks := newTalks(t)
	t.Run("a reply streams, and its Markdown is rendered", func(t *testing.T) {
		x := talks.chat(t, 60, 40)
		x.idle()
		hold := make(chan struct{})
		x.answers <- modeltest.Answer{Text: recipe, Hold: hold}
		x.Submit("how is tea made?")
		x.Until("> how is tea made?", "Here is how to make a good cup of tea for a long afternoon:\n\n1. boil water")
		if strings.Contains(x.Screen(), "the book") {
			t.Errorf("it didn't stream:\n%s", x.Screen())
		}
		close(hold)
		x.idle()
		want := `> how is tea made?

Here is how to make a good cup of tea for a long afternoon:

1. boil water
2. pour

    kettle --on

what │how much
─────┼─────────
tea  │a spoon

See the book (https://example.com/tea).

> a message, /help, @file
default · `
		if got := x.Screen(); !strings.Contains(got, want) {
			t.Errorf("got\n%s", got)
		}
		if !strings.Contains(x.Output(), "\x1b[1mhow\x1b[") || !strings.Contains(x.Output(), "\x1b[36mwater\x1b[") {
			t.Errorf("there are no styles: %q", x.Output())
		}
		x.leave()
	})
	t.Run("no colour, and Markdown as it is written", func(t *testing.T) {
		colours := regexp.MustCompile(`\x1b\[[0-9;]+m`)
		for _, c := range []struct {
			args []string
			want string
		}{{nil, "Here is **how** to make a good cup of tea for a long\nafternoon:\n\n1. boil `water`\n2. pour\n\n    kettle --on\n"}, {[]string{"--plain"}, "1. boil `water`\n2. pour\n\n```\nkettle --on\n```\n"}} {
			bare := *talks
			house := *talks.house
			house.env = append(house.env[:len(house.env):len(house.env)], "NO_COLOR=1")
			bare.house = &house
			x := bare.chat(t, 56, 40, c.args...)
			x.says("tea?", modeltest.Answer{Text: recipe})
			if !strings.Contains(x.Screen(), c.want) {
				t.Errorf("%v: got\n%s\nwant\n%s", c.args, x.Screen(), c.want)
			}
			if found := colours.FindString(x.Output()); found != "" {
				t.Errorf("%v: there is %q", c.args, found)
			}
			x.leave()
		}
	})
	t.Run("reasoning, calls and approvals", func(t *testing.T) {
		x := talks.chat(t, 60, 50)
		x.says("look", modeltest.Answer{Reasoning: "I should look it up in the memory.", Calls: []modeltest.Call{{Name: "Memory.List", Args: `{"prefix":"nothing/"}`}}}, modeltest.Answer{Text: "There is nothing."})
		if got := x.Screen(); !regexp.MustCompile(`(?s)∴ .* \(8 words\).*\? Memory.List \{"prefix":"nothing/"\}\n  ✓ \d+m?s no keys\n.*There is nothing\.`).MatchString(got) {
			t.Errorf("got\n%s", got)
		}
		x.command("/reasoning", "I should look it up in the memory.")
		fetch := modeltest.Answer{Calls: []modeltest.Call{{Name: "Http.Fetch", Args: `{"url":"http://127.0.0.1:1/"}`}}}
		ask := func(text string) {
			t.Helper()
			x.idle()
			x.answers <- fetch
			x.Submit(text)
			x.Until("> "+text, question)
		}
		ask("fetch it")
		x.Type("?")
		x.Until("Http.Fetch: Send a request to a web server.", "It asks because of the rule * reaching network: ask.")
		x.answers <- modeltest.Answer{Text: "So be it."}
		x.Type("d")
		x.Until("    denied", " 403 The call of Http.Fetch was denied", "So be it.")
		ask("fetch again")
		x.Type(tty.Escape)
		x.Until("Http.Fetch waits for an approval: /approve")
		x.Submit("/approve")
		x.Until(question)
		x.Type("e")
		x.Until("The arguments of Http.Fetch: Enter uses them, Esc goes back", `"url": "http://127.0.0.1:1/"`)
		x.answers <- modeltest.Answer{Calls: []modeltest.Call{{Name: "Http.Fetch", Args: `{"url":"http://127.0.0.1:2/"}`}}}
		x.answers <- modeltest.Answer{Text: "It isn't there."}
		x.Paste(`{"url": "http://127.0.0.1:2/"}`) // after the text that is there
		x.Until(`"http://127.0.0.1:2/"`)
		x.Type(tty.Enter)
		x.Until("the arguments aren't JSON")
		x.Type(strings.Repeat("\x08", 80) + `{"url":"http://127.0.0.1:2/"}`)
		x.When("the arguments alone", func(s string) bool {
			return strings.Contains(s, `Esc goes back`+"\n"+`> {"url":"http://127.0.0.1:2/"}`+"\n")
		})
		x.Type(tty.Enter)
		x.Until("denied: call it with these arguments instead", "allowed once", "It isn't there.")
		ask("and now in this session")
		x.answers <- fetch
		x.answers <- modeltest.Answer{Text: "Twice."}
		x.Type("s")
		x.Until("allowed in this session", "Twice.")
		x.idle()
		x.leave()
	})
	t.Run("an approval of an agent that the model has asked", func(t *testing.T) {
		x := talks.chat(t, 100, 30)
		x.idle()
		x.answers <- modeltest.Answer{Calls: []modeltest.Call{{Name: "Syscall.Call", Args: `{"type":"Agent.Ask","data":{"text":"fetch it"}}`}}}
		x.Submit("delegate")
		x.answers <- modeltest.Answer{Calls: []modeltest.Call{{Name: "Http.Fetch", Args: `{"url":"http://127.0.0.1:1/"}`}}}
		x.Until("! Http.Fetch needs an approval (rule * reaching network: ask)", question)
		x.answers <- modeltest.Answer{Text: "It was denied."}
		x.answers <- modeltest.Answer{Text: "The agent was denied it."}
		x.Type("dd") // the second one decides nothing
		x.Until("The agent was denied it.")
		x.idle()
		if got := x.Screen(); strings.Contains(got, "kernos:") {
			t.Errorf("the second key did something:\n%s", got)
		}
		x.leave()
	})
	t.Run("Ctrl-C ends the turn, and a second one leaves", func(t *testing.T) {
		x := talks.chat(t, 80, 24)
		x.idle()
		x.answers <- modeltest.Answer{Text: "one two three four five six", Hold: make(chan struct{})}
		x.Submit("count")
		x.Until("one two")
		x.Type(tty.CtrlC)
		x.Until("(cut off)", "The turn was ended; /continue resumes it.")
		x.answers <- modeltest.Answer{Text: "seven"}
		x.command("/continue", "seven")
		hold := make(chan struct{})
		x.answers <- modeltest.Answer{Text: "eight nine ten eleven twelve", Hold: hold}
		x.Submit("more")
		x.Until("eight nine")
		x.Type(tty.CtrlC + tty.CtrlC)
		if status := x.Wait(); status != 0 {
			t.Errorf("status %d", status)
		}
		if got := x.Screen(); !strings.Contains(got, "the turn may continue; kernos chat --resume") {
			t.Errorf("got\n%s", got)
		}
	})
	t.Run("Ctrl-C clears the line, and a second one leaves", func(t *testing.T) {
		x := talks.chat(t, 80, 24)
		x.idle()
		x.Type("a question")
		x.Edits("a question")
		x.Type(tty.CtrlC)
		x.Until(ready + "\nCtrl-C again leaves")
		x.Type("more")
		x.When("the hint is gone", func(s string) bool { return strings.HasSuffix(s, "> more") })
		x.Type(tty.CtrlC)
		x.Until(ready + "\nCtrl-C again leaves")
		x.Type(tty.CtrlC)
		if status := x.Wait(); status != 0 || strings.Contains(x.Screen(), "again") {
			t.Errorf("status %d:\n%s", status, x.Screen())
		}
	})
	t.Run("a chat begins with a message", func(t *testing.T) {
		x := talks.chat(t, 80, 24, "hello", "there")
		x.answers <- modeltest.Answer{Text: "Hello."}
		x.Until("> hello there\n\nHello.\n\n" + ready)
		x.says("and you?", modeltest.Answer{Text: "I am well."})
		id := x.leave()
		y := talks.chat(t, 80, 24, "--resume", id, "once more")
		y.answers <- modeltest.Answer{Text: "Once more."}
		y.Until("> and you?", "> once more\n\nOnce more.\n\n"+ready)
		y.leave()
	})
	t.Run("the line below the editor lives, and leaves nothing behind", func(t *testing.T) {
		x := talks.chat(t, 80, 24)
		x.idle()
		if strings.Contains(x.Screen(), "session") {
			t.Errorf("a session is shown before there is one:\n%s", x.Screen())
		}
		x.answers <- modeltest.Answer{Calls: []modeltest.Call{{Name: "Http.Fetch", Args: `{"url":"http://127.0.0.1:1/"}`}}}
		x.Submit("fetch")
		x.Until(question+"\ndefault · ", " · 120 tokens · session 01") // the turn is open
		x.answers <- modeltest.Answer{Text: "Then not."}
		x.Type("d")
		x.Until("Then not.\n\n"+ready+"\ndefault · ", " · 240 tokens · session 01")
		x.Resize(32, 24)
		x.When("the session has no room", func(s string) bool {
			return strings.Contains(s, " · 240 tokens") && !strings.Contains(s, "· session")
		})
		x.leave()
		if strings.Contains(x.Screen(), "tokens") {
			t.Errorf("it is left behind:\n%s", x.Screen())
		}
	})
	t.Run("a turn goes on without the chat, and is resumed", func(t *testing.T) {
		x := talks.chat(t, 80, 24)
		x.idle()
		hold := make(chan struct{})
		x.answers <- modeltest.Answer{Text: "The first half of it and the other half of it.", Hold: hold}
		x.Submit("tell me")
		x.Until("The first half")
		id := x.leave()
		if !strings.Contains(x.Screen(), "the turn continues; ") {
			t.Errorf("got\n%s", x.Screen())
		}
		y := talks.chat(t, 80, 24, "--resume", id[:5]+"…"+id[20:])
		y.Until("> tell me", "The first half")
		close(hold)
		y.Until("the other half of it.")
		y.idle()
		y.leave()
		z := talks.chat(t, 80, 24, "--resume")
		z.Until("Which one?", "tell me")
		z.Type("1" + tty.Enter)
		z.Until("> tell me", "the other half of it.")
		z.says("and now", modeltest.Answer{Text: "That was all."})
		z.leave()
	})
	t.Run("resizing, pasting and more lines", func(t *testing.T) {
		x := talks.chat(t, 80, 24)
		long := "a reply that is longer than a narrow terminal is wide"
		x.says("one", modeltest.Answer{Text: long})
		x.Until("\n" + long + "\n")
		x.Resize(40, 24)
		x.says("two", modeltest.Answer{Text: long})
		x.Until("a reply that is longer than a narrow\nterminal is wide\n")
		x.Paste("first\nsecond")
		x.Until("> first\n  second")
		x.Type(tty.CtrlJ + "third")
		x.Until("> first\n  second\n  third")
		x.answers <- modeltest.Answer{Text: "All three."}
		x.Type(tty.Enter)
		x.Until("> first\n  second\n  third", "All three.")
		x.idle()
		x.Type(`with\` + tty.Enter + "two lines")
		x.Until("> with\n  two lines")
		x.Type(tty.CtrlC) // takes it back
		x.idle()
		x.Type(tty.Up)
		x.Until("All three.\n\n> first\n  second\n  third")
		x.Type(tty.CtrlC)
		x.idle()
		x.leave()
	})
	t.Run("completion, files and history", func(t *testing.T) {
		for _, file := range []string{"notes.txt", "novel.txt"} {
			if err := os.WriteFile(filepath.Join(talks.dir, file), []byte("the text of "+file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		x := talks.chat(t, 80, 24)
		x.idle()
		x.Type("/co")
		x.Until("> /co\n  /continue  resume a turn", "  /cost      what the session has used")
		x.Type(tty.Tab + tty.Tab)
		x.Until("> /cost\n", "› /cost")
		x.Type(tty.ShiftTab)
		x.Until("> /continue\n")
		x.Type(tty.CtrlC)
		x.idle()
		x.Type("/model ot" + tty.Tab)
		x.Until("> /model other")
		x.Type(tty.Enter)
		x.Until("The next message goes to other.")
		x.idle()
		x.Type("use Memory.G" + tty.Tab)
		x.Until("> use Memory.Get")
		x.Type("and read @n" + tty.Tab)
		x.Until("> use Memory.Get and read @no", "  @notes.txt\n  @novel.txt")
		x.Type("t" + tty.Tab)
		x.Until("and read @notes.txt")
		x.answers <- modeltest.Answer{Text: "I have read it."}
		x.Type(tty.Enter)
		x.Until("[file notes.txt]", "I have read it.")
		x.idle()
		x.leave()
		y := talks.chat(t, 80, 24)
		y.idle()
		y.Type(tty.Up)
		y.Until("> use Memory.Get and read @notes.txt")
		y.Type(tty.Up)
		y.Until("> /model other")
		y.Type(tty.Down + tty.Down)
		y.idle()
		y.Type(tty.CtrlR + "OTHER")
		y.Until("> /model other\nsearch: OTHER · Ctrl-R earlier")
		y.Type(tty.Escape)
		y.idle()
		y.Type("/quit" + tty.Enter)
		y.Wait()
	})
	t.Run("commands", func(t *testing.T) {
		x := talks.chat(t, 80, 90)
		x.command("/cost", "/cost needs a conversation: say something first")
		x.Submit("/hlep")
		x.Until("unknown command /hlep; did you mean /help?", "> /hlep")
		x.Type(tty.CtrlC)
		x.command("/help", "/approve       answer what waits for an approval", "Ctrl-C         end the turn, or clear the line; again, or Ctrl-D, leave")
		x.command("/approve", "Nothing waits for an approval.")
		x.command("/model", "default  test http://127.0.0.1:", "demo     built in, for trying things out; kernos model add connects a real one")
		x.command("/model nosuch", `there is no model "nosuch"; /model lists them`)
		x.says("remember it", modeltest.Answer{Calls: []modeltest.Call{{Name: "Memory.Set", Args: `{"key":"it","value":1}`}}}, modeltest.Answer{Text: "I have."})
		x.command("/tools", "Memory.Get        Get the value of a key.")
		x.command("/cost", "1 turn: 2 generations, 1 call, ")
		x.command("/graph", "▶ Session.Send", "├─ ▶ Model.Generate", "▶ Memory.Set", "◆ Memory.Changed")
		x.command("/save talk.md", "The session is in talk.md.")
		x.command("/save talk.md", "talk.md exists already: /save another FILE")
		x.command("/save talk.json", "The session is in talk.json.")
		for file, want := range map[string]string{"talk.md": "# remember it\n\n> remember it\n\n**Call** `Memory.Set`\n", "talk.json": `"title": "remember it"`} {
			if text, err := os.ReadFile(filepath.Join(x.dir, file)); err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%v: %s", err, text)
			}
		}
		x.Submit("/undo")
		x.Until("The last input is taken back.", `not undone: Memory.Set {"key":"it","value":1}`, "> remember it\n")
		x.Edits("remember it")
		x.answers <- modeltest.Answer{Text: "I do so again."}
		x.Type(tty.Enter)
		x.Until("I do so again.")
		x.command("/fork 1", "This is the session ")
		x.says("go your own way", modeltest.Answer{Text: "I do."})
		fork := x.leave()
		out, _, _ := x.house.run("", "session", "show", fork)
		if !strings.Contains(out, "remember it") || strings.Contains(out, "again") || !strings.Contains(out, "go your own way") {
			t.Errorf("the fork has\n%s", out)
		}
		y := talks.chat(t, 80, 60, "--fork", fork+"@2")
		y.idle()
		if got := y.Screen(); !strings.Contains(got, "> go your own way") || strings.Contains(got, "I do.") {
			t.Errorf("the fork of the fork has\n%s", got)
		}
		y.leave()
	})
	t.Run("for scripts", func(t *testing.T) {
		run := func(in string, status int, args []string, answers ...modeltest.Answer) (string, string) {
			t.Helper()
			for _, a := range answers {
				talks.answers <- a
			}
			out, notes, got := talks.house.run(in, append([]string{"chat"}, args...)...)
			if got != status {
				t.Errorf("%v: status %d, want %d: %s%s", args, got, status, out, notes)
			}
			return out, notes
		}
		if out, notes := run("a diff", 0, []string{"-p", "what is it?"}, modeltest.Answer{Text: "A **diff**."}); out != "A **diff**.\n" || notes != "" {
			t.Errorf("got %q, %q", out, notes)
		}
		if out, notes := run("a diff", 0, []string{"what", "is it?"}, modeltest.Answer{Text: "That diff."}); out != "That diff.\n" || notes != "" {
			t.Errorf("got %q, %q", out, notes)
		}
		session, _, _ := talks.house.run("", "session", "list", "--jq", ".sessions[0].session")
		session = strings.TrimSpace(session)
		if out, _, _ := talks.house.run("", "session", "show", session); !strings.Contains(out, "> what is it?\n  \n  a diff\n") {
			t.Errorf("it was sent\n%s", out)
		}
		out, _ := run("and now?", 0, []string{"--last", "--json"}, modeltest.Answer{Calls: []modeltest.Call{{Name: "Echo", Args: `{"message":"x"}`}}}, modeltest.Answer{Text: "Done."})
		var types []string
		for line := range strings.Lines(out) {
			var m struct{ Type string }
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Errorf("%v: %s", err, line)
			}
			types = append(types, m.Type)
		}
		if got := strings.Join(types, " "); got != "input tool-calls tool-results reply" {
			t.Errorf("got %s", got)
		}
		_, notes := run("", 3, []string{"-p", "fetch"}, modeltest.Answer{Calls: []modeltest.Call{{Name: "Http.Fetch", Args: `{"url":"http://127.0.0.1:1/"}`}}})
		if !strings.Contains(notes, "Http.Fetch needs an approval (rule * reaching network: ask), and the turn waits for it; kernos chat --resume ") {
			t.Errorf("got %s", notes)
		}
		_, notes = run("", 3, []string{"--last", "-p", "hello"})
		if !strings.Contains(notes, "the session waits for a decision about its last turn, so nothing was sent; kernos chat --resume ") {
			t.Errorf("got %s", notes)
		}
		x := talks.chat(t, 80, 24, "--last")
		x.Until(question)
		x.answers <- modeltest.Answer{Text: "Then not."}
		x.Type("d")
		x.Until("Then not.")
		x.idle()
		x.leave()
		if _, notes := run("", 1, []string{"-p", "fail"}, modeltest.Answer{Status: 400, Raw: `{"error":{"message":"no"}}`}); !strings.Contains(notes, "the turn has failed: 502 ") {
			t.Errorf("got %s", notes)
		}
		for _, c := range []struct {
			args, want string
			status     int
		}{
			{"chat", "there is nothing to say: standard input is empty; give -p TEXT", 2},
			{"chat hello -p x", "-p and TEXT are both the message: give one of them", 2},
			{"chat --last --resume X -p x", "--resume and --last each name the session", 2},
			{"chat --last --agent os://a.md -p x", "--agent is for a new session", 2},
			{"chat --resume 01ABC…ZZZZZZ -p x", "Session not found: 01ABC…ZZZZZZ (Session.List lists the sessions: kernos session list)", 1},
			{"chat --model nosuch -p x", "nosuch", 1},
			{"session show", "name the session", 5},
			{"session export " + session + " --jq .info.turns", "2\n", 0},
			{"session list", session, 0},
			{"__complete session show 01", session, 0},
			{"__complete session ex", "export\t", 0},
			{"graph " + session + " -o tree", "Session.Send", 0},
		} {
			out, notes, status := talks.house.run("", strings.Fields(c.args)...)
			if status != c.status || !strings.Contains(out+notes, c.want) {
				t.Errorf("%s: status %d: %s%s; want %d: %s", c.args, status, out, notes, c.status, c.want)
			}
		}
	})
	if len(talks.answers) > 0 {
		t.Errorf("%d answers are left", len(talks.answers))
	}
}

// An interrupt ends the turn of a script.
func TestAnInterruptEndsTheTurnOfAScript(t *testing.T) {
	x := newTalks(t)
	x.answers <- modeltest.Answer{Text: "one two three four five six", Hold: make(chan struct{})}
	c := x.house.command("chat", "-p", "count")
	var notes strings.Builder
	c.Stderr = &notes
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil { // it streams
		t.Error(err)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = c.Wait()
	if status := c.ProcessState.ExitCode(); status != 130 || !strings.Contains(notes.String(), "the turn was ended; kernos chat --resume ") {
		t.Errorf("status %d: %s", status, notes.String())
	}
	if got, _, _ := x.house.run("", "session", "list", "--jq", ".sessions[0].status"); got != "idle\n" {
		t.Errorf("the session is %s", got)
	}
}

// With nothing configured, models that are found are offered, and otherwise the model inside answers.
func TestTheFirstConversation(t *testing.T) {
	host := serveModels(t, "qwen3")
	h := newHouse(t)
	x := &talk{t: t, house: h, dir: t.TempDir()}
	h.env = append(h.env, chat.ServersVariable+"=ollama="+host)
	first := x.chat(t, 80, 40)
	first.Until("ollama at " + host + " has qwen3. Connect it? [y/N]")
	first.Type("n" + tty.Enter)
	first.Until("The model demo answers", "To talk with a real one: kernos model detect, then kernos model add NAME.")
	first.idle()
	first.Submit("remember that the door code is 4711")
	first.Until("▶ Memory.Set {", "  ✓ ", "4711.")
	first.idle()
	first.Submit("what do you know about the door?") // what is found isn't hidden because it was searched for
	first.Until(`? Memory.Search {"query":"door"}`, "I know this: /door-code is 4711.")
	first.idle()
	id := first.leave()
	if out, notes, _ := h.run("", "graph", id, "-o", "tree"); !strings.Contains(out, "▶ Memory.Set") || strings.Contains(out, "◌") {
		t.Errorf("the causes are\n%s%s", out, notes)
	}
	second := x.chat(t, 80, 40)
	second.Until("Connect it? [y/N]")
	second.Type("y" + tty.Enter)
	second.Until("ollama answers; /help lists the commands.")
	second.idle()
	second.Type("exit" + tty.Enter)
	second.Wait()
	if out, _, _ := h.run("", "memory", "get", "models/default", "-r"); out != "ollama" {
		t.Errorf("the default is %q", out)
	}
}

// A notification that waits is mentioned when a chat opens, and one that comes meanwhile is shown.
func TestNotificationsAreShownInAChat(t *testing.T) {
	x := newTalks(t)
	if out, notes, status := x.house.run("", "notify", "send", "Call mum", "--title", "Reminder"); status != 0 {
		t.Fatal(out, notes)
	}
	c := x.chat(t, 80, 24)
	c.Until("1 notification waits (kernos notify list, kernos notify seen --all):", "Reminder: Call mum", ready)
	if out, notes, status := x.house.run("", "job", "start", "Notify.Send", `payload:={"text":"Take a break"}`); status != 0 {
		t.Fatal(out, notes)
	}
	c.Until("Notification: Take a break", ready)
	if out, notes, status := x.house.run("", "notify", "seen", "--all"); status != 0 || !strings.Contains(out, `"seen":2`) {
		t.Fatal(status, out, notes)
	}
	c.Type(tty.CtrlD)
	c.Wait()
	c = x.chat(t, 80, 24)
	c.idle()
	if strings.Contains(c.Screen(), "notification") {
		t.Errorf("what was seen is mentioned:\n%s", c.Screen())
	}
}
