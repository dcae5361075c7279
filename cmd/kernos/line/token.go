package line

import (
	"context"
	"slices"

	"kernos/capability/token"
	"kernos/cmd/kernos/server"
	"kernos/kernel/principal"
	"kernos/message"
)

// MakeToken makes a token of preset agent, unless there is one of this name. It reports whether it has.
func MakeToken(ctx context.Context, call server.Caller, name string) (made bool, err error) {
	known, err := readTokens(ctx, call)
	if err != nil || slices.ContainsFunc(known, func(t token.Info) bool { return t.Name == name }) {
		return false, err
	}
	_, err = server.Send(ctx, call, message.KindCommand, "Token.Create", map[string]any{"name": name, "preset": principal.Agent}, nil)
	return err == nil, err
}

// readTokens asks for the tokens of a kernel.
func readTokens(ctx context.Context, call server.Caller) ([]token.Info, error) {
	var reply struct{ Tokens []token.Info }
	err := server.Read(ctx, call, message.KindQuery, "Token.List", struct{}{}, &reply)
	return reply.Tokens, err
}
