package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"
)

// SkillsExtension is the name of the extension for skills (SEP-2640).
const SkillsExtension = "io.modelcontextprotocol/skills"

// Digest returns how the extension names the content of a file.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Frontmatter returns the YAML at the beginning of a file as JSON, with its members sorted.
func Frontmatter(text []byte) (json.RawMessage, error) {
	body := strings.ReplaceAll(strings.TrimPrefix(string(text), "\ufeff"), "\r\n", "\n")
	body, ok := strings.CutPrefix(body, "---\n")
	front, _, end := strings.Cut(body, "\n---")
	var value map[string]any
	if !ok || !end || yaml.Unmarshal([]byte(front), &value) != nil {
		return nil, errors.New("the file has no front matter that can be read")
	}
	return json.Marshal(value)
}
