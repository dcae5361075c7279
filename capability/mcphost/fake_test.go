package mcphost_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is also the server that tests mount: in a process of its own if this variable is
// set, which says which era it speaks, and what else is odd about it.
const fakeMode = "KERNOS_TEST_MCP"

func TestMain(m *testing.M) {
	if mode := os.Getenv(fakeMode); mode != "" {
		serveFake(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

// A fake is a server. Files in its folder are what tests tell it, and what it tells them.
type fake struct {
	mode string
	dir  string
	send func(any) // sends what belongs to no request

	mu      sync.Mutex
	answers map[string]chan json.RawMessage // to the requests of the server
}

type frame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		URI       string          `json:"uri"`
		Cursor    string          `json:"cursor"`
		Arguments json.RawMessage `json:"arguments"`
		Responses json.RawMessage `json:"inputResponses"`
		State     string          `json:"requestState"`
		Task      json.RawMessage `json:"task"`
		TaskID    string          `json:"taskId"`
		Meta      map[string]any  `json:"_meta"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
}

type object = map[string]any

func (f *fake) is(mode string) bool { return strings.Contains(f.mode, mode) }

// note appends a line to a file of the folder.
func (f *fake) note(file, line string) {
	out, err := os.OpenFile(filepath.Join(f.dir, file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = fmt.Fprintln(out, line)
		_ = out.Close()
	}
}

// told reports whether a file is in the folder.
func (f *fake) told(file string) bool {
	_, err := os.Stat(filepath.Join(f.dir, file))
	return err == nil
}

func serveFake(mode string) {
	out := bufio.NewWriter(os.Stdout)
	var mu sync.Mutex
	f := &fake{mode: mode, dir: os.Getenv("FAKE_DIR"), answers: make(map[string]chan json.RawMessage)}
	f.send = func(v any) {
		text, _ := json.Marshal(v)
		mu.Lock()
		defer mu.Unlock()
		_, _ = out.Write(append(text, '\n'))
		_ = out.Flush()
	}
	f.note("starts", strconv.Itoa(os.Getpid()))
	switch {
	case f.is("exits"):
		fmt.Fprintln(os.Stderr, "no licence\x1b[31m")
		os.Exit(3)
	case f.is("chatty"):
		fmt.Println("Welcome to the chatty server!")
	case f.is("endless"):
		for {
			_, _ = os.Stdout.Write([]byte(strings.Repeat("x", 1<<20)))
		}
	case f.is("mute"):
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case f.is("deaf"):
		select {}
	}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if answer := f.take(line); answer != nil {
			f.send(answer)
		}
	}
}

// take returns the answer to a line, or nil if it comes later or never.
func (f *fake) take(line []byte) any {
	var in frame
	if json.Unmarshal(line, &in) != nil {
		return nil
	}
	if in.Method == "" { // an answer to a request of the server
		f.mu.Lock()
		defer f.mu.Unlock()
		if to := f.answers[string(in.ID)]; to != nil {
			to <- in.Result
		}
		return nil
	}
	if in.ID == nil {
		f.note("notifications", in.Method)
		return nil
	}
	if in.Method == "tools/call" {
		if f.send == nil {
			return f.answer(&in, f.call(&in))
		}
		go func() {
			if result := f.call(&in); result != nil {
				f.send(f.answer(&in, result))
			}
		}()
		return nil
	}
	return f.answer(&in, f.result(&in))
}

func (f *fake) answer(in *frame, result any) any {
	if e, ok := result.(rpcError); ok {
		return object{"jsonrpc": "2.0", "id": in.ID, "error": e}
	}
	return object{"jsonrpc": "2.0", "id": in.ID, "result": result}
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

var capabilities = object{"tools": object{"listChanged": true}, "resources": object{}, "prompts": object{}}

func (f *fake) result(in *frame) any {
	stateless := f.is("stateless")
	switch in.Method {
	case "server/discover":
		if !stateless {
			if f.is("diesOnDiscover") {
				os.Exit(4)
			}
			return rpcError{Code: -32601, Message: "Method not found"}
		}
		return object{"resultType": "complete", "supportedVersions": []string{"2026-07-28"}, "capabilities": capabilities, "_meta": object{"io.modelcontextprotocol/serverInfo": object{"name": "fake", "version": "1"}}}
	case "initialize":
		if stateless {
			return rpcError{Code: -32601, Message: "Method not found"}
		}
		return object{"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": object{"name": "fake", "version": "1"}, "instructions": "Be\x1b[31m kind."}
	case "tools/list":
		for f.told("wait") {
			time.Sleep(time.Millisecond)
		}
		return f.tools(in.Params.Cursor)
	case "resources/list":
		return object{"resources": []object{{"uri": "test://notes/a b.txt", "name": "a"}, {"uri": "file:///etc/motd", "name": "b", "size": 7}, {"uri": "test://notes/a%20b.txt", "name": "the same"}}}
	case "resources/templates/list":
		return object{"resourceTemplates": []object{{"uriTemplate": "test://days/{day}", "name": "days"}}}
	case "resources/read":
		if in.Params.URI == "file:///etc/motd" {
			return object{"contents": []object{{"uri": in.Params.URI, "blob": "AAEC"}}}
		}
		return object{"contents": []object{{"uri": in.Params.URI, "text": "<" + in.Params.URI + ">"}}}
	case "prompts/list":
		return object{"prompts": []object{{"name": "hello there", "description": "Greets."}, {"name": "about", "arguments": []object{{"name": "topic", "required": true}}}}}
	case "prompts/get":
		return object{"messages": []object{{"role": "user", "content": object{"type": "text", "text": in.Params.Name + string(in.Params.Arguments)}}}}
	case "tasks/get", "tasks/result", "tasks/update", "tasks/cancel":
		return f.task(in)
	case "subscriptions/listen":
		f.note("listens", in.Method)
		return nil
	}
	return rpcError{Code: -32601, Message: "Method not found"}
}

// tools lists the tools, those of a file if there is one, in pages of three.
func (f *fake) tools(cursor string) any {
	all := []object{
		{"name": "echo", "description": "Says it\nagain.", "inputSchema": object{"type": "object", "properties": object{"text": object{"type": "string", "description": "What?\x07"}}, "required": []string{"text"}}},
		{"name": "add", "description": "Adds.", "annotations": object{"readOnlyHint": true}, "inputSchema": object{"type": "object", "properties": object{"a": object{"type": "number"}, "b": object{"type": "number"}}},
			"outputSchema": object{"type": "object", "properties": object{"sum": object{"type": "number"}}, "required": []string{"sum"}}},
	}
	for _, name := range []string{"fail", "refuse", "crash", "hang", "slow", "environment", "spawn", "reload", "form", "broken", "deep", "huge", "garbage", "pid", "babble"} {
		all = append(all, object{"name": name, "description": "A tool.", "inputSchema": object{"type": "object"}})
	}
	if f.is("tasks") { // in the stateless era, a client learns it when it calls one
		for _, name := range []string{"long", "endless"} {
			all = append(all, object{"name": name, "description": "A task.", "inputSchema": object{"type": "object"}, "execution": object{"taskSupport": map[bool]string{false: "required", true: "optional"}[f.is("stateless")]}})
		}
	}
	if text, err := os.ReadFile(filepath.Join(f.dir, "tools.json")); err == nil {
		all = nil
		_ = json.Unmarshal(text, &all)
	}
	from, _ := strconv.Atoi(cursor)
	page := object{"tools": all[from:min(len(all), from+max(3, len(all)/10))]}
	if next := from + max(3, len(all)/10); next < len(all) {
		page["nextCursor"] = strconv.Itoa(next)
	}
	return page
}

func text(s string) any {
	return object{"content": []object{{"type": "text", "text": s}}}
}

func (f *fake) call(in *frame) any {
	var args struct {
		Text string
		A, B float64
	}
	_ = json.Unmarshal(in.Params.Arguments, &args)
	f.note("calls", in.Params.Name)
	switch in.Params.Name {
	case "echo":
		f.note("meta", fmt.Sprint(in.Params.Meta["traceparent"]))
		return text(args.Text)
	case "add":
		return object{"content": []object{{"type": "text", "text": "sum"}}, "structuredContent": object{"sum": args.A + args.B}}
	case "broken":
		return object{"structuredContent": object{"sum": "many"}, "content": "no list"}
	case "fail":
		return object{"isError": true, "content": []object{{"type": "text", "text": "out of \x1b[31mpaper"}}}
	case "refuse":
		return rpcError{Code: -32602, Message: "wrong moon"}
	case "crash":
		_, _ = fmt.Fprintln(os.Stderr, "refused: key "+os.Getenv("SECRET"))
		os.Exit(3)
	case "babble":
		_, _ = os.Stdout.WriteString(strings.Repeat("no message, with "+os.Getenv("SECRET")+"\n", 10_000))
		return text("enough")
	case "hang":
		f.note("hanging", "now")
		return nil
	case "slow":
		f.send(object{"jsonrpc": "2.0", "method": "notifications/progress", "params": object{"progressToken": in.Params.Meta["progressToken"], "progress": 1, "total": 2, "message": "half"}})
		return text("slowly")
	case "environment":
		return text(strings.Join(os.Environ(), "\n"))
	case "pid":
		return text(strconv.Itoa(os.Getpid()))
	case "spawn":
		c := exec.Command("sleep", "600")
		if err := c.Start(); err != nil {
			return rpcError{Code: -32603, Message: err.Error()}
		}
		return text(strconv.Itoa(c.Process.Pid))
	case "reload":
		f.send(object{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
		return text("reloaded")
	case "form":
		return f.form(in)
	case "deep":
		f.send(json.RawMessage(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":%s%s}}`, in.ID, strings.Repeat("[", 5000), strings.Repeat("]", 5000))))
		return nil
	case "long", "endless":
		return f.begin(in)
	case "huge":
		return text(strings.Repeat("x", 17<<20))
	case "garbage":
		f.send(json.RawMessage(`{"jsonrpc":"2.0","id":` + string(in.ID) + `}`))
		return nil
	}
	return rpcError{Code: -32602, Message: "unknown tool"}
}

// form asks the client to fill one in, in the way of the era.
func (f *fake) form(in *frame) any {
	request := object{"message": "Sure?", "requestedSchema": object{"type": "object", "properties": object{"sure": object{"type": "boolean", "default": true}}, "required": []string{"sure"}}}
	if f.is("stateless") {
		if in.Params.Responses == nil {
			return object{"resultType": "input_required", "requestState": "st\"ate", "inputRequests": object{"q": object{"method": "elicitation/create", "params": request}}}
		}
		return text(in.Params.State + string(in.Params.Responses))
	}
	to := make(chan json.RawMessage, 1)
	f.mu.Lock()
	f.answers[`"form"`] = to
	f.mu.Unlock()
	f.send(object{"jsonrpc": "2.0", "id": "form", "method": "elicitation/create", "params": request})
	return text(string(<-to))
}

// serveHTTP serves a fake over streamable HTTP, with answers as JSON or as events.
func serveHTTP(t *testing.T, mode, dir string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := &fake{mode: mode, dir: dir}
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method == http.MethodDelete:
			f.note("deletes", r.Header.Get("Mcp-Session-Id"))
			return
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		case r.Header.Get("X-Key") != "" && r.Header.Get("X-Key") != "k-secret":
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if f.is("moves") && r.URL.Path != "/other" {
			http.Redirect(w, r, "http://127.0.0.1:9/elsewhere", http.StatusTemporaryRedirect)
			return
		}
		var in frame
		_ = json.Unmarshal(body, &in)
		f.note("headers", in.Method+" "+r.Header.Get("Mcp-Method")+" "+r.Header.Get("Mcp-Name")+" "+r.Header.Get("Mcp-Protocol-Version")+" "+r.Header.Get("Mcp-Param-Where"))
		restarts, _ := os.ReadFile(filepath.Join(dir, "restarts")) // each of which forgets the sessions
		session := fmt.Sprint("s", len(restarts)+1)
		if in.Method == "initialize" {
			w.Header().Set("Mcp-Session-Id", session)
		} else if had := r.Header.Get("Mcp-Session-Id"); had != "" && (had != session || f.is("forgetful") && in.Method == "tools/call") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(map[bool]int{true: http.StatusBadRequest, false: http.StatusNotFound}[f.is("strict")])
			id := "null"
			if f.is("echoing") {
				id = string(in.ID)
			}
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":%s}`, id)
			return
		}
		if in.Method == "tools/call" && in.Params.Name == "slow" {
			w.Header().Set("Content-Type", "text/event-stream")
			f.send = func(v any) {
				text, _ := json.Marshal(v)
				_, _ = fmt.Fprintf(w, ": hi\r\nid: 1\r\nevent: message\r\ndata: %s\r\n\r\n", text)
				w.(http.Flusher).Flush()
			}
			f.send(f.answer(&in, f.call(&in)))
			return
		}
		if in.Method == "tools/call" && in.Params.Name == "hang" {
			f.note("hanging", "now")
			<-r.Context().Done()
			return
		}
		answer := f.take(body)
		if answer == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if e, ok := answer.(object)["error"].(rpcError); ok && e.Code == -32601 {
			w.WriteHeader(http.StatusNotFound)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/mcp"
}
