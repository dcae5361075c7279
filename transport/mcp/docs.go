package mcp

import (
	"strings"

	"kernos/docs"
	"kernos/message"
)

// docsIndex is the page that lists the others. No other page is listed as a resource: a client gets few resources that it
// didn't ask for.
const docsIndex = "index"

func readDocs(_ *exchange, uri string) ([]contents, error) {
	name, _, _ := strings.Cut(uri[len(docsScheme):], "#")
	all := docs.All()
	if name == docsIndex {
		return []contents{textContents(uri, markdown, all.LLMs(docsScheme))}, nil
	}
	text, ok := all.Read(name)
	if !ok {
		return nil, message.Errorf(404, "No page of the documentation is named %q: %s%s lists them", message.Clip(name, 200), docsScheme, docsIndex)
	}
	return []contents{textContents(uri, markdown, text)}, nil
}

func listDocs(*exchange, string) (some []resource, next string, err error) {
	return []resource{{
		URI: docsScheme + docsIndex, Name: "documentation", Title: "Documentation of Kernos", MimeType: markdown,
		Description: "The pages of the documentation: tutorials, guides, and a reference of syscalls, settings and errors.",
	}}, "", nil
}

func completeDocs(_ *exchange, begin string) (names []string, err error) {
	for _, p := range docs.All().Pages {
		names = append(names, p.File)
	}
	return beginning(append(names, docsIndex), begin), nil
}
