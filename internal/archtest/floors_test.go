package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// module is the path of this module.
const module = "kernos"

// floors lists the folders from the ground up; the table in docs/ARCHITECTURE.md has the same floors, and
// lists what lives on each. A pattern with a star stands for all folders in its place that no lower floor
// names. A package may import packages of lower floors only; two packages of one floor are siblings and
// don't know each other.
var floors = [...][]string{
	0: {
		"internal/backoff", "internal/durable", "internal/embed", "internal/embed/encoder", "internal/fence", "internal/jsonscan",
		"internal/jsonvalue", "internal/llama", "internal/llama/kernosdemo", "internal/mcp", "internal/nearest", "internal/outbound", "internal/phrase",
		"internal/owned", "internal/patience", "internal/process", "internal/quantity", "internal/recent", "internal/rootdir", "internal/sse", "internal/uri", "internal/visible",
		"internal/testkit", "internal/testkit/browser", "internal/testkit/tty", "internal/testkit/wire", "console/build",
	},
	1: {"internal/ranked", "internal/secret"},
	2: {"message", "schema", "store", "internal/sealed"},
	3: {"message/ndjson", "message/osevent", "store/*", "internal/cursor", "capability/script/engine", "capability/mcphost/client", "capability/model/cassette"},
	4: {"kernel/idempotency", "kernel/principal"},
	5: {"kernel"},
	6: {"kernel/connection", "journal/words"},
	7: {"transport", "transport/rpc", "journal", "work", "kernel/kerneltest", "capability/model/conversation"},
	8: {"capability/memory/namespace", "capability/script", "capability/model/demo", "transport/mcp/jsonrpc"},
	9: {"capability/*", "transport/*", "transport/mcp/bridge"},
	10: {
		"capability/vfs/dirfs", "capability/vfs/httpfs", "capability/vfs/kernelfs", "capability/vfs/mcpfs", "capability/vfs/memoryfs",
		"capability/vfs/vfstest", "capability/model/modeltest",
	},
	11: {"capability/vfs/mounts"},
	12: {"client"},
	13: {"console"},
	14: {"daemon"},
	15: {"cmd/kernos/exit", "daemon/daemontest"},
	16: {"cmd/kernos/settings", "cmd/kernos/logfile", "cmd/kernos/converting"},
	17: {"cmd/kernos/terminal", "cmd/kernos/request"},
	18: {"cmd/kernos/output", "cmd/kernos/recorded", "cmd/kernos/markdown", "cmd/kernos/models", "cmd/kernos/mounted", "cmd/kernos/tokens"},
	19: {"cmd/kernos/callline", "cmd/kernos/clients"},
	20: {"cmd/kernos/connect", "cmd/kernos/syscalls"},
	21: {
		"cmd/kernos/calling", "cmd/kernos/chat", "cmd/kernos/document", "cmd/kernos/piping", "cmd/kernos/handling", "cmd/kernos/doctor",
		"cmd/kernos/backup", "cmd/kernos/serving",
	},
	22: {"cmd/kernos"},
	23: {
		"conformance", "conformance/console", "conformance/mcp", "internal/archtest", "internal/attack", "examples/*", "examples/*/*", "sdk",
		"docs",
	},
}

// pure lists the packages that import nothing but the standard library and this module.
var pure = []string{"internal/jsonscan", "internal/sealed", "internal/secret", "internal/outbound", "message", "message/ndjson", "message/osevent"}

// forTests lists the packages that tests import, and nothing else does.
var forTests = []string{"capability/model/modeltest", "daemon/daemontest", "capability/vfs/vfstest", "internal/testkit", "internal/testkit/tty", "internal/testkit/browser", "internal/testkit/wire", "kernel/kerneltest"}

// floor returns the floor of a package of this module, given by its folder.
func floor(folder string) (int, bool) {
	for i, patterns := range floors {
		for _, p := range patterns {
			if ok, err := path.Match(p, folder); err == nil && ok {
				return i, true
			}
		}
	}
	return 0, false
}

// violation reports what is wrong with one import, or returns "".
func violation(folder, imported string) string {
	from, ok := floor(folder)
	if !ok {
		return fmt.Sprintf("%s is on no floor: give it a place in the table", folder)
	}
	target, ours := strings.CutPrefix(imported, module+"/")
	if !ours {
		first, _, _ := strings.Cut(imported, "/")
		if strings.Contains(first, ".") && slices.Contains(pure, folder) {
			return fmt.Sprintf("%s imports %s; it may use the standard library only", folder, imported)
		}
		return ""
	}
	to, ok := floor(target)
	switch {
	case slices.Contains(forTests, target) && !slices.Contains(forTests, folder):
		return fmt.Sprintf("%s imports %s, which is for tests only", folder, target)
	case !ok:
		return fmt.Sprintf("%s imports %s, which is on no floor", folder, target)
	case to > from:
		return fmt.Sprintf("%s (floor %d) imports %s (floor %d): up", folder, from, target, to)
	case to == from:
		return fmt.Sprintf("%s imports %s on the same floor %d: sideways", folder, target, from)
	}
	return ""
}
