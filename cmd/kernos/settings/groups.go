package settings

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// groups are the settings of kernos serve in the order of its help text: first those that most
// people need.
var groups = []struct {
	title string
	names []string
}{
	{"What most people need", []string{"addr", "no-http", "allow-host", "tls-cert", "tls-key", "auth-key", "directory", "mount", "journal-size", "journal-age"}},
	{"Callers over TCP", []string{"token-file", "no-token", "allow-origin", "request-rate", "insecure-listen-without-tls", "insecure-listen-without-token", "insecure-listen-without-signature"}},
	{"Limits", []string{"max-connections", "in-flight", "in-flight-all", "jobs", "frame-rate", "timeout", "line-time", "stall", "idle", "grace", "idempotency-ttl"}},
	{"Web requests (Http.Fetch)", []string{"fetch-allow", "fetch-deny", "fetch-only", "fetch-retries", "max-body"}},
	{"Language models", []string{"models"}},
	{"Secrets", []string{"seal-key", "require-agent", "open-unbound-secrets"}},
	{"Files and tools", []string{"execute", "development"}},
}

// Grouped returns the help text of the flags of kernos serve, in groups.
func Grouped(flags *pflag.FlagSet) string {
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
	var listed, others []string
	for _, g := range groups {
		write(g.title, g.names)
		listed = append(listed, g.names...)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(listed, f.Name) {
			others = append(others, f.Name)
		}
	})
	write("Other", others)
	return b.String()
}

// wrapped is how many columns the help text of flags has.
const wrapped = 110
