package line

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/message"
)

// An Addition is the input of Mcp.Add.
type Addition struct {
	Name      string            `json:"name"`
	Command   []string          `json:"command,omitempty"`
	Directory string            `json:"directory,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	URL       string            `json:"url,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Client    map[string]string `json:"client,omitempty"` // its id, and how it proves itself
	Protocol  string            `json:"protocol,omitempty"`
	Forms     string            `json:"forms,omitempty"`
	Timeout   int64             `json:"timeout,omitempty"` // in milliseconds
}

// SetTarget sets what the server is: one word that is an address, or a program with its arguments.
func (a *Addition) SetTarget(words []string) (err error) {
	if isURL := strings.HasPrefix(words[0], "http://") || strings.HasPrefix(words[0], "https://"); isURL && len(words) == 1 {
		a.URL = words[0]
		return nil
	}
	a.Command = words
	if strings.HasPrefix(words[0], "./") || strings.HasPrefix(words[0], "../") { // the daemon runs elsewhere
		words[0], err = filepath.Abs(words[0])
	}
	return err
}

// Pairs reads flags such as NAME=VALUE, or NAME: VALUE for headers.
func Pairs(field string, texts []string) (map[string]string, error) {
	sign, form := "=", "--env NAME=VALUE"
	if field == "headers" {
		sign, form = ":", "--header 'NAME: VALUE'"
	}
	all := make(map[string]string)
	for _, text := range texts {
		name, value, ok := strings.Cut(text, sign)
		if !ok || name == "" {
			return nil, fmt.Errorf("expected %s", form) // the text may be a secret
		}
		if all[name] = value; field == "headers" {
			all[name] = strings.TrimSpace(value)
		}
	}
	return all, nil
}

// silentTime is how long a server may take before a note explains what is waited for.
const silentTime = 5 * time.Second

// Wait sends a request that may want a person to log in, and returns the data of its reply.
func Wait(ctx context.Context, call server.Caller, s *terminal.Screen, t message.Type, input any) (json.RawMessage, error) {
	var mu sync.Mutex // held while a note is written
	answered := false
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		if !answered {
			s.Note(format, args...)
		}
	}
	silence := time.AfterFunc(silentTime, func() {
		note("the server hasn't answered yet; it may have to be downloaded first. The daemon's log has what it prints (kernos status names the home); an interrupt gives up")
	})
	data, err := server.Send(ctx, call, message.KindCommand, t, input, func(event json.RawMessage) error {
		var e struct{ URL string }
		if json.Unmarshal(event, &e) == nil && e.URL != "" {
			note("open this address in a browser and log in: %s", e.URL)
		}
		return nil
	})
	silence.Stop()
	mu.Lock()
	answered = true
	mu.Unlock()
	return data, err
}
