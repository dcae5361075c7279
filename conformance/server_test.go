package conformance

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// serverWord stands for the address of the conversation's own web server.
const serverWord = "$server"

// pageSpec is a page of the web server that a conversation has.
type pageSpec struct {
	path     string
	status   int
	location string // "" if it does not lead elsewhere
	content  string
}

// addPage reads the setting page: PATH STATUS "JSON string", or PATH STATUS LOCATION.
func (c *conversation) addPage(text string) error {
	var p pageSpec
	if _, err := fmt.Sscan(text, &p.path, &p.status); err != nil || p.path[0] != '/' {
		return fmt.Errorf("a page is PATH STATUS and its text: %s", text)
	}
	_, rest, _ := strings.Cut(text, " ")
	_, rest, _ = strings.Cut(strings.TrimSpace(rest), " ")
	if rest = strings.TrimSpace(rest); !strings.HasPrefix(rest, `"`) {
		p.location = rest
	} else if err := json.Unmarshal([]byte(rest), &p.content); err != nil {
		return fmt.Errorf("the text of %s is no JSON string: %w", p.path, err)
	}
	c.pages = append(c.pages, p)
	return nil
}

// serve starts the conversation's web server, if it has pages, and returns the conversation
// with the server's address in its lines and files.
func (c *conversation) serve(t *testing.T) *conversation {
	t.Helper()
	if len(c.pages) == 0 {
		return c
	}
	start := httptest.NewServer
	if c.tls {
		start = httptest.NewTLSServer
	}
	s := start(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		w.Header()["Date"] = nil
		i := slices.IndexFunc(c.pages, func(p pageSpec) bool { return p.path == r.URL.Path })
		if i < 0 {
			nethttp.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		if location := c.pages[i].location; location != "" {
			w.Header().Set("Location", location)
		}
		w.WriteHeader(c.pages[i].status)
		_, _ = io.WriteString(w, c.pages[i].content)
	}))
	t.Cleanup(s.Close)
	served := *c
	served.server = s.URL
	served.talk = slices.Clone(c.talk)
	for i := range served.talk {
		served.talk[i].text = strings.ReplaceAll(served.talk[i].text, serverWord, s.URL)
	}
	served.files = slices.Clone(c.files)
	for i := range served.files {
		served.files[i].content = strings.ReplaceAll(served.files[i].content, serverWord, s.URL)
	}
	return &served
}

// trustServers makes this process, and the programs that it starts, trust the web servers of
// conversations. It must be called before anything is fetched.
func trustServers() (forget func(), err error) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	dir, err := os.MkdirTemp("", "kernos")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "roots.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return func() { _ = os.RemoveAll(dir) }, errors.Join(os.WriteFile(path, text, 0o600), os.Setenv("SSL_CERT_FILE", path))
}

// unserved is a file's text with the word for the server's address in its place.
func (c *conversation) unserved(text string) string {
	if c.server == "" {
		return text
	}
	return strings.ReplaceAll(text, c.server, serverWord)
}
