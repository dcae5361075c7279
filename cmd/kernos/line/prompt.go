package line

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"kernos/client"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/internal/jsonvalue"
	"kernos/internal/visible"
	"kernos/schema"
)

// complete asks for what is required and missing, if a person can be asked: standard
// input is a terminal. Questions go to that terminal, wherever the output goes.
func (c *call) complete(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	in := terminal.Person(c.in)
	if c.method == nil || c.NoPrompt || c.DryRun || c.Given("as") || c.Given("data") || in == nil {
		return params, nil
	}
	out, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return params, nil
	}
	defer func() { _ = out.Close() }()
	return c.ask(params, func(f *client.Field) (string, error) {
		return terminal.Ask(ctx, in, out, question(f), f.Sensitive)
	})
}

// question returns the question for a parameter.
func question(f *client.Field) string {
	shown := *f
	shown.Sensitive = false // how to keep it out of a command line is of no use here
	about := FieldHelp(&shown)
	if f.Sensitive {
		about = strings.TrimSpace(about + " What you type is not shown.")
	}
	if about != "" {
		about = " (" + strings.TrimSuffix(about, ".") + ")"
	}
	return visible.Text(f.Name+about) + ": "
}

// ask completes parameters with answers. One that does not fit is asked for again.
func (c *call) ask(params json.RawMessage, answer func(*client.Field) (string, error)) (json.RawMessage, error) {
	var given map[string]json.RawMessage
	if json.Unmarshal(params, &given) != nil || given == nil {
		return params, nil
	}
	for _, f := range c.method.Fields {
		if _, has := given[f.Name]; has || !f.Required || len(f.Enum) == 1 {
			continue
		}
		for {
			text, err := answer(f)
			if err != nil {
				return nil, &exit.Error{Status: exit.Invalid, Cause: fmt.Errorf("missing required field: %s", f.Name)}
			}
			value, err := c.fitting(f, text)
			if err == nil {
				given[f.Name] = value
				break
			}
			c.screen.Note("%v", err)
		}
	}
	return json.Marshal(given)
}

// fitting makes a value of an answer, if the method takes it.
func (c *call) fitting(f *client.Field, text string) (json.RawMessage, error) {
	value, err := Convert(c.method, f, text)
	if err != nil {
		return nil, err
	}
	alone := jsonvalue.Object{}.Set(f.Name, value).Text()
	// Other parameters that are missing don't make this answer wrong.
	if invalid, ok := errors.AsType[*schema.Invalid](c.method.Validate(alone)); ok {
		for _, problem := range invalid.Problems {
			if rest, about := strings.CutPrefix(problem.Path, f.Name); about && (rest == "" || rest[0] == '.' || rest[0] == '[') {
				return nil, errors.New(problem.Text)
			}
		}
	}
	return value, nil
}
