// Sealed strings, written from their description alone and without any code of Kernos, so
// that tests can show that two programs understand each other.
//
//   node pwenc.mjs < {"key":PEM,"hash":"sha512","do":"seal","text":…,"nonce":HEX?,"aad":…?,"ts":…?}
//   node pwenc.mjs < {"key":PEM,"hash":"sha512","do":"open","text":"pwenc:v1:…"}
//
// The key is a private key, Ed25519 or RSA; the hash is for RSA. The answer is a line of
// JSON: {"text":…,"kid":…}.

import * as crypto from "node:crypto";
import { readFileSync } from "node:fs";

const request = JSON.parse(readFileSync(0, "utf8"));
const privateKey = crypto.createPrivateKey(request.key);

// sshString is a string as SSH writes it: its length, then its bytes.
function sshString(bytes) {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

// sshNumber is a positive number as SSH writes it, with a zero before a leading one bit.
function sshNumber(bytes) {
  return sshString(bytes[0] & 0x80 ? Buffer.concat([Buffer.alloc(1), bytes]) : bytes);
}

// publicBlob is the public key as OpenSSH writes it, which a fingerprint is the hash of.
function publicBlob() {
  const jwk = crypto.createPublicKey(privateKey).export({ format: "jwk" });
  const member = (name) => Buffer.from(jwk[name], "base64url");
  return jwk.kty === "RSA"
    ? Buffer.concat([sshString(Buffer.from("ssh-rsa")), sshNumber(member("e")), sshNumber(member("n"))])
    : Buffer.concat([sshString(Buffer.from("ssh-ed25519")), sshString(member("x"))]);
}

const kid = "ssh-fp:SHA256:" + crypto.createHash("sha256").update(publicBlob()).digest("base64url");
const hash = privateKey.asymmetricKeyType === "rsa" ? request.hash : null; // RSA: PKCS #1 v1.5
const signature = crypto.sign(hash, Buffer.from("PromptWareOS::pwenc::v1"), privateKey);
const key = Buffer.from(crypto.hkdfSync("sha256", signature, "PromptwareOS", "pwenc:v1", 32));

function seal() {
  const nonce = request.nonce ? Buffer.from(request.nonce, "hex") : crypto.randomBytes(12);
  const cipher = crypto.createCipheriv("aes-256-gcm", key, nonce);
  if (request.aad) cipher.setAAD(Buffer.from(request.aad));
  const ct = Buffer.concat([cipher.update(request.text, "utf8"), cipher.final(), cipher.getAuthTag()]);
  const box = { v: 1, kid, alg: "A256GCM", nonce: nonce.toString("base64url"), ct: ct.toString("base64url") };
  if (request.aad) box.aad = request.aad;
  if (request.ts) box.ts = request.ts;
  return "pwenc:v1:" + Buffer.from(JSON.stringify(box)).toString("base64url");
}

function open() {
  const box = JSON.parse(Buffer.from(request.text.slice("pwenc:v1:".length), "base64url"));
  if (box.v !== 1 || box.alg !== "A256GCM") throw new Error("another version");
  if (box.kid !== kid) throw new Error(`sealed with ${box.kid}, and this is ${kid}`);
  const ct = Buffer.from(box.ct, "base64url");
  const cipher = crypto.createDecipheriv("aes-256-gcm", key, Buffer.from(box.nonce, "base64url"));
  if (box.aad) cipher.setAAD(Buffer.from(box.aad));
  cipher.setAuthTag(ct.subarray(-16));
  return cipher.update(ct.subarray(0, -16), undefined, "utf8") + cipher.final("utf8");
}

console.log(JSON.stringify({ text: request.do === "seal" ? seal() : open(), kid }));
