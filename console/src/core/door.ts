// The way in. A browser that was opened by a link makes a key, whose private part no script can read, keeps it in IndexedDB, and
// enrols the public part with the code of the link. Each request and connection proves that the browser holds the key, by signing
// a challenge for one origin and one purpose.
import { signal } from "@preact/signals";
import { note } from "./route";

/** A method that this browser may not call, and why. */
export interface HiddenMethod { method: string; why: string }

/** What the kernel knows of this browser; null if it was let in without a key. */
export interface Browser { name: string; expires: number; owner?: number; hidden: HiddenMethod[]; types: Record<string, string> }

export const browser = signal<Browser | null>(null);
/** What a person can do about a method that is hidden. */
export const remedy = "for the owner: kernos console --owner";
/** Why this browser isn't let in, or a link did not; "" if all is well. */
export const refused = signal("");
/** Until when the browser acted for the owner, if that is over; 0 if it never did. */
export const ownerEnded = signal(0);

/** The address of something of this kernel, which may be below a path of a proxy. */
const base = new URL(".", location.href.split("#")[0]);
const at = (path: string) => new URL(path, base);

/** A refusal by the kernel; others are those of the network. */
export class Refused extends Error {
  constructor(message: string, readonly status: number, readonly kind = "") { super(message); }
}

interface Kept { pair: CryptoKeyPair; name: string } // the name is "" until the key is enrolled

let store: Promise<IDBDatabase> | undefined;

const settled = <T>(request: IDBRequest<T>) => new Promise<T>((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

/** Reads or changes what is kept for a kernel: one address may have had several, at different times. */
async function keys<T>(mode: IDBTransactionMode, use: (keys: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  for (let again = store !== undefined; ; again = false) { // a browser may have closed what was opened before
    try {
      store ??= (() => {
        const request = indexedDB.open("kernos", 1);
        request.onupgradeneeded = () => { request.result.createObjectStore("keys"); };
        return settled(request);
      })();
      return await settled(use((await store).transaction("keys", mode).objectStore("keys")));
    } catch (failure) {
      store = undefined;
      if (!again) throw new Refused(`This browser keeps no keys for this page (${(failure as Error).message}). Allow the page to store data, or use a window that isn't private`, 401, "no_store");
    }
  }
}

const slot = (home: string) => `${base.pathname} ${home}`;

interface Challenge { challenge: string; home: string }

async function answerOf<T>(answer: Response): Promise<T> {
  if (answer.ok) return answer.status === 204 ? (undefined as T) : answer.json();
  const { message = `The kernel answers with ${answer.status}`, name } = await answer.json().catch(() => ({})); // it may not be ours
  throw new Refused(message, answer.status, name);
}

const challenge = async () => answerOf<Challenge>(await fetch(at("console/challenge"), { cache: "no-store" }));

const text64 = (bytes: ArrayBuffer) => btoa(String.fromCharCode(...new Uint8Array(bytes)));
const url64 = (bytes: ArrayBuffer) => text64(bytes).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

function sign(pair: CryptoKeyPair, purpose: string, given: Challenge) {
  const text = ["kernos-console:v1", location.origin, purpose, given.challenge].join("\n");
  return crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, pair.privateKey, new TextEncoder().encode(text));
}

/** Proves that this browser holds its key, for one request; undefined if it has none. */
export async function proof(purpose: string): Promise<string | undefined> {
  if (!isSecureContext) return undefined;
  const given = await challenge();
  const kept: Kept | undefined = await keys("readonly", (all) => all.get(slot(given.home)));
  return kept?.name ? `${kept.name}.${given.challenge}.${url64(await sign(kept.pair, purpose, given))}` : undefined;
}

/** Asks for something of this kernel, with a proof. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const proved = await proof(`${init.method ?? "GET"} /${path}`);
  return fetch(at(path), { cache: "no-store", ...init, headers: { ...init.headers, ...(proved && { Authorization: `Kernos-Key ${proved}` }) } });
}

/** Asks the kernel who this browser is. */
export async function look() {
  const was = browser.peek()?.owner;
  const { browser: now } = await answerOf<{ browser: Browser | null }>(await request("console/who"));
  browser.value = now;
  if (was && !now?.owner) ownerEnded.value = was;
  else if (now?.owner) ownerEnded.value = 0;
}

/** Why a page that isn't at an address with keys can't be let in. */
export const insecure = "A browser makes keys for https and for this machine only. Open the console as http://127.0.0.1 or http://localhost, or through a proxy that has TLS";

/** Lets this browser in with the code of a link, if the page was opened by one. The code leaves the address first. */
export async function enter() {
  const code = /^#enter=(\w+)$/.exec(location.hash)?.[1];
  if (!code) return;
  note(base.href);
  refused.value = "";
  if (!isSecureContext) {
    refused.value = insecure;
    return;
  }
  try {
    const given = await challenge();
    const known: Kept | undefined = await keys("readonly", (all) => all.get(slot(given.home)));
    const pair = known?.pair ?? await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, false, ["sign"]);
    const keep = (name: string) => keys("readwrite", (all) => all.put({ pair, name } satisfies Kept, slot(given.home)));
    if (!known) await keep(""); // a browser that can't keep the key must not use the link up
    const { name } = await answerOf<{ name: string }>(await fetch(at("console/enrol"), {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({
        code, key: text64(await crypto.subtle.exportKey("raw", pair.publicKey)),
        challenge: given.challenge, signature: text64(await sign(pair, "POST /console/enrol", given)),
      }),
    }));
    await keep(name);
  } catch (failure) {
    refused.value = `This link did not let the browser in: ${(failure as Error).message}`;
  }
}

/** Takes this browser's key back, here and in the kernel. */
export async function leave() {
  try {
    await answerOf(await request("console/leave", { method: "POST" }));
  } finally {
    const { home } = await challenge();
    await keys("readwrite", (all) => all.delete(slot(home)));
  }
}
