// Package clientconfig knows the configuration files of LLM clients: where each client has its own, and
// how an MCP server is entered into it without touching anything else.
//
//	c, ok := clientconfig.Find("cursor")
//	change, err := c.Install(clientconfig.Server{Command: "/usr/bin/kernos", Args: []string{"mcp"}}, records)
//	// Show clientconfig.Difference(change.Before, change.After), and then:
//	err = change.Apply()
package clientconfig

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
)

// entryName is the name of the server in every file.
const entryName = "kernos"

// A Server is what a client starts.
type Server struct {
	Command string
	Args    []string
	Env     map[string]string
}

// A Client is one LLM client.
type Client struct {
	Name string // the name that a person types, and that the client's token has

	Title  string                 // its name for people
	Next   string                 // what the person does in the client when the file has been written
	folder func() (string, error) // returns the folder of its configuration file
	inside string                 // the path of the file in that folder
	under  string                 // the member or table that has the servers
	file   format
	shape  func(Server) any
}

// Known returns the clients, by name. docs/MCP.md lists which of them were compared with what.
func Known() []Client {
	return []Client{
		{"antigravity", "Antigravity", "Press refresh in Antigravity's list of MCP servers.", os.UserHomeDir, ".gemini/config/mcp_config.json", "mcpServers", jsonc, plain},
		{"claude-code", "Claude Code", "Restart Claude Code; /mcp lists kernos.", variable("CLAUDE_CONFIG_DIR", ""), ".claude.json", "mcpServers", jsonc, typed},
		{"claude-desktop", "Claude Desktop", "Restart Claude Desktop; Settings, Developer lists kernos.", os.UserConfigDir, "Claude/claude_desktop_config.json", "mcpServers", jsonc, plain},
		{"codex", "Codex", "Restart Codex; /mcp lists kernos.", variable("CODEX_HOME", ".codex"), "config.toml", "mcp_servers", tables, nil},
		{"cursor", "Cursor", "Restart Cursor; Customize, MCPs lists kernos.", os.UserHomeDir, ".cursor/mcp.json", "mcpServers", jsonc, plain},
		{"devin", "Devin Desktop", "Restart Devin Desktop; its list of MCP servers has kernos.", os.UserHomeDir, ".config/devin/mcp_config.json", "mcpServers", jsonc, plain},
		{"gemini", "Gemini CLI", "Restart Gemini CLI in a folder that it trusts; /mcp lists kernos.", os.UserHomeDir, ".gemini/settings.json", "mcpServers", jsonc, plain},
		{"opencode", "OpenCode", "Restart OpenCode; opencode mcp list lists kernos.", dotConfig, "opencode/opencode.json", "mcp", jsonc, joined},
		{"vscode", "Visual Studio Code", "Run MCP: List Servers from the command palette, and start kernos.", os.UserConfigDir, "Code/User/mcp.json", "servers", jsonc, typed},
		{"windsurf", "Windsurf", "Press refresh in Cascade's list of MCP servers.", os.UserHomeDir, ".codeium/windsurf/mcp_config.json", "mcpServers", jsonc, plain},
		{"zed", "Zed", "Settings, AI, MCP Servers lists kernos with a green dot.", zedConfig, "zed/settings.json", "context_servers", jsonc, plain},
	}
}

// Names returns the names of the clients.
func Names() (names []string) {
	for _, c := range Known() {
		names = append(names, c.Name)
	}
	return names
}

// Find returns the client of a name.
func Find(name string) (Client, bool) {
	all := Known()
	if i := slices.IndexFunc(all, func(c Client) bool { return c.Name == name }); i >= 0 {
		return all[i], true
	}
	return Client{}, false
}

// Path returns the path of the client's configuration file, which needn't exist.
func (c *Client) Path() (string, error) {
	dir, err := c.folder()
	return filepath.Join(dir, c.inside), err
}

// variable returns the folder that an environment variable names or, without it, one in the user's home.
func variable(name, otherwise string) func() (string, error) {
	return func() (string, error) {
		if dir := os.Getenv(name); dir != "" {
			return dir, nil
		}
		return inHome(otherwise)
	}
}

func inHome(folder string) (string, error) {
	dir, err := os.UserHomeDir()
	return filepath.Join(dir, folder), err
}

// dotConfig returns the folder for configuration, which is ~/.config on every system.
func dotConfig() (string, error) {
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	return inHome(".config")
}

// zedConfig is dotConfig for Zed, which follows XDG_CONFIG_HOME on Linux only.
func zedConfig() (string, error) {
	if runtime.GOOS == "darwin" {
		return inHome(".config")
	}
	return dotConfig()
}

type jsonServer struct {
	Type    string            `json:"type,omitempty"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env,omitempty"`
}

func plain(s Server) any { return jsonServer{"", s.Command, s.Args, s.Env} }

func typed(s Server) any { return jsonServer{"stdio", s.Command, s.Args, s.Env} }

// joined returns the form of a client that takes the command and its arguments as one list.
func joined(s Server) any {
	return struct {
		Type        string            `json:"type"`
		Command     []string          `json:"command"`
		Enabled     bool              `json:"enabled"`
		Environment map[string]string `json:"environment,omitempty"`
	}{"local", append([]string{s.Command}, s.Args...), true, s.Env}
}

// A format reads and changes the text of a file.
type format struct {
	// entry returns the text of the entry in a table of servers, "" if it isn't there.
	entry func(text, under string) (string, error)

	// put returns the text with the entry, in place of an existing one.
	put func(text, under, entry string) (string, error)

	// drop returns the text without the entry.
	drop func(text, under string) (string, error)

	// values parses the whole text.
	values func(text string) (map[string]any, error)

	// render writes an entry as put takes it.
	render func(c *Client, s Server) (string, error)
}

// Render returns the entry as it would be in a file that has nothing else.
func (c *Client) Render(s Server) (string, error) { return c.add("", s) }

// add returns the text of the client's file with the server in it. What else is there stays as it
// is, with its comments.
func (c *Client) add(text string, s Server) (string, error) {
	entry, err := c.file.render(c, s)
	if err != nil {
		return "", err
	}
	return c.change(text, func() (string, error) { return c.file.put(text, c.under, entry) })
}

// Has reports whether the text has a server of this name.
func (c *Client) Has(text string) (bool, error) {
	entry, err := c.file.entry(text, c.under)
	return entry != "", err
}

// remove returns the text without the server, or with the one that an earlier text had.
func (c *Client) remove(text, earlier string) (string, error) {
	before, err := c.file.entry(earlier, c.under)
	if err != nil {
		before = "" // an entry that can't be read can't be put back
	}
	return c.change(text, func() (string, error) {
		if before != "" {
			return c.file.put(text, c.under, before)
		}
		return c.file.drop(text, c.under)
	})
}

// change makes a change, and makes sure that it has changed nothing but the entry.
func (c *Client) change(text string, edit func() (string, error)) (string, error) {
	before, err := c.file.values(text)
	if err != nil {
		return "", err
	}
	changed, err := edit()
	if err != nil {
		return "", err
	}
	after, err := c.file.values(changed)
	if err != nil {
		return "", fmt.Errorf("the change would break the file (%w); add the server by hand: kernos mcp install %s --print", err, c.Name)
	}
	if !reflect.DeepEqual(c.others(before), c.others(after)) {
		return "", fmt.Errorf("the change would touch other settings; add the server by hand: kernos mcp install %s --print", c.Name)
	}
	return changed, nil
}

// others returns all values of a file but the entry.
func (c *Client) others(values map[string]any) map[string]any {
	values = maps.Clone(values)
	servers, _ := values[c.under].(map[string]any)
	servers = maps.Clone(servers)
	delete(servers, entryName)
	if delete(values, c.under); len(servers) > 0 {
		values[c.under] = servers
	}
	return values
}

// Difference shows what changes between two texts, with three lines around it.
func Difference(before, after string) []string {
	a, b := lines(before), lines(after)
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	tail := 0
	for tail < min(len(a), len(b))-same && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var out []string
	add := func(sign string, some []string) {
		for _, line := range some {
			out = append(out, strings.TrimRight(sign+line, "\r"))
		}
	}
	add("  ", a[max(0, same-3):same])
	add("- ", a[same:len(a)-tail])
	add("+ ", b[same:len(b)-tail])
	add("  ", a[len(a)-tail:min(len(a), len(a)-tail+3)])
	return out
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
