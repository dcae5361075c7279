package http

import (
	"encoding/json"
	"net/http"
	"strings"

	"kernos/internal/jsonvalue"
	"kernos/transport/rpc"
)

// paths returns the routes apart from calls, as OpenAPI has them. Those that aren't plain HTTP are described without
// what they take and give.
func paths() jsonvalue.Object {
	var all jsonvalue.Object
	for _, route := range Routes() {
		if route.Path == callPath {
			continue
		}
		path := strings.ReplaceAll(strings.TrimSuffix(route.Path, "{$}"), "...}", "}")
		item := jsonvalue.Members(all.Get(path))
		for _, method := range route.described() {
			item = item.Set(strings.ToLower(method), route.operation(method))
		}
		all = all.Set(path, item.Text())
	}
	return all
}

// described returns the methods of a route as its description has them: those of another protocol begin with GET.
func (r *Route) described() []string {
	if r.Methods == nil {
		return []string{http.MethodGet}
	}
	return r.Methods
}

// operation describes a route with one of its methods.
func (r *Route) operation(method string) json.RawMessage {
	type parameter = map[string]any
	type content = map[string]map[string]any
	name := strings.NewReplacer("/{$}", "root", "...}", "", "{", "", "}", "", "/", "_", ".", "_", "-", "_").Replace(strings.Trim(r.Path, "/"))
	if name == "$" {
		name = "root"
	}
	operation := map[string]any{"operationId": strings.ToLower(method) + "_" + name, "summary": r.Summary, "tags": []string{"routes"}}
	var parameters []parameter
	for _, part := range strings.Split(r.Path, "/") {
		if placeholder, ok := strings.CutPrefix(part, "{"); ok && part != "{$}" {
			parameters = append(parameters, parameter{"name": strings.TrimSuffix(strings.TrimSuffix(placeholder, "}"), "..."), "in": "path", "required": true, "schema": map[string]string{"type": "string"}})
		}
	}
	for _, p := range r.Query {
		parameters = append(parameters, parameter{"name": p.Name, "in": "query", "description": p.Summary, "schema": map[string]string{"type": p.Type}})
	}
	if parameters != nil {
		operation["parameters"] = parameters
	}
	if r.Takes != "" {
		operation["requestBody"] = map[string]any{"required": true, "content": content{r.Takes: {}}}
	}
	if r.Open {
		operation["security"] = []any{}
	}
	answer := map[string]any{"description": "Done."}
	status := "200"
	switch {
	case r.Methods == nil:
		status, answer["description"] = "default", "It answers in a protocol of its own."
	case r.Gives == "":
		status = "204"
	case method != http.MethodHead:
		answer["content"] = content{r.Gives: {}}
	}
	responses := map[string]any{status: answer}
	if r.Methods != nil {
		responses["default"] = map[string]string{"$ref": rpc.OpenAPIError}
	}
	operation["responses"] = responses
	text, _ := json.Marshal(operation) // never fails, and orders members by name
	return text
}
