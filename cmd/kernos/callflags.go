package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"kernos/cmd/kernos/output"
)

// callFlags are the flags that kernos call has itself. All others are parameters of the
// method that is called.
type callFlags struct {
	data     string
	output   string
	jq       string
	template string
	as       string
	context  string
	server   string
	dryRun   bool
	noPrompt bool
	help     bool

	given map[string]bool // by the names above
}

// ownFlag is one of them.
type ownFlag struct {
	name, short string
	value       string // what stands for its value in a help text; "" if it takes none
	help        string
	text        func(*callFlags) *string
	flag        func(*callFlags) *bool
	words       []string // the values that it can have, if they are few
}

var ownFlags = []ownFlag{
	{name: "data", short: "d", value: "JSON", help: "all parameters as one JSON object; - for standard input, @FILE for a file", text: func(f *callFlags) *string { return &f.data }},
	{name: "output", short: "o", value: "FORM", help: "pretty (on a terminal), ndjson (elsewhere), json, raw or table", text: func(f *callFlags) *string { return &f.output }, words: output.Modes},
	{name: "jq", value: "FILTER", help: "show what this jq filter makes of the data", text: func(f *callFlags) *string { return &f.jq }},
	{name: "template", value: "TEMPLATE", help: "show the data with this Go template, or the one in this file", text: func(f *callFlags) *string { return &f.template }},
	{name: "dry-run", help: "check everything and show the request, but don't send it", flag: func(f *callFlags) *bool { return &f.dryRun }},
	{name: "as", value: "FORM", help: "show the request as jsonrpc, ndjson or curl, and don't send it", text: func(f *callFlags) *string { return &f.as }, words: requestForms},
	{name: "context", value: "NAME", help: "call the server of this context (kernos context list)", text: func(f *callFlags) *string { return &f.context }},
	{name: "server", value: "URL", help: "call the server at this address: ws://…, wss://… or unix:///…", text: func(f *callFlags) *string { return &f.server }},
	{name: "no-prompt", help: "don't ask for what is missing", flag: func(f *callFlags) *bool { return &f.noPrompt }},
	{name: "help", short: "h", help: "show what the method takes", flag: func(f *callFlags) *bool { return &f.help }},
}

// findOwn finds a flag by what somebody wrote, with or without a value.
func findOwn(token string) (f *ownFlag, value string, hasValue bool) {
	long, isLong := strings.CutPrefix(token, "--")
	name, value, hasValue := strings.Cut(long, "=")
	i := slices.IndexFunc(ownFlags, func(o ownFlag) bool {
		return isLong && o.name == name || o.short != "" && token == "-"+o.short
	})
	if i < 0 {
		return nil, "", false
	}
	return &ownFlags[i], value, hasValue
}

// isFlag reports whether a token is one that sets something, and not a word.
func isFlag(token string) bool { return len(token) > 1 && token[0] == '-' }

// take takes a flag of kernos call from the front of tokens. It returns those behind it, or
// nil if the first is something else.
func (f *callFlags) take(tokens []string) (rest []string, err error) {
	own, value, hasValue := findOwn(tokens[0])
	if own == nil {
		return nil, nil
	}
	rest = tokens[1:]
	if f.given == nil {
		f.given = make(map[string]bool)
	}
	if f.given[own.name] && own.name != "help" {
		return nil, fmt.Errorf("--%s is given twice", own.name)
	}
	f.given[own.name] = true
	if own.flag != nil {
		switch {
		case !hasValue || value == "true":
			*own.flag(f) = true
		case value != "false":
			return nil, fmt.Errorf("--%s takes no value, got %q", own.name, value)
		}
		return rest, nil
	}
	if !hasValue {
		if len(rest) == 0 {
			return nil, fmt.Errorf("--%s needs a value: --%s %s", own.name, own.name, own.value)
		}
		value, rest = rest[0], rest[1:]
	}
	if own.words != nil && !slices.Contains(own.words, value) {
		return nil, fmt.Errorf("--%s can be %s; got %q", own.name, strings.Join(own.words, ", "), value)
	}
	*own.text(f) = value
	return rest, nil
}

// A callLine is the command line of a call, as far as it can be read without knowing the
// method.
type callLine struct {
	callFlags
	words  []string // TYPE, or MODULE METHOD, or nothing
	tokens []string // the parameters, and flags among them
}

// readLine reads a command line. Which server is meant, and whether only help is wanted, is
// found wherever it stands, for it must be known before the method is.
func readLine(args []string) (*callLine, error) {
	l := new(callLine)
	rest := args
	for len(rest) > 0 && len(l.words) < 2 {
		token := rest[0]
		if token == "--" {
			if len(l.words) == 0 {
				return nil, errors.New("-- stands before the name of what is to be called: kernos call TYPE -- VALUE …")
			}
			break
		}
		if !isFlag(token) {
			if strings.ContainsRune(token, '=') {
				break
			}
			l.words = append(l.words, token)
			rest = rest[1:]
			continue
		}
		after, err := l.take(rest)
		if err != nil {
			return nil, err
		}
		if after == nil {
			if len(l.words) == 0 {
				return nil, fmt.Errorf("%s stands before the name of what is to be called: kernos call TYPE %s …", token, token)
			}
			break
		}
		rest = after
	}
	for i := 0; i < len(rest); i++ {
		own, _, _ := findOwn(rest[i])
		if rest[i] == "--" { // what is behind it are values, whatever they look like
			l.tokens = append(l.tokens, rest[i:]...)
			break
		}
		if own == nil || own.name != "help" && own.name != "context" && own.name != "server" {
			l.tokens = append(l.tokens, rest[i])
			continue
		}
		after, err := l.take(rest[i:])
		if err != nil {
			return nil, err
		}
		i = len(rest) - len(after) - 1
	}
	return l, l.check()
}

// check refuses flags that contradict each other.
func (f *callFlags) check() error {
	switch {
	case f.given["jq"] && f.given["template"]:
		return errors.New("--jq and --template both say what to show: give one of them")
	case f.given["template"] && f.given["output"]:
		return errors.New("--template says all about the output: leave --output out")
	case f.given["context"] && f.given["server"]:
		return errors.New("--context and --server both say whom to call: give one of them")
	}
	return nil
}
