// Serves Polly.Generate: a program that is a language model of the kernel. It repeats what it hears.
//
//   kernos memory set models/polly '{"dialect":"syscall","type":"Polly.Generate"}'
//   kernos call Model.Generate --data '{"model":"polly","messages":[{"type":"input","text":"hello"}]}'
import { serve } from "../../../sdk/typescript/kernos.js"

await serve((client) => client.handle("Polly.Generate", { kind: "query", summary: "Repeat the last input of a conversation.", input: {}, output: {} }, async (data, request) => {
	// A long conversation is in a blob.
	const messages = data.messages ?? JSON.parse(new TextDecoder().decode(await client.resolve(data.messagesRef)))
	const heard = messages.filter((m) => m.type === "input").at(-1)?.text ?? ""
	const words = `You said: ${heard}`.split(" ")
	words.forEach((word, i) => request.event("Polly.Said", { delta: { text: i === 0 ? word : " " + word } }))
	return { finish: "stop", messages: [{ type: "reply", text: words.join(" ") }], usage: { input: messages.length, output: words.length } }
}))
