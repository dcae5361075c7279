package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/calling"
	"kernos/cmd/kernos/callline"
	"kernos/cmd/kernos/recorded"
	"kernos/cmd/kernos/syscalls"
	"kernos/cmd/kernos/terminal"
	"kernos/daemon"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// A known returns the values that complete a word of a command line, each with an explanation after
// a tab. It starts nothing.
type known func(ctx context.Context, open opener) []string

// completes makes a completion function of known values.
func (k *kernels) completes(values known) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), calling.CompletionTime)
		defer cancel()
		found := slices.DeleteFunc(values(ctx, k.running), func(v string) bool { return !strings.HasPrefix(v, word) })
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// firstArgument completes the first argument of a command only.
func firstArgument(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(c, args, word)
	}
}

// completesFirst completes the first argument of a command with known values.
func (k *kernels) completesFirst(values known) cobra.CompletionFunc {
	return firstArgument(k.completes(values))
}

// completeParameter completes the first argument of a command as the value of the parameter that a method requires.
func completeParameter(module, method string) cobra.CompletionFunc {
	return firstArgument(func(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		found, directive := calling.CompleteCall(c, []string{module, method}, word)
		return slices.DeleteFunc(found, callline.IsFlag), directive
	})
}

func knownKinds(context.Context, opener) []string {
	return []string{"command", "query", "event", "reply", "error"}
}

// knownTypes are the types of syscalls, those of a kernel that is running or else the built-in ones.
func knownTypes(ctx context.Context, open opener) (found []string) {
	if call, done, err := open(ctx); err == nil {
		all, err := syscalls.Catalog(ctx, call)
		_ = done()
		if err == nil {
			for _, e := range all {
				found = append(found, calling.Described(string(e.Type), e.Summary))
			}
			return found
		}
	}
	r, err := daemon.Definitions()
	if err != nil {
		return nil
	}
	for _, t := range r.All().Types() {
		s, _ := r.Lookup(t)
		found = append(found, calling.Described(string(t), s.Summary))
	}
	return found
}

// knownModules are the modules of the syscalls.
func knownModules(ctx context.Context, open opener) (found []string) {
	for _, t := range knownTypes(ctx, open) {
		module, _ := kernel.Method(message.Type(strings.SplitN(t, "\t", 2)[0]))
		if !slices.Contains(found, module) {
			found = append(found, module)
		}
	}
	return found
}

// knownPatterns are the types, and the domains with a star.
func knownPatterns(ctx context.Context, open opener) (found []string) {
	for _, t := range knownTypes(ctx, open) {
		domain, _, dotted := strings.Cut(strings.SplitN(t, "\t", 2)[0], ".")
		if pattern := domain + ".*"; dotted && !slices.Contains(found, pattern) {
			found = append(found, pattern)
		}
		found = append(found, t)
	}
	return found
}

// knownPrincipals are the owner and the names of the tokens.
func knownPrincipals(ctx context.Context, open opener) []string {
	return append([]string{string(principal.OwnerID)}, knownTokens(ctx, open)...)
}

// knownTokens are the names of the tokens of a kernel that is running; only its owner may list them.
func knownTokens(ctx context.Context, open opener) (found []string) {
	call, done, err := open(ctx)
	if err != nil {
		return nil
	}
	defer func() { _ = done() }()
	all, err := listTokens(ctx, call)
	if err != nil {
		return nil
	}
	for i := range all {
		found = append(found, calling.Described(all[i].Name, "token "+string(all[i].Preset)))
	}
	return found
}

// recentCount is how many of the latest messages complete ids.
const recentCount = 50

// recent returns the latest messages of a kernel that is running.
func recent(ctx context.Context, open opener) []recorded.Recent {
	call, done, err := open(ctx)
	if err != nil {
		return nil
	}
	defer func() { _ = done() }()
	all, err := recorded.New(call, &terminal.Screen{Now: time.Now()}, nil).Recent(ctx, recentCount)
	if err != nil {
		return nil
	}
	return all
}

// knownIDs are the ids of the latest messages.
func knownIDs(ctx context.Context, open opener) (found []string) {
	for _, m := range recent(ctx, open) {
		found = append(found, calling.Described(m.ID, m.About))
	}
	return found
}

// knownWorkflows are the correlations of the latest messages, and the ids of those that have none.
func knownWorkflows(ctx context.Context, open opener) (found []string) {
	var names []string
	for _, m := range recent(ctx, open) {
		name := m.Correlation
		if name == "" {
			name = m.ID
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
			found = append(found, calling.Described(name, m.About))
		}
	}
	return found
}
