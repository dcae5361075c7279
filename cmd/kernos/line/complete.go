package line

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kernos/client"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/jsonvalue"
	"kernos/internal/patience"
	"kernos/internal/visible"
)

// completionTime is how long a completion may ask a server. One that is stopped refuses at once; a person waits as
// long as this for one that hangs.
const completionTime = 500 * time.Millisecond

// CompleteCall completes a call: modules, methods, parameters and their values. If no server
// answers, it goes by definitions, and by what the cache has.
func CompleteCall(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	all := Completions(args, word)
	if all == nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	directive := cobra.ShellCompDirectiveNoFileComp
	if len(all) > 0 && !slices.ContainsFunc(all, complete) {
		directive |= cobra.ShellCompDirectiveNoSpace // more comes after it
	}
	return all, directive
}

// complete reports whether nothing comes after a completion.
func complete(completion string) bool {
	text, _, _ := strings.Cut(completion, "\t")
	return !strings.HasSuffix(text, "/") && !strings.HasSuffix(text, "=")
}

// CompleteModules completes the first word of a command line: commands are known to the
// shell already, and these are the modules.
func CompleteModules(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return Completions(nil, word), cobra.ShellCompDirectiveNoFileComp
}

// Completions returns what can stand where word does; nil means a file.
func Completions(args []string, word string) []string {
	if n := len(args); n > 0 && (args[n-1] == "@" || strings.HasSuffix(args[n-1], "=@")) {
		return nil // bash splits words at @, and completes the name of the file by itself
	}
	line, err := Read(args)
	if err != nil { // a flag whose value is being written
		if own, _, _ := FindFlag(args[len(args)-1]); own != nil {
			return ownValues(own, word)
		}
		return []string{}
	}
	if own, value, hasValue := FindFlag(word); own != nil && hasValue {
		return ownValues(own, value)
	}
	server, err := server.FindServer(line.Context, line.Server)
	if err != nil {
		return []string{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience.For(completionTime))
	defer cancel()
	one := &call{Line: line, root: &cobra.Command{}, screen: &terminal.Screen{Out: os.Stderr, Err: new(strings.Builder)}, cache: client.OpenCache(""), server: server}
	defer one.close()
	if !one.consult(ctx) {
		if one.catalog, err = one.cache.Latest(server.Target); err != nil {
			return []string{}
		}
	}
	ctx = one.patience(ctx)
	if len(line.Words) == 0 {
		return nameCompletions(one.catalog, word)
	}
	if module := one.catalog.Module(line.Words[0]); module != nil && len(line.Words) == 1 && !line.HasParameters && !strings.HasPrefix(word, "-") {
		return one.methodCompletions(ctx, module, word)
	}
	if one.find(ctx) != nil || one.method == nil {
		return []string{}
	}
	return one.parameterCompletions(ctx, word)
}

// patience returns ctx, which bounds what a server is asked, or a context without an end if definitions in this process
// answer.
func (c *call) patience(ctx context.Context) context.Context {
	if c.kernel != nil && c.kernel.DefinitionsOnly() {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// consult asks the server, if it runs, whether what it offers has changed, and for what the cache does not have then.
// It reports whether there is an answer: the catalog has it then.
func (c *call) consult(ctx context.Context) bool {
	kernel, err := c.server.Open(ctx, server.Options{ReadOnly: true})
	if err != nil {
		return false
	}
	c.kernel = kernel
	catalog, err := kernel.Discover(c.patience(ctx), c.cache)
	if err != nil {
		return false
	}
	c.catalog = catalog
	return true
}

// ownValues completes the value of a flag of kernos call itself.
func ownValues(own *pflag.Flag, word string) []string {
	switch {
	case FlagWords(own) != nil:
		return beginning(FlagWords(own), word)
	case own.Name == "context":
		if all, err := server.ReadContexts(); err == nil {
			return beginning(all.Names(), word)
		}
	case own.Name == "data" && strings.HasPrefix(word, "@"):
		return Files("@", word[1:])
	case own.Name == "template":
		return nil
	}
	return []string{}
}

// beginning returns the words that begin like this one.
func beginning(words []string, word string) []string {
	found := []string{}
	for _, w := range words {
		if strings.HasPrefix(w, word) {
			found = append(found, w)
		}
	}
	return found
}

// Described returns a completion with its explanation.
func Described(text, about string) string {
	if about = visible.Text(about); about == "" {
		return text
	}
	return text + "\t" + terminal.Clip(about, 70)
}

// nameCompletions completes the name of what is called: a module, or a whole method if that
// is how it begins, as a type or with an underscore.
func nameCompletions(c *client.Catalog, word string) []string {
	found := []string{}
	for _, m := range c.Modules {
		if strings.HasPrefix(m.Namespace, word) {
			found = append(found, Described(m.Namespace, m.Description))
		}
		for _, name := range m.Methods {
			if full := m.Namespace + "_" + name; strings.Contains(word, "_") && strings.HasPrefix(full, word) {
				found = append(found, full)
			}
		}
	}
	if first, _ := utf8.DecodeRuneInString(word); unicode.IsUpper(first) {
		found = append(found, typeCompletions(c, word)...)
	}
	return found
}

// typeCompletions completes a type, as far as the server's methods are known here by theirs.
func typeCompletions(c *client.Catalog, word string) (found []string) {
	for _, m := range c.Modules {
		for _, name := range m.Methods {
			route, ok := builtIn(m.Namespace + "_" + name)
			if ok && strings.HasPrefix(string(route.Type), word) {
				found = append(found, Described(string(route.Type), route.Syscall.Summary))
			}
		}
	}
	return found
}

func (c *call) methodCompletions(ctx context.Context, m *client.Module, word string) []string {
	found := []string{}
	for _, name := range m.Methods {
		if !strings.HasPrefix(name, word) {
			continue
		}
		about := ""
		if method, err := c.catalog.Method(ctx, m.Namespace, name); err == nil {
			about = cmp.Or(method.Title, method.Description)
		}
		found = append(found, Described(name, about))
	}
	return found
}

// parameterCompletions completes a flag, or the value of one.
func (c *call) parameterCompletions(ctx context.Context, word string) []string {
	if i := slices.Index(c.Args, "--"); i >= 0 {
		return c.placeCompletions(ctx, c.Args[:i], len(c.Args)-i-1, word)
	}
	if n := len(c.Args); n > 0 && strings.HasPrefix(c.Args[n-1], "--") && !strings.Contains(c.Args[n-1], "=") {
		if f := FindField(c.method, c.Args[n-1][2:]); f != nil && f.Scalar() != "boolean" {
			return c.valueCompletions(ctx, f, "", word)
		}
	}
	for _, before := range []string{"--", ""} {
		name, value, ok := strings.Cut(strings.TrimPrefix(word, before), "=")
		if !ok || before == "--" && !strings.HasPrefix(word, "--") {
			continue
		}
		if path, ok := strings.CutPrefix(value, "@"); ok {
			return Files(strings.TrimSuffix(word, path), path)
		}
		if f := FindField(c.method, name); f != nil {
			if before == "--" {
				return c.valueCompletions(ctx, f, "", value) // the shells know about --NAME=
			}
			return c.valueCompletions(ctx, f, name+"=", value)
		}
	}
	found := c.positionalCompletions(ctx, word)
	if word != "" && len(found) > 0 {
		return found
	}
	given := strings.Join(c.Args, "\n") + "\n"
	params, _ := (&Line{Args: c.Args, Words: c.Words}).Parameters(c.method, Input{}) // what can't be read isn't given yet
	for _, name := range FieldNames(&c.method.Field) {
		f := c.method.Find(name)
		flag := "--" + FlagName(name)
		if IsReserved(FlagName(name)) { // kernos call has a flag of this name
			flag = name + "="
		}
		if !strings.HasPrefix(flag, word) || f.Scalar() != "array" && (strings.Contains(given, flag+"\n") || jsonvalue.Members(params).Has(name)) {
			continue
		}
		about := f.Description
		if required(&c.method.Field, name) {
			about = strings.TrimSpace("required. " + about)
		}
		found = append(found, Described(flag, about))
	}
	new(Flags).Own(c.method).VisitAll(func(own *pflag.Flag) {
		if flag := "--" + own.Name; strings.HasPrefix(flag, word) && word != "" && !own.Hidden && !c.Given(own.Name) {
			found = append(found, Described(flag, own.Usage))
		}
	})
	return found
}

// positionalCompletions completes the value of the next parameter that needs no name and isn't given.
func (c *call) positionalCompletions(ctx context.Context, word string) []string {
	places := Positional(c.method)
	if len(places) == 0 || strings.HasPrefix(word, "-") {
		return []string{}
	}
	params, err := (&Line{Args: c.Args, Words: c.Words}).Parameters(c.method, Input{})
	i := slices.IndexFunc(places, func(f *client.Field) bool { return !jsonvalue.Members(params).Has(f.Name) })
	if err != nil || i < 0 {
		return []string{}
	}
	f := places[i]
	if found := c.valueCompletions(ctx, f, "", word); found != nil {
		return found
	}
	return Files("", word)
}

// required reports whether a parameter must be given: one within another if that must be,
// too.
func required(f *client.Field, path string) bool {
	for _, inner := range f.Fields {
		if rest, ok := strings.CutPrefix(path, inner.Name); ok && inner.Required {
			if rest == "" || rest[0] == '.' && required(inner, rest[1:]) {
				return true
			}
		}
	}
	return false
}

// placeCompletions completes a value after --. values is the number of values before it.
func (c *call) placeCompletions(ctx context.Context, before []string, values int, word string) []string {
	params, err := (&Line{Args: before, Words: c.Words}).Parameters(c.method, Input{})
	if err != nil {
		return []string{}
	}
	given := jsonvalue.Members(params)
	for _, f := range Positions(c.method) {
		if given.Has(f.Name) {
			continue
		}
		if values == 0 || f.Scalar() == "array" {
			return c.valueCompletions(ctx, f, "", word)
		}
		values--
	}
	return []string{}
}

// valueCompletions completes the value of a parameter: what the schema lists, or what the
// server has.
func (c *call) valueCompletions(ctx context.Context, f *client.Field, before, word string) []string {
	values := Values(f)
	if f.Scalar() == "boolean" {
		values = []string{"true", "false"}
	}
	if values == nil {
		values = c.listed(ctx, f, word)
		if values == nil && isFile(f) {
			return nil
		}
	}
	found := beginning(values, word)
	for i := range found {
		found[i] = before + found[i]
	}
	return found
}
