package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	kernosd "kernos/daemon"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// firstTools is how many tools a model is shown.
const firstTools = 3

// A toolbox is many tools, and what is asked for.
type toolbox struct {
	modules   []kernel.Module
	count     int
	questions []question // each answered by the tool of a name
}

// verbs are what can be done with each object of a service, and how servers describe it.
var verbs = [][2]string{
	{"Create", "Create a new %s in %s."}, {"Get", "Get the details of a %s of %s by its id."}, {"List", "List each %s of %s, with filters and pages."},
	{"Update", "Update the fields of an existing %s in %s."}, {"Delete", "Delete a %s from %s for good."}, {"Search", "Search for a %s in %s by words."},
}

// readTools reads testdata/tools.txt.
func readTools() (*toolbox, error) {
	f, err := os.Open("testdata/tools.txt")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	box := new(toolbox)
	definitions := map[string][]kernel.Definition{}
	var services []string
	object := schema.Written(`{"type":"object"}`)
	add := func(name, summary string) {
		service, _, _ := strings.Cut(name, ".")
		if definitions[service] == nil {
			services = append(services, service)
		}
		definitions[service] = append(definitions[service], kernel.Definition{Type: message.Type(name), Kind: message.KindCommand, Summary: summary, Input: object, Output: object})
		box.count++
	}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if asked, ok := strings.CutPrefix(line, "? "); ok {
			text, answer, _ := strings.Cut(asked, " = ")
			box.questions = append(box.questions, question{text, answer})
			continue
		}
		name, rest, ok := strings.Cut(line, ": ")
		switch {
		case strings.HasPrefix(line, "#") || !ok:
		case strings.Contains(name, "."):
			add(name, rest)
		default:
			for kept := range strings.SplitSeq(rest, ", ") {
				for _, v := range verbs {
					add(name+"."+v[0]+pascal(kept), fmt.Sprintf(v[1], kept, name))
				}
			}
		}
	}
	for _, s := range services {
		m := kernel.Module{Name: strings.ToLower(s), Version: "1.0.0", Summary: "Tools of " + s + "."}
		for _, d := range definitions[s] {
			m.Syscalls = append(m.Syscalls, kernel.Syscall{Definition: d})
		}
		box.modules = append(box.modules, m.Described()) // they are only looked for
	}
	return box, nil
}

// pascal writes words as a name has them: "pull request" is PullRequest.
func pascal(text string) (name string) {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' || r == '-' }) {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	return name
}

// toolsByMeaning prints how often the right tool is among the first that Syscall.Search finds.
func toolsByMeaning(out io.Writer) (err error) {
	box, err := readTools()
	if err != nil {
		return err
	}
	home, err := os.MkdirTemp("", "kernos-tools-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	d, err := kernosd.Open(&kernosd.Options{Home: home, Modules: box.modules})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	fmt.Fprintf(out, "the right one of %d tools is among the first %d:", box.count, firstTools)
	for _, mode := range []string{"words", "meaning", "both"} {
		found := 0
		for _, q := range box.questions {
			data, err := json.Marshal(map[string]any{"query": q.text, "mode": mode, "limit": firstTools})
			if err != nil {
				return err
			}
			answer, err := d.Call(context.Background(), message.Message{Kind: message.KindQuery, Type: "Syscall.Search", Data: data}, nil)
			if err == nil && answer.Kind != message.KindReply {
				err = fmt.Errorf("%s", answer.Data)
			}
			var reply struct{ Syscalls []struct{ Name string } }
			if err = errors.Join(err, json.Unmarshal(answer.Data, &reply)); err != nil {
				return fmt.Errorf("%q: %w", q.text, err)
			}
			if slices.ContainsFunc(reply.Syscalls, func(s struct{ Name string }) bool { return s.Name == q.answer }) {
				found++
			}
		}
		fmt.Fprintf(out, " %.2f by %s", float64(found)/float64(len(box.questions)), mode)
	}
	_, err = fmt.Fprintf(out, " (%d questions)\n", len(box.questions))
	return err
}
