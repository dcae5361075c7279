// Calls and serves syscalls of a Kernos daemon. One file without dependencies: Node 20 and later, and
// calls in a browser. kernos.js is the same without types.
//
//	import { connect } from "./kernos.js"
//
//	const client = await connect()
//	await client.command("Memory.Set", { key: "notes/1", value: "milk" })
//	console.log(await client.query("Memory.Get", { key: "notes/1" }))
//	client.close()
//
// connect() reaches the daemon of this user through `kernos pipe`, which starts it; connect({ socket })
// or the variable KERNOS_SOCKET names a socket; connect({ url, token }) a server: http: or https: for
// everything, ws: or wss: for calls, which is what a web page uses. KERNOS_TOKEN is the default token.
//
// A program that serves syscalls registers functions, again whenever it is connected again:
//
//	await serve(async (client) => {
//		await client.handle("Text.Upper", { kind: "query", summary: "Write a text in capitals." },
//			async (data, request) => {
//				request.progress("writing", 0.5)
//				return { text: data.text.toUpperCase() }
//			})
//	})

/** How many bytes a message may have. */
export const MAX_LINE = 16384

export type Kind = "command" | "query" | "event" | "reply" | "error"
export type Metadata = { id: string; timestamp: number; correlation?: string; causation?: string; idempotencyKey?: string }
export type Message = { kind: Kind; type: string; data: any; metadata: Metadata }
export type BlobPointer = { scheme: "file" | "https" | "data"; authority?: string; path: string; query?: string }
export type Options = { key?: string; correlation?: string; causation?: string; timeout?: number; onEvent?: (event: Message) => void }
export type Definition = { kind?: "command" | "query"; summary?: string; input?: object; output?: object; emits?: { type: string; description?: string }[]; timeout?: number }
export type Handler = (data: any, request: Request) => unknown

/** An error message. The code is like a status of HTTP; 502 also means that the connection has ended. */
export class KernosError extends Error {
	constructor(readonly code: number, message: string, readonly reason?: unknown) {
		super(message)
		this.name = "KernosError"
	}
}

/** Where a kernel is: a server, a socket, or, in the place of kernos pipe, a command that carries messages. */
export type Destination = { url?: string; token?: string; socket?: string; command?: string[] }

const pipe = ["kernos", "pipe"]
const mayPass = [408, 425, 429, 500, 502, 503, 504, 507] // codes of what may be mended by waiting

/** Serves until the program is ended. register is called with a client, whose handlers it registers, and is called again
 * when the connection has ended and there is another one. What waiting can't mend, such as a refused token or a wrong
 * definition, ends the program with status 1 and one line that says why. */
export async function serve(register: (client: Client) => unknown, to: Destination = {}): Promise<never> {
	for (let pause = 10, told = false, next = to; ; pause = Math.min(2 * pause, 1000)) {
		let client: Client | undefined
		let reason: KernosError
		try {
			client = await connect(next)
			await register(client)
			pause = 10
			told = false
			next = { ...to, command: [...(to.command ?? pipe), "--no-start"] } // kernos stop isn't undone
			reason = await client.closed
		} catch (e) {
			client?.close()
			if (!(e instanceof KernosError)) throw e
			reason = e
		}
		if (!mayPass.includes(reason.code)) {
			console.error(`kernos: ${reason.message}`)
			globalThis.process.exit(1)
		}
		if (!told) console.error(`kernos: ${reason.message}; waiting for the daemon`)
		told = true
		await new Promise((resolve) => setTimeout(resolve, pause))
	}
}

/** Connects to the daemon of this user, to a socket, or to a server. */
export async function connect(to: Destination = {}): Promise<Client> {
	const variables: Record<string, string | undefined> = globalThis.process?.env ?? {}
	if (!to.url?.startsWith("ws") && !globalThis.process?.versions?.node) throw new KernosError(501, "a web page calls a server with connect({ url, token }), whose url begins with ws: or wss:")
	const token = to.token ?? variables.KERNOS_TOKEN
	const socket = to.socket ?? variables.KERNOS_SOCKET
	const wire = to.url?.startsWith("ws") ? await webSocket(to.url, token)
		: to.url ? await http(to.url.replace(/\/$/, ""), token)
		: socket ? await unix(socket)
		: await process(to.command ?? pipe)
	return new Client(wire, to.url, token)
}

/** A connection. */
export class Client {
	/** Fulfilled when the daemon has closed the connection or close was called, with the reason. */
	readonly closed: Promise<KernosError>
	#waiting = new Map<string, (m: Message) => void>()
	#handlers = new Map<string, Handler>()
	#running = new Map<string, AbortController>()
	#reason = new KernosError(502, "the connection to the daemon has ended")
	#ended = false

	constructor(readonly wire: Wire, readonly url?: string, readonly token?: string) {
		this.closed = new Promise((resolve) => {
			wire.start((m) => this.#take(m), (why) => {
				if (this.#ended) return
				this.#ended = true
				if (why instanceof KernosError) this.#reason = why
				else if (why && this.#reason.code === 502) this.#reason = new KernosError(502, `the connection to the daemon has ended: ${why}`)
				for (const m of this.#running.values()) m.abort(this.#reason)
				for (const [id, take] of this.#waiting) take(message("error", "Syscall.Disconnected", { code: this.#reason.code, message: this.#reason.message }, { causation: id }))
				resolve(this.#reason)
			})
		})
	}

	close(): void {
		this.wire.close()
	}

	/** Asks, and returns the data of the reply. */
	query(type: string, data: unknown = {}, options: Options = {}): Promise<any> {
		return this.#last("query", type, data, options)
	}

	/** Does, and returns the data of the reply. */
	command(type: string, data: unknown = {}, options: Options = {}): Promise<any> {
		return this.#last("command", type, data, options)
	}

	/** Sends a request, and yields what comes back: events, then one reply. An error is thrown. A caller
	 * that stops early cancels the request. The timeout is in milliseconds. */
	async *stream(kind: "command" | "query", type: string, data: unknown = {}, options: Options = {}): AsyncGenerator<Message, void> {
		const request = message(kind, type, data, { idempotencyKey: options.key, correlation: options.correlation, causation: options.causation })
		const id = request.metadata.id
		const came: Message[] = []
		let wake = () => {}
		if (this.#ended) throw this.#reason
		this.#waiting.set(id, (m) => { came.push(m); wake() })
		const late = message("error", type, { code: 504, message: `${type} was not answered within ${options.timeout} ms` }, {})
		const timer = options.timeout === undefined ? undefined : setTimeout(() => { came.push(late); wake() }, options.timeout)
		let done = false
		try {
			this.send(request)
			while (!done) {
				if (came.length === 0) await new Promise<void>((resolve) => { wake = resolve })
				const m = came.shift()!
				done = m.kind !== "event" && m !== late
				if (m.kind === "error") throw new KernosError(m.data.code, m.data.message, m.data.cause)
				if (!done) options.onEvent?.(m)
				yield m
			}
		} finally {
			clearTimeout(timer)
			this.#waiting.delete(id)
			if (!done && !this.#ended) this.wire.cancel(id)
		}
	}

	async #last(kind: "command" | "query", type: string, data: unknown, options: Options): Promise<any> {
		let last: any
		for await (const m of this.stream(kind, type, data, options)) last = m.data
		// A reply that is too long for a message is kept in a blob.
		if (isPointer(last?.dataRef) && Object.keys(last).every((name) => ["dataRef", "size", "mediaType"].includes(name))) return JSON.parse(new TextDecoder().decode(await this.resolve(last.dataRef)))
		return last
	}

	/** Returns the bytes that a pointer points to. */
	async resolve(pointer: BlobPointer): Promise<Uint8Array> {
		if (pointer.scheme === "data") return new Uint8Array(await (await fetch(`data:${pointer.path}`)).arrayBuffer())
		if (pointer.scheme === "file") return (await import("node:fs/promises")).readFile(pointer.path)
		let url = `https://${pointer.authority}${pointer.path}${pointer.query ? `?${pointer.query}` : ""}`
		const own = this.url && new URL(this.url).host === pointer.authority
		if (own) url = url.replace(/^https/, new URL(this.url!).protocol.startsWith("ws:") || this.url!.startsWith("http:") ? "http" : "https")
		const response = await fetch(url, { headers: own && this.token ? { Authorization: `Bearer ${this.token}` } : {} })
		if (!response.ok) throw new KernosError(response.status, `${url} can't be read: ${response.statusText}`)
		return new Uint8Array(await response.arrayBuffer())
	}

	/** Serves a syscall. What the function returns is the reply; a KernosError that it throws goes to the
	 * caller, any other error becomes a 500 and is logged. */
	async handle(type: string, definition: Definition, handler: Handler): Promise<void> {
		this.#handlers.set(type, handler)
		const registered = this.command("Syscall.Register", {
			name: type, kind: definition.kind ?? "command", description: definition.summary ?? type,
			inputSchema: definition.input ?? {}, outputSchema: definition.output ?? {}, handler: "connection",
			...(definition.emits && { emits: definition.emits }), ...(definition.timeout && { timeout: definition.timeout }),
		})
		await registered.catch((e) => {
			throw this.#ended ? e : new KernosError(e.code, `${type} can't be served: ${e.message}`, e.reason)
		})
	}

	/** Sends a message as it is. */
	send(m: Message): void {
		const line = JSON.stringify(m)
		const size = new TextEncoder().encode(line).length
		if (size > MAX_LINE) throw new KernosError(413, `${m.type} would take ${size} bytes, and a message may have ${MAX_LINE}; large data goes by reference`)
		this.wire.send(m, line)
	}

	#take(m: Message): void {
		const handler = this.#handlers.get(m.type)
		if ((m.kind === "query" || m.kind === "command") && handler) void this.#answer(m, handler)
		else if (m.kind === "event" && m.type === "Syscall.Cancelled") this.#running.get(m.data.id)?.abort(new KernosError(499, "the request was cancelled"))
		else if (m.kind === "error" && m.type === "Syscall.Disconnected") {
			this.#reason = new KernosError(m.data.code, m.data.message)
			this.wire.close() // it is the last message; kernos pipe would wait for the next daemon
		}
		else this.#waiting.get(m.metadata.causation ?? "")?.(m)
	}

	async #answer(m: Message, handler: Handler): Promise<void> {
		const abort = new AbortController()
		this.#running.set(m.metadata.id, abort)
		const answer = (kind: Kind, data: unknown) => this.send(message(kind, m.type, data, { causation: m.metadata.id }))
		try {
			answer("reply", (await handler(m.data, new Request(this, m, abort.signal))) ?? null)
		} catch (e) {
			if (!(e instanceof KernosError)) console.error(e)
			if (!this.#ended) answer("error", e instanceof KernosError ? errorData(e) : { code: 500, message: `${m.type} has failed; its log says why` })
		} finally {
			this.#running.delete(m.metadata.id)
		}
	}
}

/** A request that a handler answers. The signal is aborted when no caller waits any more. */
export class Request {
	constructor(readonly client: Client, readonly message: Message, readonly signal: AbortSignal) {}

	get #lineage() {
		return { causation: this.message.metadata.id, correlation: this.message.metadata.correlation }
	}

	event(type: string, data: unknown): void {
		this.client.send(message("event", type, data, this.#lineage))
	}

	/** Tells the caller how far it is, from 0 to 1. */
	progress(text: string, fraction?: number): void {
		this.event("Syscall.Progressed", { message: text, percentage: fraction })
	}

	/** Asks on behalf of the request. */
	query(type: string, data: unknown = {}, options: Options = {}): Promise<any> {
		return this.client.query(type, data, { ...this.#lineage, ...options })
	}

	/** Does something on behalf of the request. */
	command(type: string, data: unknown = {}, options: Options = {}): Promise<any> {
		return this.client.command(type, data, { ...this.#lineage, ...options })
	}
}

// errorData returns an error as a message has it, with its causes; undefined for what is no error.
function errorData(e: any): object | undefined {
	if (!e || typeof e.message !== "string") return undefined
	const cause = errorData(e.reason ?? e.cause)
	const coded = typeof e.code === "number"
	return { code: coded ? e.code : 500, message: coded ? e.message : `${e.name ?? "Error"}: ${e.message}`, ...(cause && { cause }) }
}

/** Reports whether a value is a BlobPointer. */
export function isPointer(value: any): value is BlobPointer {
	return ["file", "https", "data"].includes(value?.scheme) && typeof value.path === "string"
}

function message(kind: Kind, type: string, data: unknown, metadata: Partial<Metadata>): Message {
	return { kind, type, data, metadata: { id: newID(), timestamp: Date.now(), ...metadata } }
}

// newID is a random id. Pages without TLS have no crypto.randomUUID.
function newID(): string {
	return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("")
}

/** A way to a daemon. start is called once, end at most once after it. */
export interface Wire {
	start(take: (m: Message) => void, end: (why?: string | KernosError) => void): void
	send(m: Message, line: string): void
	cancel(id: string): void
	close(): void
}

// lines is the wire of one message per line. read gets a function for the bytes that come, and one for the end.
function lines(read: (came: (bytes: Uint8Array) => void, end: (why?: string | KernosError) => void) => void, write: (text: string) => void, close: () => void): Wire {
	return {
		start(take, end) {
			const decoder = new TextDecoder()
			let rest = ""
			read((bytes) => {
				const all = (rest + decoder.decode(bytes, { stream: true })).split("\n")
				rest = all.pop()!
				for (const line of all) if (line) take(JSON.parse(line))
			}, end)
		},
		send: (_, line) => write(line + "\n"),
		cancel: (id) => write(JSON.stringify(message("command", "Syscall.Cancel", { id }, {})) + "\n"),
		close,
	}
}

async function unix(path: string): Promise<Wire> {
	const { createConnection } = await import("node:net")
	const socket = createConnection(path)
	await new Promise<void>((resolve, reject) => {
		socket.once("connect", resolve)
		socket.once("error", (e) => reject(new KernosError(502, `no daemon serves the socket ${path}: ${e.message}; kernos serve starts one`)))
	})
	return lines((came, end) => {
		socket.on("data", came).on("close", () => end()).on("error", (e) => end(e.message))
	}, (text) => socket.write(text), () => socket.destroy())
}

// process reaches the daemon through kernos pipe, which finds it, starts it, and signs where that is wanted.
async function process(command: string[]): Promise<Wire> {
	const { spawn } = await import("node:child_process")
	const child = spawn(command[0], command.slice(1), {
		stdio: ["pipe", "pipe", command.includes("--no-start") ? "ignore" : "inherit"], detached: true, // that there is no daemon yet is no news
	})
	await new Promise<void>((resolve, reject) => {
		child.once("spawn", resolve)
		child.once("error", (e) => reject(new KernosError(501, `${command[0]} can't be run: ${e.message}; install it, or set KERNOS_SOCKET`)))
	})
	child.stdin.on("error", () => {}) // the end of its output says it
	return lines((came, end) => {
		child.stdout.on("data", came)
		child.on("close", (status) => end(status === 2 || status === 3 ? new KernosError(403, "kernos pipe can't connect; kernos doctor says why") : undefined))
	}, (text) => child.stdin.write(text), () => child.kill())
}

// http has messages in the body of one request and of its answer, at the same time.
async function http(url: string, token?: string): Promise<Wire> {
	const { request } = await (url.startsWith("https:") ? import("node:https") : import("node:http"))
	const headers = { "Content-Type": "application/x-ndjson", ...(token && { Authorization: `Bearer ${token}` }) }
	const sent = request(`${url}/v1/messages`, { method: "POST", headers })
	sent.flushHeaders()
	const response = await new Promise<import("node:http").IncomingMessage>((resolve, reject) => {
		sent.once("response", resolve)
		sent.once("error", (e) => reject(new KernosError(502, `${url} can't be reached: ${e.message}`)))
	})
	sent.on("error", () => {}) // the end of the answer says it
	if (response.statusCode !== 200) {
		let text = "", reason = response.statusMessage
		try {
			for await (const part of response) text += part
			reason = JSON.parse(text).message ?? reason
		} catch { // it isn't the daemon's, or ends early
			reason = text.trim() || reason
		}
		sent.destroy()
		throw new KernosError(response.statusCode!, reason!)
	}
	return lines((came, end) => {
		response.on("data", came).on("close", () => end()).on("error", (e) => end(e.message))
	}, (text) => sent.write(text), () => sent.destroy())
}

// webSocket calls methods of JSON-RPC, whose answers are streams of items.
async function webSocket(url: string, token?: string): Promise<Wire> {
	if (!globalThis.WebSocket) throw new KernosError(501, "WebSockets need Node 22; an address with http: does the same")
	const socket = new WebSocket(url, token ? ["kernos", `kernos.token.${token}`] : ["kernos"])
	await new Promise<void>((resolve, reject) => {
		socket.onopen = () => resolve()
		socket.onerror = () => reject(new KernosError(502, `${url} can't be reached, or doesn't accept the token or the page`))
	})
	const sent = new Map<number, Message>() // requests without a stream yet, by their numbers
	const streams = new Map<string, Message>()
	let number = 0
	const rpc = (method: string, params: unknown[], more: object = {}) => socket.send(JSON.stringify({ jsonrpc: "2.0", id: ++number, method, params, ...more }))
	return {
		start(take, end) {
			const answer = (to: Message, kind: Kind, type: string, data: unknown) => take(message(kind, type, data, { causation: to.metadata.id }))
			const outcomes = new Map<Message, { kind: Kind; data: unknown }>()
			socket.onclose = (e) => end(e.reason)
			socket.onmessage = ({ data }) => {
				for (const frame of [JSON.parse(data)].flat()) {
					const request = sent.get(frame.id)
					if (request) {
						sent.delete(frame.id)
						if (frame.error) answer(request, "error", request.type, { code: frame.error.data?.code ?? (frame.error.code === -32601 ? 404 : 422), message: frame.error.message })
						else streams.set(String(frame.result), request)
						continue
					}
					const id = String(frame.params?.subscription), item = frame.params?.result, to = streams.get(id)
					if (!to || !item) continue
					if (item.type === "progress") answer(to, "event", "Syscall.Progressed", { message: item.message, percentage: item.percentage })
					else if (item.type === "data" && item.content_type === methodOf(to.type).join(".")) outcomes.set(to, { kind: "reply", data: item.data })
					else if (item.type === "data") answer(to, "event", item.content_type, item.data)
					else if (item.type === "error") outcomes.set(to, { kind: "error", data: { code: item.code || 500, message: item.error } })
					else if (item.type === "done") {
						const { kind, data } = outcomes.get(to) ?? { kind: "reply" as Kind, data: null }
						outcomes.delete(to)
						streams.delete(id)
						answer(to, kind, to.type, data)
					}
				}
			}
		},
		send(m) {
			if (m.kind !== "query" && m.kind !== "command" || m.type === "Syscall.Register") throw new KernosError(501, "a WebSocket is for calls; serve syscalls over a socket, or an address with http:")
			rpc(methodOf(m.type).join("_"), [m.data], { kind: m.kind, metadata: { correlation: m.metadata.correlation, idempotencyKey: m.metadata.idempotencyKey } })
			sent.set(number, m)
		},
		cancel(id) {
			for (const [stream, m] of streams) if (m.metadata.id === id) rpc("service_unsubscribe", [stream])
		},
		close: () => socket.close(),
	}
}

// methodOf is the module and the method of a type: Job.TreeCreate is job and tree_create, Ping is kernel and ping.
function methodOf(type: string): [string, string] {
	const dot = type.indexOf(".")
	const method = type.slice(dot + 1).replace(/([a-z0-9])([A-Z])/g, "$1_$2").replace(/([A-Z]+)([A-Z][a-z])/g, "$1_$2")
	return [dot < 0 ? "kernel" : type.slice(0, dot).toLowerCase(), method.toLowerCase()]
}
