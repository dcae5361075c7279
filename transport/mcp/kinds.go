package mcp

// resourceKinds returns those of every server.
func resourceKinds() []resourceKind {
	return []resourceKind{
		{
			template: memoryScheme + "{+key}", name: "memory", description: "A value that is kept under a key.",
			matches: scheme(memoryScheme), read: readMemory, list: listMemory, complete: completeMemory,
		},
		{
			template: skillScheme + "{+path}", name: "skill", description: "A file of a skill.", mimeType: markdown,
			matches: scheme(skillScheme), read: readSkillFile, list: listSkillFiles,
		},
		{
			template: fileScheme + "{+path}", name: "file", description: "A file of the tree.",
			matches: scheme(fileScheme), read: readFile, list: listFiles, complete: completeFiles,
		},
		{
			template: messageScheme + "{id}", name: "message", description: "A recorded message, by its id.", mimeType: "application/json",
			matches: scheme(messageScheme), read: readMessage, fixed: true,
		},
		{
			template: blobScheme + "{hash}{?offset,length}", name: "blob", description: "Large data, by its hash: whole, or a part from a byte on. _meta of a part has kernos/next, the offset of the next one, and kernos/size.",
			matches: scheme(blobScheme), read: readBlob, fixed: true,
		},
		{
			template: docsScheme + "{+file}", name: "documentation", description: "A page of the documentation of Kernos: its settings, syscalls, errors, and how to use them.", mimeType: markdown,
			matches: scheme(docsScheme), read: readDocs, list: listDocs, complete: completeDocs, fixed: true,
		},
	}
}
