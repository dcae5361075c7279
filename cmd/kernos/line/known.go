package line

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/record"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/patience"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// A Known returns the values that complete a word of a command line, each with an explanation after
// a tab. It starts nothing.
type Known func(ctx context.Context, open server.Opener) []string

// CompleteKnown returns the known values that begin with a word.
func CompleteKnown(values Known, open server.Opener, word string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), patience.For(completionTime))
	defer cancel()
	return slices.DeleteFunc(values(ctx, open), func(v string) bool { return !strings.HasPrefix(v, word) })
}

// FirstArgument completes the first argument of a command only.
func FirstArgument(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(c, args, word)
	}
}

// CompleteParameter completes the first argument of a command as the value of the parameter that a method requires.
func CompleteParameter(module, method string) cobra.CompletionFunc {
	return FirstArgument(func(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		found, directive := CompleteCall(c, []string{module, method}, word)
		return slices.DeleteFunc(found, IsFlag), directive
	})
}

// KnownKinds returns the kinds of messages.
func KnownKinds(context.Context, server.Opener) []string {
	return []string{"command", "query", "event", "reply", "error"}
}

// KnownTypes returns the types of syscalls, those of a kernel that is running or else the built-in ones.
func KnownTypes(ctx context.Context, open server.Opener) (found []string) {
	if call, done, err := open(ctx); err == nil {
		all, err := Catalog(ctx, call)
		_ = done()
		if err == nil {
			for _, e := range all {
				found = append(found, Described(string(e.Type), e.Summary))
			}
			return found
		}
	}
	r, err := definitions()
	if err != nil {
		return nil
	}
	for _, t := range r.All().Types() {
		s, _ := r.Lookup(t)
		found = append(found, Described(string(t), s.Summary))
	}
	return found
}

// KnownModules returns the modules of the syscalls.
func KnownModules(ctx context.Context, open server.Opener) (found []string) {
	for _, t := range KnownTypes(ctx, open) {
		module, _ := kernel.Method(message.Type(strings.SplitN(t, "\t", 2)[0]))
		if !slices.Contains(found, module) {
			found = append(found, module)
		}
	}
	return found
}

// KnownPatterns returns the types, and the domains with a star.
func KnownPatterns(ctx context.Context, open server.Opener) (found []string) {
	for _, t := range KnownTypes(ctx, open) {
		domain, _, dotted := strings.Cut(strings.SplitN(t, "\t", 2)[0], ".")
		if pattern := domain + ".*"; dotted && !slices.Contains(found, pattern) {
			found = append(found, pattern)
		}
		found = append(found, t)
	}
	return found
}

// KnownPrincipals returns the owner and the names of the tokens.
func KnownPrincipals(ctx context.Context, open server.Opener) []string {
	return append([]string{string(principal.OwnerID)}, KnownTokens(ctx, open)...)
}

// KnownTokens returns the names of the tokens of a kernel that is running; only its owner may list them.
func KnownTokens(ctx context.Context, open server.Opener) (found []string) {
	call, done, err := open(ctx)
	if err != nil {
		return nil
	}
	defer func() { _ = done() }()
	all, err := readTokens(ctx, call)
	if err != nil {
		return nil
	}
	for _, t := range all {
		found = append(found, Described(t.Name, "token "+string(t.Preset)))
	}
	return found
}

// recentCount is how many of the latest messages complete ids.
const recentCount = 50

// recent returns the latest messages of a kernel that is running.
func recent(ctx context.Context, open server.Opener) []record.Recent {
	call, done, err := open(ctx)
	if err != nil {
		return nil
	}
	defer func() { _ = done() }()
	all, err := record.New(call, &terminal.Screen{Now: time.Now()}, nil).Recent(ctx, recentCount)
	if err != nil {
		return nil
	}
	return all
}

// KnownIDs returns the ids of the latest messages.
func KnownIDs(ctx context.Context, open server.Opener) (found []string) {
	for _, m := range recent(ctx, open) {
		found = append(found, Described(m.ID, m.About))
	}
	return found
}

// KnownWorkflows returns the correlations of the latest messages, and the ids of those that have none.
func KnownWorkflows(ctx context.Context, open server.Opener) (found []string) {
	var names []string
	for _, m := range recent(ctx, open) {
		name := cmp.Or(m.Correlation, m.ID)
		if !slices.Contains(names, name) {
			names = append(names, name)
			found = append(found, Described(name, m.About))
		}
	}
	return found
}
