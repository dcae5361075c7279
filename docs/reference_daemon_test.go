package docs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kernos/capability/memory"
	"kernos/capability/script"
	"kernos/capability/vfs"
	"kernos/cmd/kernos/settings"
	"kernos/daemon"
	"kernos/daemon/daemontest"
	"kernos/internal/jsonscan"
	"kernos/internal/quantity"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/store/vectors"
	httpd "kernos/transport/http"
	"kernos/transport/mcp/jsonrpc"
	"kernos/transport/rpc"
	"kernos/transport/ws"
)

func httpPage() string {
	p := newSheet("HTTP")
	p.paragraph(`The daemon serves HTTP at ` + "`" + daemon.DefaultAddress + "`" + `, and on its socket at the path that ` + "`kernos status`" + ` shows. A request over TCP needs a
token, ` + "`Authorization: Bearer TOKEN`" + `, except for the paths that are open. ` + "`/openapi.json`" + ` describes all of it for programs, with
a path for each syscall that the caller may call.`)
	var rows [][]string
	for _, r := range httpd.Routes() {
		methods := strings.Join(r.Methods, ", ")
		if methods == "" {
			methods = "any"
		}
		token := "token"
		if r.Open {
			token = "open"
		}
		summary := r.Summary
		for _, q := range r.Query {
			summary += fmt.Sprintf(" `%s`: %s", q.Name, q.Summary)
		}
		rows = append(rows, []string{methods, "`" + strings.TrimSuffix(r.Path, "{$}") + "`", token, r.Takes, r.Gives, summary})
	}
	p.table([]string{"method", "path", "", "takes", "gives", ""}, rows)
	p.paragraph(`[wire.md](wire.md#http) has the headers of calls, and the form of streams; [errors.md](errors.md#refusals-of-http) the answers to requests that are refused.`)
	return p.String()
}

func limitsPage(t *testing.T) string {
	t.Helper()
	p := newSheet("Limits")
	p.paragraph("## Settings")
	p.paragraph("These are defaults; [settings.md](settings.md) has the names in config.yaml.")
	flags, rows := serveFlags(), [][]string(nil)
	for _, name := range append([]string{"journal-size", "journal-age", "request-rate", "max-body"}, limitNames(t)...) {
		s := describe(t, flags, name)
		rows = append(rows, []string{"`" + name + "`", s.initial(), sentence(s.meaning)})
	}
	p.table([]string{"setting", "default", ""}, rows)

	p.paragraph("## Messages and data")
	web := httpd.Defaults()
	p.table([]string{"", "at most", "beyond it"}, [][]string{
		{"A message, as a line", size(message.MaxLine), "413; data goes to a blob, and a pointer to it into the message"},
		{"The id of a message", size(message.MaxIDLength), "422"},
		{"A type", fmt.Sprintf("%d letters", message.MaxTypeLength), "422"},
		{"Members of metadata that Kernos doesn't know", size(message.MaxExtra), "422"},
		{"Nested arrays and objects", fmt.Sprintf("%d deep", jsonscan.MaxDepth), "400"},
		{"The data in a `data` pointer", size(message.MaxInlineBlob), "422"},
		{"The text of an error, and of each of its causes", size(message.MaxErrorText) + ", " + size(message.MaxCauseText), "it is cut"},
		{"The body of a call over HTTP", size(int(web.MaxBody)), "413 body_too_large"},
		{"The headers of a request", size(web.MaxHeader), "431"},
		{"A message of MCP", size(jsonrpc.MaxMessage), "an error of JSON-RPC"},
		{"A value of the memory", size(memory.MaxValue), "413"},
		{"A file of the tree", size(vfs.MaxFile), "413"},
		{"Registered code", size(script.MaxCode), "413"},
		{"A vector", fmt.Sprintf("%d numbers", vectors.MaxDimensions), "422"},
		{"Messages of one page of the journal", fmt.Sprint(journal.MaxLimit), "more pages"},
	})

	p.paragraph("## Connections over HTTP")
	p.table([]string{"", "at most", "beyond it"}, [][]string{
		{"Requests at a time", fmt.Sprint(web.MaxRequests), "503 too_many_requests_at_once"},
		{"Open streams of one WebSocket", fmt.Sprint(rpc.DefaultSubscriptions), "an error of JSON-RPC"},
		{"Time for the headers of a request", duration(web.HeaderTime), "the connection is closed"},
		{"Time for the body of a call", duration(web.BodyTime), "408 body_too_slow"},
		{"Time without a request, by default", duration(web.Idle), "the connection is closed"},
		{"Time of a WebSocket that takes nothing", duration(ws.DefaultPatience), "the connection is closed"},
		{"Time in which a lost stream can be resumed", duration(rpc.DefaultKeepFor), "410"},
	})

	p.paragraph("## Calls")
	p.table([]string{"", "", "beyond it"}, [][]string{
		{"Time of a call, by default", duration(kernel.DefaultTimeout), "504"},
		{"Time of a write to the disk", duration(kernel.MaxCommit), "503; whether it has happened is unknown"},
		{"Time in which an idempotency key is remembered, by default", duration(kernel.DefaultIdempotencyTTL), "the command runs again"},
	})
	p.paragraph("[ARCHITECTURE.md](../ARCHITECTURE.md#who-owns-what) lists the queues, and what happens when each is full. Limits of single parameters stand in the tables of [the syscalls](syscalls.md).")
	return p.String()
}

// limitNames returns the settings of the group Limits.
func limitNames(t *testing.T) []string {
	t.Helper()
	for _, g := range settings.ServeGroups {
		if g.Title == "Limits" {
			return g.Names
		}
	}
	t.Fatal("no settings are limits")
	return nil
}

func size(bytes int) string {
	b := quantity.Bytes(bytes)
	if text := b.String(); text != strconv.Itoa(bytes) {
		return text
	}
	return fmt.Sprintf("%d bytes", bytes)
}

func duration(d time.Duration) string {
	q := quantity.Duration(d)
	return short(q.String())
}

func exitPage(t *testing.T) string {
	t.Helper()
	p := newSheet("Exit statuses")
	p.paragraph("What `kernos` ends with. An error that has been printed is on standard error.")
	rows := [][]string{{"0", "What was asked for is done."}}
	for _, c := range constants(t, "internal/exit/exit.go", "Failure") {
		rows = append(rows, []string{c.value, sentence(c.comment)})
	}
	p.table([]string{"status", ""}, rows)
	p.paragraph("A call also ends with 1 if its reply means a failure, such as a search that has found nothing.")
	return p.String()
}

func metricsPage(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kd") // its name is short, as those of sockets must be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("XDG_RUNTIME_DIR", dir)
	d := daemontest.Serve(t, &daemon.Options{Home: dir, Version: "0", Socket: &daemon.Socket{}, Web: &daemon.Web{Address: "127.0.0.1:0"}})
	made, err := d.Call(t.Context(), message.Message{Kind: message.KindCommand, Type: "Token.Create", Data: json.RawMessage(`{"name":"viewer","preset":"viewer"}`)}, nil)
	var token struct{ Token string }
	if err := errors.Join(err, json.Unmarshal(made.Data, &token)); err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequest(http.MethodGet, "http://"+d.Address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token.Token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%d %v\n%s", response.StatusCode, err, text)
	}
	d.Stop()
	help, kinds, labels := make(map[string]string), make(map[string]string), make(map[string][]string)
	var names []string
	sample, label := regexp.MustCompile(`^(\w+)(?:\{(.*)\})? `), regexp.MustCompile(`(\w+)="`)
	for l := range strings.Lines(string(text)) {
		words := strings.SplitN(strings.TrimSpace(l), " ", 4)
		switch {
		case words[0] == "#" && words[1] == "HELP":
			help[words[2]] = words[3]
			names = append(names, words[2])
		case words[0] == "#":
			kinds[words[2]] = words[3]
		default:
			m := sample.FindStringSubmatch(l)
			if m == nil {
				t.Fatalf("a line can't be read: %s", l)
			}
			for _, name := range label.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(labels[m[1]], name[1]) {
					labels[m[1]] = append(labels[m[1]], name[1])
				}
			}
		}
	}
	if len(names) < 30 {
		t.Fatalf("only %d metrics:\n%s", len(names), text)
	}
	p := newSheet("Metrics")
	p.paragraph("`GET /metrics` gives them in the text format of Prometheus, to callers that see the messages of all: the owner, and tokens with the preset viewer or console.")
	var rows [][]string
	for _, name := range names {
		shown := "`" + name + "`"
		if len(labels[name]) > 0 {
			shown = "`" + name + "{" + strings.Join(labels[name], ",") + "}`"
		}
		rows = append(rows, []string{shown, kinds[name], help[name]})
	}
	p.table([]string{"metric", "type", ""}, rows)
	return p.String()
}
