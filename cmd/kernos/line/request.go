package line

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"kernos/client"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/message"
)

// showRequest shows the request that would be sent, and sends nothing.
func (c *call) showRequest(params json.RawMessage) error {
	switch c.As {
	case "ndjson":
		line, err := c.ndjsonRequest(params)
		if err != nil {
			return err
		}
		return c.screen.Line(string(line))
	case "curl":
		return c.screen.Line(c.curlRequest(params))
	}
	text, err := client.Request{Method: c.fullName(), Params: []any{params}, Metadata: c.Message}.Frame(1)
	if err != nil {
		return exit.Wrap(err)
	}
	return c.screen.Line(string(text))
}

// ndjsonRequest returns the call as a message, for kernos pipe.
func (c *call) ndjsonRequest(params json.RawMessage) ([]byte, error) {
	m := message.Message{Data: messageData(params)}
	m.Kind, m.Type = c.messageType()
	if !m.Type.Valid() {
		return nil, &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("%s has no name as a message; write it as a type: kernos call Domain.Action", c.fullName())}
	}
	m.Metadata = message.Metadata{
		ID: "call-1", Timestamp: time.Now().UnixMilli(),
		Correlation: c.Message.Correlation, Causation: message.ID(c.Message.Causation), IdempotencyKey: c.Message.IdempotencyKey,
	}
	return message.Append(nil, &m), nil
}

// messageData returns what a message has for the parameters of a method: only in the schema of a
// module does a field called method have another name.
func messageData(params json.RawMessage) json.RawMessage {
	members := jsonvalue.Members(params)
	if !members.Has(RenamedMethod) || members.Has(FlagName(RenamedMethod)) {
		return params
	}
	for i := range members {
		members[i].Name = FlagName(members[i].Name)
	}
	return members.Text()
}

// messageType returns the kind and the type of the message for a method: those of a syscall that is
// known here, or a command with the type as it was written, or as a method of this name usually has it.
func (c *call) messageType() (message.Kind, message.Type) {
	if route, ok := builtIn(c.fullName()); ok {
		return route.Syscall.Kind, route.Type
	}
	if t := message.Type(c.Words[0]); len(c.Words) == 1 && t.Valid() {
		if module, method := kernel.Method(t); module == c.module && method == c.name {
			return message.KindCommand, t
		}
	}
	pascal := func(name string) (s string) {
		for word := range strings.SplitSeq(name, "_") {
			if word != "" {
				s += strings.ToUpper(word[:1]) + word[1:]
			}
		}
		return s
	}
	return message.KindCommand, message.Type(pascal(c.module) + "." + pascal(c.name))
}

// curlRequest returns the call as a command line of curl.
func (c *call) curlRequest(params json.RawMessage) string {
	words := []string{"curl", "-sS"}
	url := c.server.Target.URL
	if scheme, path, _ := strings.Cut(url, "://"); strings.Contains(scheme, "unix") {
		words = append(words, "--unix-socket", terminal.ShellQuote(path))
		url = "http://localhost"
	} else {
		host, _, _ := strings.Cut(path, "/")
		url = strings.Replace(scheme, "ws", "http", 1) + "://" + host
		if c.server.Target.CAFile != "" {
			words = append(words, "--cacert", terminal.ShellQuote(c.server.Target.CAFile))
		}
		if c.server.Target.Token != "" {
			words = append(words, "-H", `"Authorization: Bearer $KERNOS_TOKEN"`) // the token itself is not for a screen
		}
	}
	for _, h := range [][2]string{{"X-Correlation-Id", c.Message.Correlation}, {"X-Causation-Id", c.Message.Causation}, {"Idempotency-Key", c.Message.IdempotencyKey}} {
		if h[1] != "" {
			words = append(words, "-H", terminal.ShellQuote(h[0]+": "+h[1]))
		}
	}
	words = append(words, "-H", "'Content-Type: application/json'", "-d", terminal.ShellQuote(string(params)), terminal.ShellQuote(url+"/v1/call/"+c.module+"/"+c.name))
	return strings.Join(words, " ")
}
