package archtest

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
)

// module is the path of this module, which make module changes.
var module = strings.TrimSuffix(reflect.TypeFor[step]().PkgPath(), "/internal/archtest")

// A step is a set of packages that don't know each other: siblings. A package may import packages of lower floors, and
// of lower steps of its own floor. A pattern with a star stands for all folders in its place that no step before has.
type step []string

// floors lists the folders from the ground up; the table in docs/ARCHITECTURE.md has the same floors and steps, and says
// what lives on each.
var floors = [...][]step{
	0: {
		{
			"internal/backoff", "internal/durable", "internal/embed", "internal/embed/encoder", "internal/exit", "internal/fence",
			"internal/jsonscan", "internal/jsonvalue", "internal/llama", "internal/llama/kernosdemo", "internal/mcp", "internal/nearest",
			"internal/outbound", "internal/owned", "internal/patience", "internal/phrase", "internal/process", "internal/quantity", "internal/recent",
			"internal/rootdir", "internal/sse", "internal/systemd", "internal/uri", "internal/visible",
			"internal/testkit", "internal/testkit/tool", "internal/testkit/tty", "internal/testkit/wire", "console/build", "docs",
		},
		{"internal/clientconfig", "internal/ranked", "internal/secret", "internal/when", "internal/testkit/browser", "internal/testkit/tool/setup"},
		{"internal/sealed"},
	},
	1: {{"message", "schema", "store"}},
	2: {
		{"message/*", "store/archive", "store/blobs", "store/cursor", "store/pebble", "store/storetest", "store/vectors"},
		{"store/replicated"},
		{"store/replicated/*"},
	},
	3: {{"kernel/idempotency", "kernel/principal"}, {"kernel"}, {"kernel/connection"}, {"kernel/kerneltest"}},
	4: {{"journal/words", "cluster"}, {"journal", "work"}},
	5: {
		{
			"capability/mcphost/client", "capability/memory/namespace", "capability/model/cassette", "capability/model/conversation",
			"capability/script/engine", "transport", "transport/mcp/jsonrpc", "transport/rpc",
		},
		{"capability/lifecycle", "capability/script", "capability/model/demo"},
		{"capability/*", "transport/*", "transport/mcp/bridge"},
		{
			"capability/vfs/dirfs", "capability/vfs/httpfs", "capability/vfs/kernelfs", "capability/vfs/mcpfs", "capability/vfs/memoryfs",
			"capability/vfs/vfstest", "capability/model/modeltest",
		},
		{"capability/vfs/mounts"},
	},
	6: {{"client"}, {"console"}},
	7: {{"cluster/clustertest", "cluster/door", "cluster/server"}, {"daemon"}, {"daemon/daemontest"}},
	8: {
		{"cmd/kernos/settings"},
		{"cmd/kernos/service", "cmd/kernos/terminal"},
		{"cmd/kernos/server"},
		{"cmd/kernos/record"},
		{"cmd/kernos/line"},
		{"cmd/kernos/backup", "cmd/kernos/chat", "cmd/kernos/doctor", "cmd/kernos/pipe"},
		{"cmd/kernos"},
	},
	9: {
		{"sdk/*"},
		{
			"conformance", "conformance/cluster", "conformance/console", "conformance/mcp", "internal/archtest", "internal/attack", "examples/*", "examples/*/*", "sdk",
			"packaging",
		},
	},
}

// pure lists the packages that import nothing but the standard library and this module.
var pure = []string{"internal/jsonscan", "internal/sealed", "internal/secret", "internal/outbound", "message", "message/ndjson", "message/osevent"}

// forTests lists the packages that tests import, and nothing else does.
var forTests = []string{"cluster/clustertest", "store/storetest", "store/replicated/logtest", "capability/model/modeltest", "daemon/daemontest", "capability/vfs/vfstest", "internal/testkit", "internal/testkit/tty", "internal/testkit/browser",
	"internal/testkit/tool", "internal/testkit/tool/setup", "internal/testkit/wire", "kernel/kerneltest"}

// place returns the floor of a package of this module, given by its folder, and its step there.
func place(folder string) (floor, step int, ok bool) {
	for floor, steps := range floors {
		for step, patterns := range steps {
			for _, p := range patterns {
				if ok, err := path.Match(p, folder); err == nil && ok {
					return floor, step, true
				}
			}
		}
	}
	return 0, 0, false
}

// violation reports what is wrong with one import, or returns "".
func violation(folder, imported string) string {
	floor, step, ok := place(folder)
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
	toFloor, toStep, ok := place(target)
	switch {
	case slices.Contains(forTests, target) && !slices.Contains(forTests, folder):
		return fmt.Sprintf("%s imports %s, which is for tests only", folder, target)
	case !ok:
		return fmt.Sprintf("%s imports %s, which is on no floor", folder, target)
	case toFloor > floor || toFloor == floor && toStep > step:
		return fmt.Sprintf("%s (floor %d, step %d) imports %s (floor %d, step %d): up", folder, floor, step, target, toFloor, toStep)
	case toFloor == floor && toStep == step:
		return fmt.Sprintf("%s imports %s on the same step of floor %d: sideways", folder, target, floor)
	}
	return ""
}
