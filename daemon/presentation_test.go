package daemon_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kernos/client"
	"kernos/daemon"
	"kernos/internal/phrase"
	"kernos/internal/ranked"
	"kernos/kernel"
	"kernos/message"
)

// listed returns all syscalls that listings have.
func listed(t *testing.T) (all []*kernel.Syscall) {
	t.Helper()
	r, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(r.All().Syscalls())
}

// What people see of a syscall is a short title that no other has, and words that find it; what it names is there.
func TestPresentations(t *testing.T) {
	heading := regexp.MustCompile(`^[A-Z]+$`)
	titles := make(map[string]message.Type)
	for _, s := range listed(t) {
		problem := func(format string, args ...any) { t.Errorf("%s: %s", s.Type, fmt.Sprintf(format, args...)) }
		if err := s.Check(s.Input.JSON()); err != nil {
			problem("%v", err)
		}
		if s.Title == "" || s.Title == string(s.Type) && strings.Contains(s.Title, ".") || strings.HasSuffix(s.Title, ".") || strings.ToUpper(s.Title[:1]) != s.Title[:1] {
			problem("the title %q isn't a heading", s.Title)
		}
		if other, taken := titles[s.Title]; taken {
			problem("%s has the same title", other)
		}
		titles[s.Title] = s.Type
		words := strings.Split(s.Words, ", ")
		for i, w := range words {
			if w == "" || strings.ToLower(w) != w || strings.TrimSpace(w) != w || slices.Contains(words[:i], w) {
				problem("the words %q: each is in lower case, and stands there once", s.Words)
			}
		}
		input, output := client.ReadField(s.Input.JSON()), client.ReadField(s.Output.JSON())
		for _, column := range s.Columns {
			name, text, _ := strings.Cut(column, " ")
			if !heading.MatchString(name) {
				problem("%q is no heading", name)
			}
			checkPaths(problem, text, element(output))
		}
		for _, text := range []string{s.Result, s.Failure} {
			checkPaths(problem, text, &client.Field{Fields: append(output.Fields, &client.Field{Name: "request", Fields: input.Fields})})
		}
	}
}

// checkPaths reports the paths of a phrase that a value can't have.
func checkPaths(problem func(string, ...any), text string, f *client.Field) {
	p, err := phrase.Parse(text)
	if err != nil {
		problem("%v", err)
	}
	for _, path := range p.Paths() {
		if path != "." && !reaches(f, path) {
			problem("%q: there is no %s", text, path)
		}
	}
}

// reaches reports whether a value may have something at a path.
func reaches(f *client.Field, path string) bool {
	if f.Find(path) != nil {
		return true
	}
	for parent := path; strings.Contains(parent, "."); {
		parent = parent[:strings.LastIndex(parent, ".")]
		if above := f.Find(parent); above != nil {
			return len(above.Fields) == 0 && !above.Closed
		}
	}
	return false
}

// lists returns the members of a reply that are lists.
func lists(reply *client.Field) (all []*client.Field) {
	for _, f := range reply.Fields {
		if f.Scalar() == "array" {
			all = append(all, f)
		}
	}
	return all
}

// element returns what a table has a row for: the elements of the only list of a reply, or else the reply.
func element(reply *client.Field) *client.Field {
	if all := lists(reply); len(all) == 1 && all[0].Items != nil {
		return all[0].Items
	}
	return reply
}

// A reply that is a list is a table for people, and the reply of a command is a line, except where neither would be enough.
func TestRepliesAreShown(t *testing.T) {
	whole := map[message.Type]string{
		"Kernel.Backup": "its events are what it is for", "Session.Messages": "each type of message looks different",
		"Syscall.List": "the summaries stand beside the list", "Syscall.Versions": "a version has its code",
		"Content.Hydrate": "it has several parts", "Session.Export": "it is a whole session", "Job.Result": "it is the result of another syscall",

		"Crypto.Seal": "the reply is a text", "Echo": "the reply is a text", "Http.Fetch": "the reply is what a server has answered",
		"Mcp.Add": "it is a whole server", "Mcp.Refresh": "it is a whole server", "Model.Generate": "the reply is a conversation",
		"Session.Send": "a turn has its text and its state", "Session.Continue": "a turn has its text and its state", "Session.Cancel": "a turn has its text and its state",
		"Session.Rewind": "commands that were not undone are listed", "Syscall.Cancel": "it means nothing on a connection of its own",
		"Syscall.Shutdown": "kernos stop reports it", "Syscall.Test": "what code does has many parts",
	}
	for _, s := range listed(t) {
		all := lists(client.ReadField(s.Output.JSON()))
		wants := s.Kind == message.KindCommand || len(all) == 1
		if shown := len(s.Columns) > 0 || s.Result != ""; shown && whole[s.Type] != "" || wants && !shown && whole[s.Type] == "" {
			t.Errorf("%s: shown as a table or a line: %v; %s", s.Type, shown, whole[s.Type])
		}
	}
}

// What people call a syscall finds it among the first.
func TestWordsFindSyscalls(t *testing.T) {
	r, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	meaning := ranked.NewMeaning(nil)
	place := func(query string, want message.Type) int {
		hits, err := r.All().Search(t.Context(), meaning, ranked.Query{Text: query, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		return 1 + slices.IndexFunc(hits, func(h kernel.Hit) bool { return h.Syscall.Type == want })
	}
	for query, want := range map[string]message.Type{
		"remind me tomorrow": "Job.Start", "alarm": "Job.Start", "every day": "Job.Start", "remember this": "Memory.Set", "take a note": "Memory.Set",
		"curl": "Http.Fetch", "api key": "Token.Create", "forget": "Memory.Delete",
	} {
		if got := place(query, want); got < 1 || got > 3 {
			t.Errorf("%q finds %s in place %d", query, want, got)
		}
	}
	sharing := make(map[string]int)
	for _, s := range listed(t) {
		for word := range strings.SplitSeq(s.Words, ", ") {
			sharing[word]++
		}
	}
	for _, s := range listed(t) {
		for word := range strings.SplitSeq(s.Words, ", ") {
			if got := place(word, s.Type); got < 1 || got > 5+sharing[word] {
				t.Errorf("%q finds %s in place %d", word, s.Type, got)
			}
		}
	}
}
