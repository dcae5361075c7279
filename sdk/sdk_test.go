// Package sdk has one-file libraries for calls and handlers in other languages. The tests run them
// beside a whole daemon, over each wire that they know.
package sdk

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
	"go.uber.org/goleak"

	"kernos/daemon"
	"kernos/daemon/daemontest"
	"kernos/internal/testkit"
	"kernos/internal/testkit/tool"
	"kernos/message"
	kernos "kernos/sdk/go"
)

var update = flag.Bool("update", false, "write typescript/kernos.js from typescript/kernos.ts")

// TestMain is also kernos pipe, which the libraries start: it copies between its standard streams
// and the socket of the daemon.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kernos" {
		relay(os.Getenv("TEST_SOCKET"))
		return
	}
	goleak.VerifyTestMain(m)
}

func relay(socket string) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(4)
	}
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.(*net.UnixConn).CloseWrite()
	}()
	_, _ = io.Copy(os.Stdout, conn)
}

// start starts a daemon, and returns the environment of programs that use it.
func start(t *testing.T) (env []string) {
	t.Helper()
	dir := testkit.ShortDir(t)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	d := daemontest.Serve(t, &daemon.Options{Home: filepath.Join(dir, "home"), Socket: &daemon.Socket{}, Web: &daemon.Web{Address: "127.0.0.1:0"}})
	socket, err := d.Home().Socket()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "kernos")); err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1", "KERNOS_SOCKET=", "KERNOS_TOKEN=",
		"TEST_SOCKET="+socket, "TEST_URL=http://"+d.Address, "TEST_TOKEN="+token(t, d.Daemon))
}

// token makes a token that may do what the tests do.
func token(t *testing.T, d *daemon.Daemon) string {
	t.Helper()
	outcome, err := d.Call(t.Context(), message.Message{Kind: message.KindCommand, Type: "Token.Create", Data: json.RawMessage(`{"name":"sdk","preset":"agent","allow":["Syscall.Register","Text.*"]}`)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var reply struct{ Token string }
	if err := json.Unmarshal(outcome.Data, &reply); err != nil || reply.Token == "" {
		t.Fatalf("%s: %v", outcome.Data, err)
	}
	return reply.Token
}

func TestLibraries(t *testing.T) {
	env := start(t)
	for _, library := range []struct {
		command []string
		wires   []string
	}{
		{[]string{"python3", "python/kernos_test.py"}, []string{"socket", "http", "pipe"}},
		{[]string{"node", "--no-warnings", "--experimental-websocket", "typescript/kernos_test.mjs"}, []string{"socket", "http", "pipe", "websocket"}},
	} {
		for _, wire := range library.wires {
			t.Run(library.command[0]+"/"+wire, func(t *testing.T) {
				tool.Need(t, library.command[0])
				c := exec.CommandContext(t.Context(), library.command[0], append(library.command[1:], wire)...)
				c.Env = env
				if out, err := c.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "fine\n") {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}

// What serves over HTTP connects and registers again, also after an answer that broke off, and ends when its token is refused.
func TestServingOverHTTP(t *testing.T) {
	env := start(t)
	var daemonURL, token string
	for _, variable := range env {
		daemonURL, token = cutOr(variable, "TEST_URL=http://", daemonURL), cutOr(variable, "TEST_TOKEN=", token)
	}
	for name, command := range map[string][]string{
		"Python": {"python3", "-c", `
import kernos, os
def register(client):
    client.handler("Text.Again", kind="query")(lambda data, request: data)
    print("registered", flush=True)
kernos.serve(register, url=os.environ["TEST_URL"], token=os.environ["TEST_TOKEN"])`},
		"Node": {"node", "--no-warnings", "--input-type=module", "-e", `
import { serve } from "./typescript/kernos.js"
const register = async (client) => {
	await client.handle("Text.Again", { kind: "query" }, (data) => data)
	console.log("registered")
}
await serve(register, { url: process.env.TEST_URL, token: process.env.TEST_TOKEN })`},
	} {
		t.Run(name, func(t *testing.T) {
			tool.Need(t, command[0])
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			c := exec.CommandContext(t.Context(), command[0], command[1:]...)
			c.Env = append(slices.Clone(env), "TEST_URL=http://"+l.Addr().String(), "TEST_TOKEN="+token, "PYTHONPATH=python")
			var notes strings.Builder
			c.Stderr = &notes
			out, err := c.StdoutPipe()
			if err == nil {
				err = c.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			lines, ended := bufio.NewReader(out), make(chan error, 1)
			go func() {
				ended <- c.Wait()
				_ = l.Close() // it connects no more
			}()
			accept := func() net.Conn {
				conn, err := l.Accept()
				if err != nil {
					t.Fatalf("it has ended with %v\n%s", <-ended, &notes)
				}
				return conn
			}
			for range 2 {
				passOn(t, accept(), daemonURL, func() {
					if line, err := lines.ReadString('\n'); line != "registered\n" {
						t.Errorf("%q %v", line, err)
					}
				})
				for _, broken := range []string{"", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\n{"} {
					conn := accept()
					_, _ = conn.Read(make([]byte, 4096))
					_, _ = io.WriteString(conn, broken)
					_ = conn.Close()
				}
			}
			conn := accept()
			_, _ = io.WriteString(conn, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 27\r\n\r\n{\"message\":\"no such token\"}")
			err = <-ended
			_ = conn.Close()
			if c.ProcessState.ExitCode() != 1 || !strings.HasSuffix(notes.String(), "kernos: no such token\n") || strings.Contains(notes.String(), "rror") {
				t.Errorf("%v\n%s", err, &notes)
			}
		})
	}
}

func cutOr(variable, prefix, or string) string {
	if value, ok := strings.CutPrefix(variable, prefix); ok {
		return value
	}
	return or
}

// passOn connects a client to the daemon until what it waits for has happened.
func passOn(t *testing.T, conn net.Conn, to string, until func()) {
	behind, err := net.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(behind, conn) })
	both.Go(func() { _, _ = io.Copy(conn, behind) })
	until()
	_, _ = conn.Close(), behind.Close()
	both.Wait()
}

// The library for Go calls and serves over a socket; the examples serve over kernos pipe as well.
func TestTheGoLibrary(t *testing.T) {
	for _, variable := range start(t) {
		if socket, ok := strings.CutPrefix(variable, "TEST_SOCKET="); ok {
			t.Setenv("KERNOS_SOCKET", socket)
		}
	}
	connect := func() *kernos.Client {
		c, err := kernos.Connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	client, server := connect(), connect()
	ctx := t.Context()
	begun, over := make(chan bool), make(chan bool)
	err := server.Handle("Text.Go", kernos.Definition{Kind: "query", Input: json.RawMessage(`{"type":"string"}`)}, func(ctx context.Context, data json.RawMessage, r *kernos.Request) (any, error) {
		switch string(data) {
		case `"refuse"`:
			return nil, &kernos.Error{Code: 409, Message: "No", Cause: &kernos.Error{Code: 404, Message: "gone"}}
		case `"long"`:
			return strings.Repeat("x", kernos.MaxLine), nil
		case `"nest"`:
			return r.Query(ctx, "Ping", map[string]int{"payload": 1})
		case `"wait"`:
			close(begun)
			<-ctx.Done()
			close(over)
		}
		r.Progress("working", 0.5)
		return data, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	events := 0
	reply, err := client.Call(ctx, kernos.Message{Kind: "query", Type: "Text.Go"}, "hi", func(kernos.Message) { events++ })
	if string(reply) != `"hi"` || err != nil || events != 1 {
		t.Errorf("got %s, %v, %d events", reply, err, events)
	}
	if reply, err = client.Query(ctx, "Text.Go", "nest"); string(reply) != `{"payload":1}` || err != nil {
		t.Errorf("got %s, %v", reply, err)
	}
	for data, code := range map[any]int{"refuse": 409, "long": 413, 7: 422} {
		e, ok := errors.AsType[*kernos.Error](second(client.Query(ctx, "Text.Go", data)))
		if !ok || e.Code != code || code == 409 && e.Cause.Message != "gone" {
			t.Errorf("%v: %+v", data, e)
		}
	}
	waiting, cancel := context.WithCancel(ctx)
	go func() {
		<-begun
		cancel()
	}()
	if _, err := client.Query(waiting, "Text.Go", "wait"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-over // the handler learns of it
	if err := server.Handle("Memory.Own", kernos.Definition{}, nil); err == nil || !strings.HasPrefix(err.Error(), "Memory.Own can't be served: ") {
		t.Errorf("got %v", err)
	}
	client.Close()
	if e, ok := errors.AsType[*kernos.Error](second(client.Query(ctx, "Ping", 1))); !ok || e.Code != 502 {
		t.Errorf("got %v", e)
	}
}

func second(_ json.RawMessage, err error) error { return err }

// The types of kernos.ts are right, as the compiler of TypeScript has it.
func TestTypes(t *testing.T) {
	tool.Need(t, "node")
	modules := tool.Modules(t)
	compiler := filepath.Join(modules, "typescript", "bin", "tsc")
	wrong := filepath.Join(t.TempDir(), "wrong.ts")
	if err := os.WriteFile(wrong, []byte("export const n: number = 'text'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Both in one run, which takes half as long as two: the compiler reads mostly libraries.
	out, err := exec.CommandContext(t.Context(), "node", compiler, "--noEmit", "--strict", "--target", "es2022", "--lib", "es2022,dom,dom.iterable",
		"--module", "esnext", "--moduleResolution", "bundler", "--skipLibCheck", "--typeRoots", filepath.Join(modules, "@types"), "--types", "node",
		"typescript/kernos.ts", wrong).CombinedOutput()
	problems := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err == nil || !strings.Contains(problems[0], "wrong.ts(1,14): error TS2322") {
		t.Errorf("the compiler takes a text for a number: %v %s", err, out)
	}
	if len(problems) != 1 {
		t.Errorf("kernos.ts has wrong types:\n%s", out)
	}
}

// kernos.js is kernos.ts without types, for Node 20 and browsers.
func TestTheScriptIsCurrent(t *testing.T) {
	source, err := os.ReadFile("typescript/kernos.ts")
	if err != nil {
		t.Fatal(err)
	}
	result := api.Transform(string(source), api.TransformOptions{Loader: api.LoaderTS, Target: api.ES2022, Sourcefile: "kernos.ts"})
	for _, e := range result.Errors {
		t.Fatalf("kernos.ts:%d: %s", e.Location.Line, e.Text)
	}
	want := append([]byte("// Made from kernos.ts by go test ./sdk -update.\n"), result.Code...)
	if *update {
		if err := os.WriteFile("typescript/kernos.js", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile("typescript/kernos.js"); err != nil || string(got) != string(want) {
		t.Errorf("typescript/kernos.js is not made from kernos.ts (%v); go test ./sdk -update makes it", err)
	}
}
