package line

import (
	"context"
	"slices"

	"kernos/capability/token"
	"kernos/cmd/kernos/server"
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
