// Answers prompts with llama.cpp, so that internal/llama can be compared with it:
//
//	npm install node-llama-cpp@3.22.1
//	python3 conversations.py 400 > prompts.jsonl
//	node oracle.mjs ../../internal/llama/kernosdemo/kernos-demo.gguf < prompts.jsonl > llamacpp.jsonl
//	gzip -9n < llamacpp.jsonl > ../../internal/llama/testdata/llamacpp.jsonl.gz
//
// A line of the input is a prompt as a JSON text, with control tokens written out. A line of the
// output is {prompt, tokens, answer, gaps}: the prompt's tokens, those of the greedy answer, and
// how far the logit of each is ahead of the second best.
import fs from "node:fs";
import {getLlama} from "node-llama-cpp";

const room = 440; // longer prompts leave no room for an answer
const llama = await getLlama({gpu: false, logLevel: "error", build: "never"});
const model = await llama.loadModel({modelPath: process.argv[2]});
const context = await model.createContext({contextSize: 512, sequences: 1, threads: 1, flashAttention: false});
const sequence = context.getSequence();
const end = model.tokenize("<|im_end|>", true)[0];

for (const line of fs.readFileSync(0, "utf8").trim().split("\n")) {
	const prompt = JSON.parse(line);
	const tokens = model.tokenize(prompt, true, "trimLeadingSpace");
	if (tokens.length > room) continue;
	await sequence.clearHistory();
	const answer = [], gaps = [];
	for await (const {token, probabilities} of sequence.evaluateWithMetadata(tokens, {probabilities: true}, {temperature: 0})) {
		const [first, second] = probabilities.values();
		answer.push(token);
		gaps.push(Math.round(Math.log(first / second) * 1000) / 1000);
		if (token === end || tokens.length + answer.length >= 511) break;
	}
	console.log(JSON.stringify({prompt, tokens, answer, gaps}));
}
