package content

import "context"

// skill looks a skill up and returns it as it stands in the output.
func (c *Content) skill(ctx context.Context, d *dependency) []byte {
	if d.problem != "" {
		return brokenSkill(d.uri, d.problem)
	}
	text, err := load(ctx, c, c.skills, d.uri, newSkill)
	if err != nil {
		return brokenSkill(d.uri, fetchFailed)
	}
	return text
}

func newSkill(uri string, data []byte) ([]byte, int) {
	f, _, err := parse(data)
	if err != nil {
		text := brokenSkill(uri, parseError)
		return text, len(text)
	}
	s := skill{URI: uri, Name: f.name, Description: f.description, Skills: f.skills, Tools: f.tools}
	if s.Name == "" {
		s.Name = string(missingName)
	}
	if s.Description == "" {
		s.Description = string(missingDescription)
	}
	text := appendSkill(nil, &s)
	return text, len(text)
}

func brokenSkill(uri string, p problem) []byte {
	return appendSkill(nil, &skill{URI: uri, Name: string(p), Description: string(p)})
}
