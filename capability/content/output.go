package content

import (
	"slices"

	"kernos/internal/jsonscan"
)

// failed is the output for a resource that there is nothing of.
func failed(p problem) []byte {
	return appendOutput(nil, []byte(`""`), string(p), nil, nil)
}

// appendOutput puts the output together from parts that are JSON.
func appendOutput(dst, content []byte, uri string, skills, tools [][]byte) []byte {
	size := len(content) + len(uri) + 128
	for _, list := range [][][]byte{skills, tools} {
		for _, item := range list {
			size += len(item) + 1
		}
	}
	dst = slices.Grow(dst, size)
	dst = append(append(dst, `{"content":`...), content...)
	dst = jsonscan.AppendQuoted(append(dst, `,"metadata":{"uri":`...), uri)
	dst = appendItems(append(dst, `,"dependencies":{"skills":`...), skills)
	dst = appendItems(append(dst, `,"tools":`...), tools)
	return append(dst, "}}}"...)
}

func appendItems(dst []byte, items [][]byte) []byte {
	dst = append(dst, '[')
	for i, item := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, item...)
	}
	return append(dst, ']')
}

// appendSkill writes a skill as it stands in the output.
func appendSkill(dst []byte, s *skill) []byte {
	dst = jsonscan.AppendQuoted(append(dst, `{"uri":`...), s.URI)
	dst = jsonscan.AppendQuoted(append(dst, `,"name":`...), s.Name)
	dst = jsonscan.AppendQuoted(append(dst, `,"description":`...), s.Description)
	dst = appendTexts(append(dst, `,"skills":`...), s.Skills)
	dst = appendTexts(append(dst, `,"tools":`...), s.Tools)
	return append(dst, '}')
}

// appendTool writes a tool as it stands in the output.
func appendTool(dst []byte, t *tool) []byte {
	dst = jsonscan.AppendQuoted(append(dst, `{"uri":`...), t.URI)
	dst = jsonscan.AppendQuoted(append(dst, `,"description":`...), t.Description)
	return append(dst, '}')
}

func appendTexts(dst []byte, texts []string) []byte {
	dst = append(dst, '[')
	for i, text := range texts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonscan.AppendQuoted(dst, text)
	}
	return append(dst, ']')
}
