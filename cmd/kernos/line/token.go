package line

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kernos/capability/token"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/kernel/principal"
	"kernos/message"
)

// A TokenRequest is the input of Token.Create and Token.Update.
type TokenRequest struct {
	Name string `json:"name"`
	principal.Grant
	Take []string `json:"take,omitempty"`
}

// MakeToken makes a token of preset agent, unless there is one of this name. It reports whether it has.
func MakeToken(ctx context.Context, call server.Caller, name string) (made bool, err error) {
	known, err := ReadTokens(ctx, call)
	if err != nil || slices.ContainsFunc(known.Tokens, func(t token.Info) bool { return t.Name == name }) {
		return false, err
	}
	_, err = server.Send(ctx, call, message.KindCommand, "Token.Create", TokenRequest{Name: name, Grant: principal.Grant{Preset: principal.Agent}}, nil)
	return err == nil, err
}

// A TokenList is what Token.List replies.
type TokenList struct{ Tokens []token.Info }

// ReadTokens asks for the tokens of a kernel.
func ReadTokens(ctx context.Context, call server.Caller) (l TokenList, err error) {
	err = server.Read(ctx, call, message.KindQuery, "Token.List", struct{}{}, &l)
	return l, err
}

// Show writes the tokens as a table.
func (l *TokenList) Show(s *terminal.Screen) error {
	rows := make([][]string, len(l.Tokens))
	for i := range l.Tokens {
		t := &l.Tokens[i]
		rows[i] = []string{t.Name, cmp.Or(string(t.Preset), "-"), day(t.Created), expiry(t), strings.Join(append(key(t), rules(t)...), " ")}
	}
	return s.Table([]string{"NAME", "PRESET", "CREATED", "EXPIRES", "RULES"}, rows)
}

// ShowToken writes a token and its rules, one per line.
func ShowToken(t *token.Info, s *terminal.Screen) error {
	rows := [][]string{{"name", t.Name}, {"id", string(t.ID)}, {"preset", cmp.Or(string(t.Preset), "-")}, {"created", day(t.Created)}, {"expires", expiry(t)}}
	if t.Rotated != 0 {
		rows = append(rows, []string{"rotated", day(t.Rotated)})
	}
	for _, k := range key(t) {
		rows = append(rows, []string{"key", k})
	}
	for _, r := range rules(t) {
		rows = append(rows, []string{"rule", r})
	}
	return s.Table(nil, rows)
}

// key describes what a browser is known by; it is empty for other tokens.
func key(t *token.Info) (texts []string) {
	if t.Cookie {
		return []string{"cookie of an earlier version, no longer accepted"}
	}
	if t.Browser == nil {
		return nil
	}
	text := fmt.Sprintf("key of %s at %s", cmp.Or(t.Browser.Name, "a browser"), t.Browser.Origin)
	if t.Browser.Used != 0 {
		text += ", used " + day(t.Browser.Used)
	}
	if t.Browser.Owner != 0 {
		text += ", as the owner until " + day(t.Browser.Owner)
	}
	return []string{text}
}

// rules returns the rules of a token as the flags that make them.
func rules(t *token.Info) (texts []string) {
	for flag, values := range map[string][]string{"--allow": t.Allow, "--deny": t.Deny, "--memory": t.Memory, "--files": t.Files} {
		if len(values) > 0 {
			texts = append(texts, flag+" "+strings.Join(values, ","))
		}
	}
	slices.Sort(texts)
	if t.ReadOnly {
		texts = append(texts, "--read-only")
	}
	if t.Rate > 0 {
		texts = append(texts, fmt.Sprintf("--rate %g", t.Rate))
	}
	return texts
}

func expiry(t *token.Info) string {
	switch {
	case t.Expired:
		return "expired"
	case t.Expires == 0:
		return "never"
	}
	return day(t.Expires)
}

// day returns a time as a person reads it; "-" if it is not known.
func day(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return time.UnixMilli(ms).Format("2006-01-02 15:04")
}
