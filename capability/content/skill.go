package content

import "context"

// skill looks a skill up.
func (c *Content) skill(ctx context.Context, d *dependency) skill {
	if d.problem != "" {
		return brokenSkill(d.uri, d.problem)
	}
	s, err := load(ctx, c, c.skills, d.uri, newSkill)
	if err != nil {
		return brokenSkill(d.uri, fetchFailed)
	}
	return s
}

func newSkill(uri string, data []byte) (skill, int) {
	f, _, err := parse(data)
	if err != nil {
		return brokenSkill(uri, parseError), len(uri)
	}
	s := skill{URI: uri, Name: f.name, Description: f.description, Skills: f.skills, Tools: f.tools}
	if s.Name == "" {
		s.Name = string(missingName)
	}
	if s.Description == "" {
		s.Description = string(missingDescription)
	}
	size := len(uri) + len(s.Name) + len(s.Description)
	for _, list := range [][]string{s.Skills, s.Tools} {
		for _, text := range list {
			size += len(text) + 16
		}
	}
	return s, size
}

func brokenSkill(uri string, p problem) skill {
	return skill{URI: uri, Name: string(p), Description: string(p)}
}
