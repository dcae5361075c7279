package line

import (
	"errors"
	"strings"

	"kernos/cmd/kernos/terminal"
)

// An MCPServer is what Mcp.Show replies, as far as it is shown.
type MCPServer struct {
	Name, Target, State, Error, Title, Version, Protocol, Instructions string
	ToolCount, Allowed, Changes                                        int
	Secrets                                                            []string
	Tools                                                              []struct {
		Type, Description string
		Allowed           bool
		Change            *struct{ Description string }
	}
	Resources []struct{ File, Title string }
	Prompts   []struct{ File, Description string }
	LeftOut   []struct{ Name, Reason string }
}

// Show writes the server, its tools, and what else it has.
func (m *MCPServer) Show(s *terminal.Screen) error {
	rows := [][]string{{"name", m.Name}, {"target", m.Target}, {"state", m.State}}
	for _, row := range [][]string{{"error", m.Error}, {"server", strings.TrimSpace(m.Title + " " + m.Version)}, {"protocol", m.Protocol}, {"secrets", strings.Join(m.Secrets, ", ")}, {"says", m.Instructions}} {
		if row[1] != "" {
			rows = append(rows, row)
		}
	}
	if err := s.Explained(rows); err != nil {
		return err
	}
	rows = nil
	for _, one := range m.Tools {
		state := "asks"
		if one.Allowed {
			state = "allowed"
		}
		if one.Change != nil {
			state = "changed"
		}
		rows = append(rows, []string{one.Type, state, one.Description})
		if one.Change != nil {
			rows = append(rows, []string{"", "now", one.Change.Description})
		}
	}
	for _, one := range m.Resources {
		rows = append(rows, []string{one.File, "file", one.Title})
	}
	for _, one := range m.Prompts {
		rows = append(rows, []string{one.File, "prompt", one.Description})
	}
	for _, one := range m.LeftOut {
		rows = append(rows, []string{one.Name, "left out", one.Reason})
	}
	if len(rows) > 0 {
		if err := errors.Join(s.Line(""), s.Table([]string{"NAME", "IN SESSIONS", "WHAT THE SERVER SAYS"}, rows)); err != nil {
			return err
		}
	}
	switch {
	case m.Changes > 0:
		s.Note("%d tools have changed, and keep their earlier description until you accept the new one: kernos mcp allow %s", m.Changes, m.Name)
	case m.Allowed < m.ToolCount:
		s.Note("sessions ask before they call a tool that isn't allowed: kernos mcp allow %s, or kernos mcp allow %s.TOOL", m.Name, m.Name)
	}
	return nil
}
