// Tests kernos.js beside a daemon, over the wire that the argument names.
import assert from "node:assert/strict"
import { connect, KernosError } from "./kernos.js"

const wire = process.argv[2]
const type = `Text.Node${wire[0].toUpperCase()}${wire.slice(1)}` // a name belongs to the caller that registered it first
const { TEST_SOCKET, TEST_URL, TEST_TOKEN } = process.env
const http = { url: TEST_URL, token: TEST_TOKEN }
const to = { socket: { socket: TEST_SOCKET }, http, pipe: {}, websocket: { url: TEST_URL.replace("http", "ws"), token: TEST_TOKEN } }[wire]

const fails = async (code, promise) => {
	const e = await promise.then((value) => assert.fail(`${JSON.stringify(value)} and not ${code}`), (e) => e)
	assert.ok(e instanceof KernosError && e.code === code, `${e.code} ${e.message}, not ${code}`)
	return e
}

const client = await connect(to)

// Calls
const key = `sdk/typescript/${wire}`
assert.deepEqual(await client.command("Memory.Set", { key, value: ["grün", 1] }), { success: true })
assert.deepEqual(await client.query("Memory.Get", { key }), ["grün", 1])
assert.match((await fails(404, client.query("Memory.Get", { key: "sdk/missing" }))).message, /missing/)
await fails(413, client.query("Ping", { payload: "x".repeat(20000) }))
assert.deepEqual(await client.query("Ping", { payload: 1 }), { payload: 1 })
assert.ok(await client.query("FileSystem.Resolve", { uri: "os://proc" }))
for (let i = 0; i < 2; i++) assert.deepEqual(await client.command("Memory.Set", { key, value: 2 }, { key: `once-${key}`, correlation: "sdk" }), { success: true })

// A reply that is too long for a message comes by reference, and is resolved.
const pieces = ["x".repeat(9000), "y".repeat(9000)]
for (const value of pieces) await client.command("Memory.Set", { key: `${key}/long`, value })
const history = await client.query("Memory.History", { key: `${key}/long` })
assert.deepEqual(history.versions?.map((v) => v.value), pieces.reverse(), JSON.stringify(history).slice(0, 300))
assert.equal(new TextDecoder().decode(await client.resolve({ scheme: "data", path: "text/plain,a%20b" })), "a b")

// Handlers
if (wire === "websocket") await fails(501, client.handle(type, {}, () => {}))
const server = await connect(wire === "websocket" ? http : to)
let cancelled
const cancellation = new Promise((resolve) => { cancelled = resolve })
await server.handle(type, { kind: "query", summary: "Serve the test.", input: { type: "object" } }, async ({ what }, request) => {
	request.progress("working", 0.5)
	switch (what) {
	case "refuse": throw new KernosError(409, "No", new RangeError("far", { cause: new KernosError(404, "gone") }))
	case "crash": console.error = () => {}; throw new TypeError("secret")
	case "sleep":
	case "wait": await new Promise((resolve) => request.signal.addEventListener("abort", resolve)); if (what === "wait") cancelled(); return {}
	case "long": return { text: "x".repeat(20000) }
	case "nest": return request.query("Ping", { payload: what })
	}
	return { text: what.toUpperCase() }
})
const came = []
for await (const m of client.stream("query", type, { what: "hi" })) came.push([m.kind, m.type, m.data])
assert.deepEqual(came, [["event", "Syscall.Progressed", { message: "working", percentage: 0.5 }], ["reply", type, { text: "HI" }]])
assert.deepEqual(await client.query(type, { what: "nest" }), { payload: "nest" })
const refused = await fails(409, client.query(type, { what: "refuse" }))
if (wire !== "websocket") assert.deepEqual(refused.reason, { // JSON-RPC has no place for causes
	code: 500, message: "RangeError: far", cause: { code: 404, message: "gone" },
})
assert.doesNotMatch((await fails(500, client.query(type, { what: "crash" }))).message, /secret/)
await fails(413, client.query(type, { what: "long" }))
await fails(504, client.query(type, { what: "sleep" }, { timeout: 200 }))
for await (const _ of client.stream("query", type, { what: "wait" })) break // the handler has begun; a caller that stops early cancels the request
await cancellation
await Promise.all(Array.from({ length: 30 }, async (_, n) => assert.deepEqual(await client.query(type, { what: `n${n}` }), { text: `N${n}` })))
server.close()
await server.closed

// What is asked on a closed connection fails at once.
client.close()
await client.closed
await fails(502, client.query("Ping", { payload: 1 }))
console.log("fine")
