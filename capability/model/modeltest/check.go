package modeltest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// check returns why a strict provider of a dialect refuses the body of a request, or nil. It is
// stricter than any one provider: it knows the rules of all that are known to refuse something.
func check(dialect string, body []byte) error {
	if dialect == Anthropic {
		return checkAnthropic(body)
	}
	return checkOpenAI(body)
}

func strict(text []byte, v any) error {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("something follows the body")
	}
	return nil
}

var (
	openAIName    = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	anthropicID   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	choiceAtTop   = []string{"anyOf", "oneOf", "allOf", "enum", "not"}
	imageTypes    = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}
	errNoMessages = errors.New("there are no messages")
)

func checkSchema(text json.RawMessage) error {
	var s map[string]json.RawMessage
	if json.Unmarshal(text, &s) != nil || string(s["type"]) != `"object"` {
		return fmt.Errorf("the schema of a tool doesn't describe an object: %s", text)
	}
	for _, name := range choiceAtTop {
		if s[name] != nil {
			return fmt.Errorf("the schema of a tool has %s at its top", name)
		}
	}
	return nil
}

func isObject(text string) bool {
	var o map[string]json.RawMessage
	return json.Unmarshal([]byte(text), &o) == nil && o != nil
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }

func checkOpenAI(body []byte) error {
	var b struct {
		Model               string   `json:"model"`
		Stream              bool     `json:"stream"`
		StreamOptions       any      `json:"stream_options"`
		MaxTokens           int      `json:"max_tokens"`
		MaxCompletionTokens int      `json:"max_completion_tokens"`
		Temperature         float64  `json:"temperature"`
		Stop                []string `json:"stop"`
		PromptCacheKey      string   `json:"prompt_cache_key"`
		Tools               []struct {
			Type     string `json:"type"`
			Function struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				Parameters  json.RawMessage `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
		Messages []struct {
			Role             string          `json:"role"`
			Content          json.RawMessage `json:"content"`
			ReasoningContent string          `json:"reasoning_content"`
			ToolCallID       string          `json:"tool_call_id"`
			ToolCalls        []struct {
				ID       string `json:"id"`
				Type     string `json:"type"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
	}
	if err := strict(body, &b); err != nil {
		return err
	}
	if b.Model == "" || len(b.Messages) == 0 {
		return errNoMessages
	}
	seen := map[string]bool{}
	for _, t := range b.Tools {
		if t.Type != "function" || !openAIName.MatchString(t.Function.Name) || seen[t.Function.Name] {
			return fmt.Errorf("the tool %q has a name that isn't accepted, or is there twice", t.Function.Name)
		}
		seen[t.Function.Name] = true
		if err := checkSchema(t.Function.Parameters); err != nil {
			return err
		}
	}
	open := map[string]bool{} // calls that wait for a result
	before := "user"
	for i, m := range b.Messages {
		where := fmt.Sprintf("messages[%d] (%s)", i, m.Role)
		if m.Role != "tool" && len(open) > 0 {
			return fmt.Errorf("%s: calls have no results: %v", where, open)
		}
		if m.Role != "assistant" && (m.ToolCalls != nil || m.ReasoningContent != "") {
			return fmt.Errorf("%s: only an assistant calls and reasons", where)
		}
		if err := checkOpenAIContent(m.Role, m.Content, m.ToolCalls != nil); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		switch m.Role {
		case "system", "developer":
			if i > 0 {
				return fmt.Errorf("%s: it isn't the first", where)
			}
			continue
		case "user":
			if i > 0 && before == "user" && b.Messages[i-1].Role == "user" {
				return fmt.Errorf("%s: two messages of the user follow each other", where)
			}
		case "assistant":
			if before == "assistant" || i == 0 || b.Messages[i-1].Role == "system" || b.Messages[i-1].Role == "developer" {
				return fmt.Errorf("%s: it doesn't follow one of the user or of a tool", where)
			}
			for _, c := range m.ToolCalls {
				if c.ID == "" || open[c.ID] || c.Type != "function" || !openAIName.MatchString(c.Function.Name) || !isObject(c.Function.Arguments) {
					return fmt.Errorf("%s: the call %+v isn't accepted", where, c)
				}
				open[c.ID] = true
			}
		case "tool":
			if !open[m.ToolCallID] {
				return fmt.Errorf("%s: the result of %q belongs to no call", where, m.ToolCallID)
			}
			delete(open, m.ToolCallID)
		default:
			return fmt.Errorf("%s: the role is unknown", where)
		}
		before = m.Role
	}
	if len(open) > 0 || before == "assistant" {
		return fmt.Errorf("the last message is one of the assistant")
	}
	return nil
}

func checkOpenAIContent(role string, content json.RawMessage, calls bool) error {
	var text string
	if len(content) == 0 || string(content) == "null" {
		if role != "assistant" || !calls {
			return errors.New("it has no content")
		}
		return nil
	}
	if json.Unmarshal(content, &text) == nil {
		if blank(text) {
			return errors.New("its text is empty")
		}
		return nil
	}
	if role != "user" {
		return errors.New("its content isn't a text")
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
		File struct {
			Filename string `json:"filename"`
			FileData string `json:"file_data"`
		} `json:"file"`
	}
	if err := strict(content, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		switch p.Type {
		case "text":
			if blank(p.Text) {
				return errors.New("a text is empty")
			}
		case "image_url":
			if !dataURL(p.ImageURL.URL, imageTypes...) {
				return errors.New("an image is invalid")
			}
		case "file":
			if p.File.Filename == "" || !dataURL(p.File.FileData, "application/pdf") {
				return errors.New("a file is invalid")
			}
		default:
			return fmt.Errorf("the part %q is unknown", p.Type)
		}
	}
	if len(parts) == 0 {
		return errors.New("it has no parts")
	}
	return nil
}

func dataURL(text string, types ...string) bool {
	for _, t := range types {
		if data, ok := strings.CutPrefix(text, "data:"+t+";base64,"); ok {
			decoded, err := base64.StdEncoding.DecodeString(data)
			return err == nil && len(decoded) > 0
		}
	}
	return false
}

type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Title     string          `json:"title"`
	Cache     any             `json:"cache_control"`
	Source    struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	} `json:"source"`
}

func checkAnthropic(body []byte) error {
	var b struct {
		Model         string           `json:"model"`
		System        []anthropicBlock `json:"system"`
		MaxTokens     int              `json:"max_tokens"`
		Temperature   float64          `json:"temperature"`
		StopSequences []string         `json:"stop_sequences"`
		Stream        bool             `json:"stream"`
		Thinking      *struct {
			Type         string `json:"type"`
			BudgetTokens int    `json:"budget_tokens"`
		} `json:"thinking"`
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			InputSchema json.RawMessage `json:"input_schema"`
			Cache       any             `json:"cache_control"`
		} `json:"tools"`
		Messages []struct {
			Role    string           `json:"role"`
			Content []anthropicBlock `json:"content"`
		} `json:"messages"`
	}
	if err := strict(body, &b); err != nil {
		return err
	}
	if b.Model == "" || len(b.Messages) == 0 {
		return errNoMessages
	}
	if b.MaxTokens < 1 {
		return errors.New("max_tokens is missing")
	}
	if b.Temperature > 1 {
		return errors.New("temperature is more than 1")
	}
	seen := map[string]bool{}
	for _, t := range b.Tools {
		if !openAIName.MatchString(t.Name) || seen[t.Name] {
			return fmt.Errorf("the tool %q has a name that isn't accepted, or is there twice", t.Name)
		}
		seen[t.Name] = true
		if err := checkSchema(t.InputSchema); err != nil {
			return err
		}
	}
	for _, k := range b.System {
		if k.Type != "text" || blank(k.Text) {
			return errors.New("the system's text is empty")
		}
	}
	cached := strings.Count(string(body), `"cache_control"`)
	if cached > 4 {
		return fmt.Errorf("cache_control is there %d times", cached)
	}
	thinks := b.Thinking != nil && b.Thinking.Type == "enabled"
	var open map[string]bool
	ids := map[string]bool{}
	for i, m := range b.Messages {
		where := fmt.Sprintf("messages[%d] (%s)", i, m.Role)
		if want := []string{"user", "assistant"}[i%2]; m.Role != want {
			return fmt.Errorf("%s: expected one of the %s", where, want)
		}
		if len(m.Content) == 0 {
			return fmt.Errorf("%s: it is empty", where)
		}
		calls, texts := map[string]bool{}, false
		for j, k := range m.Content {
			if err := k.check(m.Role); err != nil {
				return fmt.Errorf("%s.content[%d]: %w", where, j, err)
			}
			switch k.Type {
			case "tool_use":
				if ids[k.ID] {
					return fmt.Errorf("%s: the id %s is there twice", where, k.ID)
				}
				ids[k.ID], calls[k.ID] = true, true
			case "tool_result":
				if texts || !open[k.ToolUseID] {
					return fmt.Errorf("%s: the result of %s belongs to no call of the message before, or isn't at the beginning", where, k.ToolUseID)
				}
				delete(open, k.ToolUseID)
			case "thinking", "redacted_thinking":
				if texts || len(calls) > 0 || j == len(m.Content)-1 {
					return fmt.Errorf("%s: thinking isn't at the beginning, or nothing follows it", where)
				}
			default:
				texts = true
			}
		}
		if len(open) > 0 {
			return fmt.Errorf("%s: calls have no results: %v", where, open)
		}
		if first := m.Content[0].Type; thinks && i == len(b.Messages)-2 && len(calls) > 0 && first != "thinking" && first != "redacted_thinking" {
			return fmt.Errorf("%s: expected thinking at its beginning", where)
		}
		open = calls
	}
	if len(b.Messages)%2 == 0 {
		return errors.New("the last message is one of the assistant")
	}
	return nil
}

func (k *anthropicBlock) check(role string) error {
	wrong := fmt.Errorf("a block %s isn't accepted", k.Type)
	user := role == "user"
	switch k.Type {
	case "text":
		if blank(k.Text) {
			return errors.New("a text is empty")
		}
	case "image":
		if !user || k.Source.Type != "base64" || !dataURL("data:"+k.Source.MediaType+";base64,"+k.Source.Data, imageTypes...) {
			return wrong
		}
	case "document":
		if !user || k.Source.Type != "base64" || !dataURL("data:"+k.Source.MediaType+";base64,"+k.Source.Data, "application/pdf") {
			return wrong
		}
	case "thinking":
		if user || k.Signature == "" {
			return wrong
		}
	case "redacted_thinking":
		if user || k.Data == "" {
			return wrong
		}
	case "tool_use":
		if user || !anthropicID.MatchString(k.ID) || !openAIName.MatchString(k.Name) || !isObject(string(k.Input)) {
			return wrong
		}
	case "tool_result":
		var text string
		if !user || json.Unmarshal(k.Content, &text) != nil || blank(text) {
			return wrong
		}
	default:
		return wrong
	}
	return nil
}
