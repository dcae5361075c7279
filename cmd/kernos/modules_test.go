package main

import (
	"encoding/json"
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// TestEverySyscallDescribesItself holds the definitions against what a caller who
// knows nothing needs: section 4.8 of the specification.
func TestEverySyscallDescribesItself(t *testing.T) {
	r, err := allSyscalls()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range r.Modules() {
		for _, s := range m.Syscalls {
			for part, sch := range map[string]*schema.Schema{"input": s.Input, "output": s.Output} {
				if _, err := schema.Parse(sch.JSON()); err != nil {
					t.Errorf("%s: %s: %v", s.Type, part, err)
				}
			}
			for _, problem := range undescribed(t, &s) {
				t.Errorf("%s: %s", s.Type, problem)
			}
		}
	}
}

// TestEventsHaveHappened: section 4.2.3 wants events named in the past tense.
func TestEventsHaveHappened(t *testing.T) {
	r, err := allSyscalls()
	if err != nil {
		t.Fatal(err)
	}
	events := []message.Type{kernel.Progressed}
	for _, m := range r.Modules() {
		for _, s := range m.Syscalls {
			for _, e := range s.Emits {
				events = append(events, e.Type)
			}
		}
	}
	for _, e := range events {
		// Irregular verbs are added here when one is needed.
		if !strings.HasSuffix(e.Action(), "ed") {
			t.Errorf("%s does not sound as if it had happened", e)
		}
	}
}

func undescribed(t *testing.T, s *kernel.Syscall) []string {
	t.Helper()
	var input struct {
		Type       string `json:"type"`
		Properties map[string]struct {
			Description string `json:"description"`
		} `json:"properties"`
		Required   []string `json:"required"`
		Additional *bool    `json:"additionalProperties"`
	}
	if err := json.Unmarshal(s.Input.JSON(), &input); err != nil {
		t.Fatal(err)
	}
	var problems []string
	if input.Type != "object" {
		problems = append(problems, "the input is not an object")
	}
	if input.Required == nil {
		problems = append(problems, "the input has no list of required fields")
	}
	if input.Additional == nil || *input.Additional {
		problems = append(problems, "the input takes fields that it does not name")
	}
	for name, p := range input.Properties {
		if p.Description == "" {
			problems = append(problems, "the field "+name+" has no description")
		}
	}
	return problems
}

func TestASyscallThatDoesNotDescribeItselfIsFound(t *testing.T) {
	bad, err := schema.Parse(json.RawMessage(`{"type":"object","properties":{"x":{"type":"string"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	s := kernel.Syscall{Definition: kernel.Definition{Type: "Test.Bad", Input: bad}}
	if got := undescribed(t, &s); len(got) != 3 {
		t.Errorf("found %q, want three problems", got)
	}
}
