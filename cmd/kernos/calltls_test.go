package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kernos/internal/exit"
	"kernos/internal/testkit"
)

// TestContextsKnowCertificates calls a daemon that serves TLS, with a certificate that the
// machine does not trust.
func TestContextsKnowCertificates(t *testing.T) {
	ours, others := testkit.NewAuthority(t, "Office CA"), testkit.NewAuthority(t, "Other CA")
	cert, key := ours.Certify(t, time.Now().Add(30*24*time.Hour), "127.0.0.1")
	h := newCaller(t)
	h.env = append(h.env, "KERNOS_NO_HTTP=false", "KERNOS_TOKEN=", "KERNOS_CA_FILE=")
	h.serve("--addr", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	address := h.reached()["https"]
	h.token()
	plain := h.env

	// want runs kernos, and wants a status and a text in what it writes.
	want := func(status int, text string, args ...string) {
		t.Helper()
		out, notes, got := h.run("", args...)
		if got != status || !strings.Contains(out+notes, text) {
			t.Errorf("%v: status %d: %s%s", args, got, out, notes)
		}
	}
	ping := []string{"call", "Ping", "payload:=1", "--context", "office"}
	want(0, "", "context", "add", "office", "wss://"+address+"/", "--token-file", filepath.Join(h.home, "token"))
	want(exit.Unreachable, "it is signed by CN=Office CA. If that is right, say where their certificate is: kernos context set office --ca-file FILE", ping...)
	want(exit.Unreachable, "✗ tls        the certificate is not trusted: x509", "doctor", "--context", "office")
	want(0, "", "context", "set", "office", "--ca-file", others.File)
	want(exit.Unreachable, "it is signed by CN=Office CA, whose certificate is not in "+others.File, ping...)
	want(0, "", "context", "set", "office", "--ca-file", ours.File)
	want(0, `{"payload":1}`, ping...)
	// A context is the same for all commands.
	want(0, "kernos ", "status", "--context", "office")
	want(0, "Memory.Get ", "ls", "--context", "office")
	want(0, "Ping (query)", "describe", "Ping", "--context", "office")
	want(0, `"type":"Ping"`, "log", "--context", "office", "--json")
	want(0, `"kind":"query"`, "watch", "--from", "1", "-n", "1", "--context", "office", "--json")
	want(0, "Ping", "search", "payload", "--context", "office")
	want(exit.Failure, "nosuch", "graph", "nosuch", "--context", "office")
	want(0, "", "context", "add", "stranger", "wss://"+address+"/", "--ca-file", ours.File)
	want(exit.Forbidden, "kernos context set stranger --token-file FILE", "ls", "--context", "stranger")
	want(exit.Usage, "there is no context \"nosuch\"", "log", "--context", "nosuch")
	want(exit.Forbidden, "kernos token create NAME --preset agent --allow Kernel.Backup", "backup", filepath.Join(t.TempDir(), "x"), "--context", "office")
	want(0, "Return any JSON value", "kernel", "ping", "--help", "--context", "office")
	want(0, "memory\t", "__complete", "--context", "office", "mem")
	want(0, "✓ tls        TLS 1.3; the certificate is for 127.0.0.1, signed by CN=Office CA, valid until ", "doctor", "--context", "office")
	want(0, "--cacert "+ours.File+" -H", append(ping, "--as", "curl")...)
	want(0, "(signed by those in "+ours.File+")", "context", "list")

	// Addresses without a name.
	h.env = append(plain, "KERNOS_TOKEN="+h.token())
	want(exit.Unreachable, "or the variable KERNOS_CA_FILE for an address without a name", "call", "Ping", "payload:=1", "--server", "wss://"+address)
	want(exit.Unreachable, "the server speaks TLS there: write wss://", "call", "Ping", "payload:=1", "--server", "ws://"+address)
	want(exit.Unreachable, "the server speaks TLS there: write wss://", "doctor", "ws://"+address)
	h.env = append(h.env, "KERNOS_CA_FILE="+ours.File)
	want(0, `{"payload":1}`, "call", "Ping", "payload:=1", "--server", "https://"+address)
	want(0, "✓ websocket", "doctor", "wss://"+address)
	want(exit.Unreachable, "the certificate is for 127.0.0.1: call the server by one of these names, or have it certified for localhost",
		"call", "Ping", "payload:=1", "--server", "wss://"+strings.Replace(address, "127.0.0.1", "localhost", 1))
	h.env = append(h.env, "KERNOS_CA_FILE="+key)
	want(exit.Usage, "a private key, and no certificate", "call", "Ping", "payload:=1", "--server", "wss://"+address)

	// What a context can't be.
	h.env = plain
	want(exit.Usage, "say what to change", "context", "set", "office")
	want(exit.Usage, "a private key, and no certificate", "context", "set", "office", "--ca-file", key)
	want(exit.Usage, "write wss:// or https://", "context", "set", "office", "--url", "ws://"+address+"/")
	want(exit.Usage, "the context stranger exists already", "context", "add", "stranger", "wss://"+address+"/", "--ca-file", ours.File)
	want(0, "", "context", "set", "stranger", "--ca-file", ours.File)
	want(exit.Forbidden, "kernos context set stranger --token-file FILE", "ls", "--context", "stranger")
	want(exit.Usage, "there is no context", "context", "set", "nosuch", "--ca-file", ours.File)
	want(exit.Usage, "local is the daemon of this user", "context", "set", "local", "--ca-file", ours.File)
	want(exit.Usage, "give one of them", "context", "set", "office", "--token", "a", "--token-file", "b")
	want(0, "", "context", "set", "office", "--ca-file", "", "--token", "abc")
	want(exit.Unreachable, "say where their certificate is", ping...) // and nothing was sent
}

func TestCertificatesThatWillNotDo(t *testing.T) {
	privately(t)
	s := newForeign(t) // it speaks no TLS
	_, notes, status := foreign(t, "", "garden", "plant", "--name", "oak", "--server", "wss"+strings.TrimPrefix(s.url, "ws"))
	if status != exit.Unreachable || !strings.Contains(notes, "the server does not speak TLS there: write ws://") {
		t.Errorf("status %d: %s", status, notes)
	}
	out, _, status := foreign(t, "", "doctor", "wss"+strings.TrimPrefix(s.url, "ws"))
	if status != exit.Unreachable || !strings.Contains(out, "the server does not speak TLS there") {
		t.Errorf("status %d: %s", status, out)
	}
	authority := testkit.NewAuthority(t, "Office CA")
	h := newCaller(t)
	cert, key := authority.Certify(t, time.Now().Add(-time.Hour), "127.0.0.1")
	h.env = append(h.env, "KERNOS_NO_HTTP=false", "KERNOS_CA_FILE="+authority.File)
	h.serve("--addr", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	address := h.reached()["https"]
	_, notes, status = h.run("", "call", "Ping", "payload:=1", "--server", "wss://"+address)
	if status != exit.Unreachable || !strings.Contains(notes, "it is valid from 1970-01-01 to ") {
		t.Errorf("status %d: %s", status, notes)
	}
}
