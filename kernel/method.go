package kernel

import (
	"fmt"
	"hash/fnv"
	"io"
	"strings"

	"kernos/message"
)

// coreNamespace is where RPC finds the types of one segment: kernel_ping, kernel_echo.
const coreNamespace = "kernel"

// Method returns the names that a type has in RPC, where a method is called
// namespace_method: Content.Hydrate is content and hydrate, Job.TreeCreate is job and
// tree_create, VFS.Read is vfs and read. Ping and Echo, which have no domain, belong to
// the namespace kernel. The type must be valid.
func Method(t message.Type) (namespace, method string) {
	namespace = strings.ToLower(t.Domain())
	if namespace == "" {
		namespace = coreNamespace
	}
	return namespace, snake(t.Action())
}

// ToolName returns the name that models know a syscall by, Domain_Action, of letters, digits, _ and - only.
// A name that would be longer than longest ends with a hash of the type instead of its last letters.
func ToolName(t message.Type, longest int) string {
	name := []byte(strings.Replace(string(t), ".", "_", 1))
	for i, c := range name {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			name[i] = '_'
		}
	}
	if len(name) == 0 {
		return "_"
	}
	if len(name) > longest {
		h := fnv.New32a()
		_, _ = io.WriteString(h, string(t))
		return fmt.Sprintf("%s_%08x", name[:longest-9], h.Sum32())
	}
	return string(name)
}

// MethodName returns the name of a method as models write it: namespace_method.
func MethodName(t message.Type) string {
	namespace, method := Method(t)
	return namespace + "_" + method
}

// TypeOf returns the type that an unknown method is recorded under: Job.TreeCreate for job_tree_create. A name that no
// type can have is [message.ValidationFailed].
func TypeOf(method string) message.Type {
	if t := message.Type(method); t.Valid() {
		return t
	}
	namespace, name, _ := strings.Cut(method, "_")
	t := pascal(namespace) + "." + pascal(name)
	if !message.Type(t).Valid() {
		return message.ValidationFailed
	}
	return message.Type(t)
}

// pascal is the way back from snake, except for rows of capitals.
func pascal(s string) (name string) {
	for word := range strings.SplitSeq(s, "_") {
		if word != "" {
			name += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return name
}

// snake puts an underscore before each word of a name in PascalCase and makes it lower
// case. A row of capitals is one word: GetURLOf is get_url_of.
func snake(s string) string {
	upper := func(i int) bool { return 'A' <= s[i] && s[i] <= 'Z' }
	var b strings.Builder
	for i := range len(s) {
		if i > 0 && upper(i) && (!upper(i-1) || i+1 < len(s) && 'a' <= s[i+1] && s[i+1] <= 'z') {
			b.WriteByte('_')
		}
		b.WriteByte(s[i])
	}
	return strings.ToLower(b.String())
}
