package demo

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/model/conversation"
	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/message"
)

// A trainedTool is a tool that the model inside was trained with.
type trainedTool struct {
	name       message.Type
	parameters string              // parameters in its training, if they aren't the required ones
	about      string              // the tool is shown for inputs with one of these words; "" means for all
	results    []string            // members of the results, if not all
	element    func([]byte) []byte // shortens an element of a list in them
	most       int                 // tokens of a result that is a text; 0 means resultTokens
}

// trainedTools are those that the model was trained with. Those without about come first, so that most prompts
// begin alike.
var trainedTools = []trainedTool{
	{name: "Memory.Set", results: []string{"success"}},
	{name: "Memory.Get"},
	{name: "Memory.Delete"},
	{name: "Memory.List", parameters: "prefix:string", results: []string{"keys"}, element: func(key []byte) []byte { return append([]byte(`"/`), key[1:]...) }},
	{name: "Http.Fetch", results: []string{"status", "body"}},
	{name: "VFS.Read", results: []string{"uri", "content"}},
	{name: "VFS.Write", results: []string{"uri", "size"}},
	{name: "Message.Search", results: []string{"total"}},
	{name: "Job.Start", parameters: "name:string,payload:any", results: []string{"jobId", "status"}},
	{name: memorySearch, parameters: "query:string", about: "know", results: []string{"found"}},
	{name: "VFS.List", parameters: "uri:string", about: "file folder os://", results: []string{"entries"}, element: member("name")},
	{name: "Echo", parameters: "message:string", about: "echo repeat say"},
	{name: "Job.List", about: "job remind schedul running", results: []string{"jobs"}, element: nameAndStatus},
	{name: "Job.Cancel", parameters: "jobId:string", about: "cancel stop end", results: []string{"jobId", "canceled"}},
	{name: "Crypto.Seal", parameters: "plaintext:string", about: "seal encrypt", most: 12},
	{name: "Syscall.Search", parameters: "query:string", about: "tool syscall", results: []string{"syscalls"}, element: member("name")},
	{name: "Syscall.Describe", parameters: "name:string", about: "describe does", results: []string{"name", "summary"}},
}

func member(name string) func([]byte) []byte {
	return func(object []byte) []byte { return jsonscan.Member(object, name) }
}

func nameAndStatus(job []byte) []byte {
	return jsonscan.AppendQuoted(nil, jsonscan.Unquote(jsonscan.Member(job, "name"))+" ("+jsonscan.Unquote(jsonscan.Member(job, "status"))+")")
}

// findTrained returns the tool of a name if the model was trained with it, and nil if it wasn't.
func findTrained(name message.Type) *trainedTool {
	i := slices.IndexFunc(trainedTools, func(t trainedTool) bool { return t.name == name })
	if i < 0 {
		return nil
	}
	return &trainedTools[i]
}

// tools returns the line that describes the tools which the input is about, as far as there is room: those that the
// model was trained with, and any other that the input names. The former are shown without being offered, too, if
// they can be called through Syscall.Call.
func (d *Model) tools(all []conversation.Tool, input string) string {
	input = strings.ToLower(input)
	offered := make(map[message.Type]string, len(all))
	for _, t := range all {
		offered[t.Name] = parameters(t.InputSchema)
	}
	_, through := offered[kernel.ThroughType]
	var always, about []string
	for _, t := range trainedTools {
		required, ok := offered[t.name]
		shown := " " + conversation.ToolName(t.name) + "(" + cmp.Or(t.parameters, required) + ")"
		isAbout := func(word string) bool { return strings.Contains(input, word) }
		if t.about == "" && ok {
			always = append(always, shown)
		} else if (ok || through) && slices.ContainsFunc(strings.Fields(t.about), isAbout) {
			about = append(about, shown)
		}
	}
	for _, t := range all {
		if findTrained(t.Name) == nil && isNamed(input, t.Name) {
			about = append(about, " "+conversation.ToolName(t.Name)+"("+offered[t.Name]+")")
		}
	}
	room := toolTokens
	fits := func(shown []string) (line string) {
		for _, one := range shown {
			if room -= len(d.model.Tokens(one)); room < 0 {
				break
			}
			line += one
		}
		return line
	}
	last := fits(about)
	if line := fits(always) + last; line != "" {
		return "Tools:" + line
	}
	return ""
}

// isNamed reports whether an input in small letters names a tool, as Domain.Action, Domain_Action or in two words.
func isNamed(input string, tool message.Type) bool {
	domain, action, _ := strings.Cut(strings.ToLower(string(tool)), ".")
	return slices.ContainsFunc([]string{".", "_", " "}, func(between string) bool { return strings.Contains(input, domain+between+action) })
}

// parameters returns the required parameters of a tool, with their types: name:type,…
func parameters(schema jsontext.Value) string {
	type object struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
		Required []string `json:"required"`
		OneOf    []struct {
			Required []string `json:"required"`
		} `json:"oneOf"`
	}
	var o object
	if json.Unmarshal(schema, &o) != nil {
		return ""
	}
	required := o.Required
	if len(o.OneOf) > 0 {
		for _, name := range o.OneOf[0].Required {
			if !slices.Contains(required, name) {
				required = append(required, name)
			}
		}
	}
	var all []string
	for _, name := range required {
		kind, ok := o.Properties[name].Type.(string)
		if !ok {
			kind = "any"
		}
		all = append(all, name+":"+kind)
	}
	return strings.Join(all, ",")
}
