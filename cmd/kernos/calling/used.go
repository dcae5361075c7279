package calling

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"kernos/internal/jsonvalue"
	"kernos/internal/visible"
)

// Values that were used are kept for completion: those of parameters that several methods
// of a module require, for these say which thing is meant (a key, an id). Texts of other
// parameters, and secrets, are not kept.
const (
	maxUsed      = 500 // values of a parameter
	maxUsedBytes = 256 // of a value
)

// usedFile is where the values of a module are that were used.
func (c *call) usedFile() string {
	dir := c.cache.Dir(c.server.Target)
	if dir == "" || !filepath.IsLocal(c.module) || filepath.Base(c.module) != c.module {
		return ""
	}
	return filepath.Join(dir, "used-"+c.module+".json")
}

func readUsed(file string) map[string][]string {
	used := make(map[string][]string)
	if text, err := os.ReadFile(file); err == nil {
		_ = json.Unmarshal(text, &used) // what can't be read is forgotten
	}
	return used
}

// remember keeps the values of a call that went well, and those that its answer lists: an
// answer's keys are what the parameter key takes.
func (c *call) remember(params, data json.RawMessage) {
	file := c.usedFile()
	if c.method == nil || file == "" {
		return
	}
	fresh := make(map[string][]string)
	given, answered := jsonvalue.Members(params), jsonvalue.Members(data)
	for _, name := range c.identifying() {
		fresh[name] = slices.Concat(texts(given.Get(name)), texts(answered.Get(name)), texts(answered.Get(name+"s")))
	}
	used := readUsed(file)
	changed := false
	for name, values := range fresh {
		for _, v := range values {
			if v == "" || len(v) > maxUsedBytes || visible.Text(v) != v || slices.Contains(used[name], v) {
				continue
			}
			used[name] = append(used[name], v)
			if over := len(used[name]) - maxUsed; over > 0 {
				used[name] = used[name][over:]
			}
			changed = true
		}
	}
	if text, err := json.Marshal(used); changed && err == nil {
		_ = c.cache.Write(c.server.Target, filepath.Base(file), text) // if it fails, nothing is kept
	}
}

// texts returns the text that a value is, or those in a list.
func texts(value json.RawMessage) (all []string) {
	if text, ok := jsonvalue.String(value); ok {
		return []string{text}
	}
	for _, e := range jsonvalue.Elements(value) {
		if text, ok := jsonvalue.String(e); ok {
			all = append(all, text)
		}
	}
	return all
}

// identifying returns the parameters that at least two methods of the module require.
func (c *call) identifying() (names []string) {
	module := c.catalog.Module(c.module)
	counts := make(map[string]int)
	for _, name := range module.Methods {
		m, err := c.catalog.Method(context.Background(), c.module, name)
		if err != nil {
			continue
		}
		for _, f := range m.Fields {
			if f.Required && !f.Sensitive && f.Scalar() == "string" && len(f.Enum) == 0 {
				if counts[f.Name]++; counts[f.Name] == 2 {
					names = append(names, f.Name)
				}
			}
		}
	}
	return names
}
