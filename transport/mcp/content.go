package mcp

// contentRoots are the folders whose agents and skills are shown.
var contentRoots = []string{"os://agents", "os://skills"}

// An indexed is an agent or a skill, as Content.Index lists it.
type indexed struct{ URI, Kind, Name, Description string }

// indexContent lists the agents and skills that the caller may read, in the order of their URIs.
func (x *exchange) indexContent() (all []indexed, err error) {
	for _, root := range contentRoots {
		for next := ""; ; {
			page, err := list[indexed](x, "Content.Index", map[string]any{"uri": root, "cursor": next})
			if err != nil && !nothingThere(err) {
				return nil, err
			}
			all = append(all, page.Entries...)
			if next = page.Cursor; next == "" {
				break
			}
		}
	}
	return all, nil
}
