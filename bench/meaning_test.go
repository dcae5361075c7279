package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// common are words that questions and messages may share.
var common = strings.Fields("a an and are as at be been by did do does for from had has have how i in is it me my no not of on or our so some that the their there they this to too up want was we what when where which who why will with would out than then its into them us must may because after before all other more now new could can nothing nobody only s somebody someone")

// TestQuestionsUseOtherWords: the questions measure meaning only if words don't find the answers.
func TestQuestionsUseOtherWords(t *testing.T) {
	set, err := writtenMessages()
	if err != nil {
		t.Fatal(err)
	}
	if len(set.questions) < 200 || len(set.messages) < 500 {
		t.Errorf("%d questions about %d messages", len(set.questions), len(set.messages))
	}
	words := func(text string) []string {
		return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) })
	}
	for i, m := range set.messages {
		at := slices.IndexFunc(set.questions, func(q question) bool { return q.answer == messageID(i) })
		if at < 0 {
			continue
		}
		if !json.Valid(m.Data) {
			t.Errorf("%s is not JSON", m.Data)
		}
		of := words(m.Type + " " + string(m.Data))
		for _, w := range words(set.questions[at].text) {
			if !slices.Contains(common, w) && slices.Contains(of, w) {
				t.Errorf("%q and its answer share %q", set.questions[at].text, w)
			}
		}
	}
}

func TestToolsAreFound(t *testing.T) {
	box, err := readTools()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range box.modules {
		for _, s := range m.Syscalls {
			names[string(s.Type)] = true
		}
	}
	if len(names) != box.count || box.count < 1000 || len(box.questions) < 30 {
		t.Errorf("%d names of %d tools, %d questions", len(names), box.count, len(box.questions))
	}
	for _, q := range box.questions {
		if !names[q.answer] {
			t.Errorf("%q is answered by %s, which isn't a tool", q.text, q.answer)
		}
	}
	var out strings.Builder
	if err := toolsByMeaning(&out); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
}
