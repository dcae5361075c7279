// Serves Url.Parse: a program of its own that becomes a syscall of the kernel.
import { KernosError, serve } from "../../../sdk/typescript/kernos.js"

await serve((client) => client.handle("Url.Parse", {
	kind: "query", summary: "Take the address of a web page apart.",
	input: { type: "object", properties: { url: { type: "string" } }, required: ["url"] },
	output: { type: "object", required: ["host", "path"] },
}, ({ url }, request) => {
	request.progress("parsing", 0.5)
	if (!URL.canParse(url)) throw new KernosError(422, `Not a URL: ${url}`)
	const { host, pathname, searchParams } = new URL(url)
	return { host, path: pathname, query: Object.fromEntries(searchParams) }
}))
