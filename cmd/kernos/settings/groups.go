package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Group is some flags of a command, under a title of their own in its help text.
type Group struct {
	Title string
	Names []string
}

// ServeGroups are the settings of kernos serve in the order of its help text: first those that most
// people need.
var ServeGroups = []Group{
	{"What most people need", []string{"addr", "no-http", "allow-host", "tls-cert", "tls-key", "auth-key", "directory", "mount", "journal-size", "journal-age"}},
	{"Callers over TCP", []string{"token-file", "no-token", "allow-origin", "oauth-issuer", "request-rate", "insecure-listen-without-tls", "insecure-listen-without-token", "insecure-listen-without-signature"}},
	{"Several machines (docs/CLUSTER.md)", []string{"cluster-listen", "cluster-peers", "cluster-secret", "cluster", "cluster-name", "cluster-address", "cluster-credentials", "cluster-ca", "cluster-cert", "cluster-key"}},
	{"Limits", []string{"max-connections", "in-flight", "in-flight-all", "jobs", "frame-rate", "timeout", "line-time", "stall", "idle", "grace", "idempotency-ttl"}},
	{"Web requests (Http.Fetch)", []string{"fetch-allow", "fetch-deny", "fetch-only", "fetch-retries", "max-body"}},
	{"Language models", []string{"models", "embeddings"}},
	{"Secrets", []string{"seal-key", "require-agent", "open-unbound-secrets"}},
	{"Files and tools", []string{"execute", "development"}},
}

// Usage writes how a command is used, with its flags in groups. Flags that are in none come last,
// under the title others.
func Usage(c *cobra.Command, groups []Group, others string) error {
	examples := ""
	if c.Example != "" {
		examples = "\n\nExamples:\n" + c.Example
	}
	_, err := fmt.Fprintf(c.OutOrStderr(), "Usage:\n  %s%s\n%s", c.UseLine(), examples, grouped(c.Flags(), groups, others))
	return err
}

func grouped(flags *pflag.FlagSet, groups []Group, others string) string {
	var b strings.Builder
	write := func(title string, names []string) {
		group := pflag.NewFlagSet(title, pflag.ContinueOnError)
		group.SortFlags = false
		for _, name := range names {
			if f := flags.Lookup(name); f != nil {
				group.AddFlag(f)
			}
		}
		if group.HasAvailableFlags() {
			b.WriteString("\n" + title + ":\n" + group.FlagUsagesWrapped(wrapped))
		}
	}
	var listed, rest []string
	for _, g := range groups {
		write(g.Title, g.Names)
		listed = append(listed, g.Names...)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(listed, f.Name) {
			rest = append(rest, f.Name)
		}
	})
	write(others, rest)
	return b.String()
}

// wrapped is how many columns the help text of flags has.
const wrapped = 110
