package mcp

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/internal/mcp"
	"kernos/transport/mcp/jsonrpc"
)

// log sends the client a log message. The data is JSON.
func (x *exchange) log(level, logger string, data []byte) {
	x.notify("notifications/message", logParams(level, logger, data))
}

func logParams(level, logger string, data []byte) []byte {
	return jsonvalue.Marshal(struct {
		Level  string         `json:"level"`
		Logger string         `json:"logger"`
		Data   jsontext.Value `json:"data"`
	}{level, logger, data})
}

// levels are those of log messages, from the least important.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// logs reports whether the client wants log messages of a level, given the _meta of its request. One that hasn't
// asked for any gets none.
func (c *client) logs(level string, meta []byte) bool {
	wanted := jsonscan.Unquote(jsonscan.Member(meta, mcp.MetaLogLevel))
	if s := c.session; s != nil {
		wanted = s.logLevel()
	}
	least := slices.Index(levels, wanted)
	return least >= 0 && slices.Index(levels, level) >= least
}

// setLevel answers logging/setLevel.
func setLevel(x *exchange) {
	level := jsonscan.Unquote(jsonscan.Member(x.Params, "level"))
	if !slices.Contains(levels, level) {
		x.fail(jsonrpc.Invalid("Invalid params: level must be one of " + strings.Join(levels, ", ")))
		return
	}
	x.client.session.setLogLevel(level)
	x.respond(nil)
}
