package model

// A KnownProvider is a provider of models that needs nothing but a key to be connected.
type KnownProvider struct {
	Name, Dialect, BaseURL, Model string

	Variable  string // the environment variable in which programs usually find its key
	Elsewhere string // the one that names another place than BaseURL; "" if none is usual
}

// Known are the providers that are known by name. The models are the names that the provider keeps for its latest one,
// where it has such a name: a key doesn't determine the model. If the provider no longer has the name, nothing is
// connected, and the caller names another one.
var Known = []KnownProvider{
	{"anthropic", "anthropic-messages", "https://api.anthropic.com", "claude-sonnet-4-5", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"},
	{"openai", "openai-chat", "https://api.openai.com/v1", "gpt-5-mini", "OPENAI_API_KEY", "OPENAI_BASE_URL"},
	{"gemini", "openai-chat", "https://generativelanguage.googleapis.com/v1beta/openai", "gemini-flash-latest", "GEMINI_API_KEY", ""},
	{"openrouter", "openai-chat", "https://openrouter.ai/api/v1", "openrouter/auto", "OPENROUTER_API_KEY", ""},
	{"mistral", "openai-chat", "https://api.mistral.ai/v1", "mistral-medium-latest", "MISTRAL_API_KEY", ""},
	{"groq", "openai-chat", "https://api.groq.com/openai/v1", "openai/gpt-oss-120b", "GROQ_API_KEY", ""},
	{"deepseek", "openai-chat", "https://api.deepseek.com/v1", "deepseek-chat", "DEEPSEEK_API_KEY", ""},
	{"xai", "openai-chat", "https://api.x.ai/v1", "grok-4", "XAI_API_KEY", ""},
}
