package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/line"
	"kernos/cmd/kernos/terminal"
	"kernos/docs"
	"kernos/internal/exit"
	"kernos/internal/nearest"
)

func docsCommand() *cobra.Command {
	c := prints(&cobra.Command{
		Use:   "docs [TOPIC]",
		Short: "Show the documentation: all topics, or a page",
		Long: `Show a page of the documentation, which is in the program. Without a topic, list the topics. Of
words that aren't a topic, the error lists the pages that have them.`,
		Example: `  kernos docs
  kernos docs settings
  kernos docs memory
  kernos docs revoke a token`,
	}, "text", func(c *cobra.Command, args []string, s *terminal.Screen, o terminal.Output) error {
		all := docs.All()
		if len(args) == 0 {
			listed := listTopics(all)
			return writeValue(c.Context(), s, o, map[string]any{"topics": listed}, func() error { return showTopics(listed, s) })
		}
		page := all.Find(strings.Join(args, " "))
		if page == nil {
			return &exit.Error{Status: exit.Unknown, Cause: errors.New(noTopic(all, args))}
		}
		value := map[string]string{"topic": page.Topic, "title": page.Title, "file": page.File, "text": page.Text}
		return writeValue(c.Context(), s, o, value, func() error {
			text := page.Text
			if strings.HasSuffix(page.File, ".md") {
				text = terminal.Markdown(s, text)
			}
			return exit.Wrap(s.Line(strings.TrimRight(text, "\n")))
		})
	})
	c.ValidArgsFunction = line.FirstArgument(func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		var found []string
		for _, p := range docs.All().Pages {
			if strings.HasPrefix(p.Topic, word) {
				found = append(found, line.Described(p.Topic, p.Title))
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	})
	return c
}

// A topic is one that kernos docs lists.
type topic struct {
	Section string `json:"section"`
	Topic   string `json:"topic"`
	Title   string `json:"title"`
	About   string `json:"about,omitempty"`
}

// listTopics returns the pages that the index has, without parts of pages.
func listTopics(all *docs.Documentation) (topics []topic) {
	for _, section := range all.Sections {
		for _, e := range section.Entries {
			if e.Anchor == "" {
				topics = append(topics, topic{section.Title, e.Page.Topic, e.Title, e.About})
			}
		}
	}
	return topics
}

func showTopics(topics []topic, s *terminal.Screen) error {
	var err error
	for i := 0; i < len(topics); {
		section := topics[i].Section
		var rows [][]string
		for ; i < len(topics) && topics[i].Section == section; i++ {
			rows = append(rows, []string{"  " + topics[i].Topic, topics[i].Title})
		}
		err = errors.Join(err, s.Line(section+":"), s.Explained(rows), s.Line(""))
	}
	return exit.Wrap(errors.Join(err, s.Line("kernos docs TOPIC shows a page.")))
}

// noTopic returns the error for words that aren't a topic.
func noTopic(all *docs.Documentation, words []string) string {
	names := make([]string, len(all.Pages))
	for i, p := range all.Pages {
		names[i] = p.Topic
		if slash := strings.LastIndexByte(p.Topic, '/'); slash >= 0 && all.Find(p.Topic[slash+1:]) == p {
			names[i] = p.Topic[slash+1:] // as a person would type it
		}
	}
	name := strings.Join(words, " ")
	hint := nearest.Hint(strings.ReplaceAll(strings.ToLower(name), " ", "-"), names)
	const shown = 5
	var having []string
	for _, p := range all.With(strings.Fields(name)) {
		if len(having) < shown {
			having = append(having, p.Topic)
		}
	}
	if len(having) > 0 {
		hint = strings.TrimSpace(hint + " Pages with these words: " + strings.Join(having, ", "))
	}
	return fmt.Sprintf("no page is named %q: %s", name, cmp.Or(hint, "kernos docs lists the topics"))
}
