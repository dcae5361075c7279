// What code expects of a web platform.

define({
  TextEncoder: class TextEncoder {
    get encoding() { return "utf-8"; }
    encode(text = "") { return new Uint8Array(encode(`${text}`)); }
    encodeInto(text, into) {
      let read = 0, written = 0;
      for (const c of `${text}`) {
        const b = this.encode(c);
        if (written + b.length > into.length) break;
        into.set(b, written);
        written += b.length;
        read += c.length;
      }
      return { read, written };
    }
  },
  TextDecoder: class TextDecoder {
    #pending = new Uint8Array(0);
    constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
      this.encoding = decode("label", `${label}`.trim().toLowerCase());
      if (!this.encoding) throw new RangeError(`TextDecoder knows utf-8, utf-16le, utf-16be and windows-1252, not ${label}`);
      this.fatal = !!fatal;
      this.ignoreBOM = !!ignoreBOM;
    }
    decode(data, { stream = false } = {}) {
      let b = data === undefined ? new Uint8Array(0) : bytesOf(data);
      if (this.#pending.length > 0) {
        const joined = new Uint8Array(this.#pending.length + b.length);
        joined.set(this.#pending);
        joined.set(b, this.#pending.length);
        b = joined;
      }
      const whole = stream ? b.length - unfinished(b, this.encoding) : b.length;
      this.#pending = b.slice(whole);
      const text = decode("text", this.encoding, +this.fatal, +this.ignoreBOM, b.slice(0, whole).buffer);
      if (text === undefined) throw new TypeError(`The data isn't ${this.encoding}`);
      return text;
    }
  },
});

// unfinished returns how many bytes at the end begin a character that isn't whole.
function unfinished(b, encoding) {
  if (encoding.startsWith("utf-16")) return b.length % 2;
  for (let n = 1; encoding === "utf-8" && n <= 3 && n <= b.length; n++) {
    const c = b[b.length - n];
    if (c >= 0xc0) return n < (c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2) ? n : 0;
    if (c < 0x80) return 0;
  }
  return 0;
}

function bytesOf(data) {
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  throw new TypeError("expected an ArrayBuffer, a typed array or a DataView");
}

const algorithms = ["SHA-1", "SHA-256", "SHA-384", "SHA-512"];
define({
  crypto: {
    randomUUID() {
      const b = new Uint8Array(randomBytes(16));
      b[6] = (b[6] & 0x0f) | 0x40;
      b[8] = (b[8] & 0x3f) | 0x80;
      const hex = Array.from(b, (x) => x.toString(16).padStart(2, "0")).join("");
      return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
    },
    getRandomValues(array) {
      const b = bytesOf(array);
      if (b.length > 65536) throw new DOMException("at most 65,536 bytes can be had at once", "QuotaExceededError");
      b.set(new Uint8Array(randomBytes(b.length)));
      return array;
    },
    subtle: {
      async digest(algorithm, data) {
        const name = `${algorithm?.name ?? algorithm}`.toUpperCase();
        if (!algorithms.includes(name)) throw new DOMException(`crypto.subtle.digest knows ${algorithms.join(", ")}, not ${name}`, "NotSupportedError");
        return digest(name, bytesOf(data).slice().buffer);
      },
    },
  },
});

class AbortSignal {
  #listeners = new Set();
  aborted = false;
  reason = undefined;
  onabort = null;
  addEventListener(type, f) { if (type === "abort") this.#listeners.add(f); }
  removeEventListener(type, f) { this.#listeners.delete(f); }
  throwIfAborted() { if (this.aborted) throw this.reason; }
  static #abort(signal, reason) {
    if (signal.aborted) return;
    signal.aborted = true;
    signal.reason = reason === undefined ? new DOMException("The operation was aborted", "AbortError") : reason;
    const event = { type: "abort", target: signal };
    if (typeof signal.onabort === "function") signal.onabort(event);
    for (const f of signal.#listeners) typeof f === "function" ? f.call(signal, event) : f?.handleEvent?.(event);
  }
  static abort(reason) {
    const signal = new AbortSignal();
    AbortSignal.#abort(signal, reason);
    return signal;
  }
  static timeout(ms) {
    const signal = new AbortSignal();
    setTimer(() => AbortSignal.#abort(signal, new DOMException("The time has passed", "TimeoutError")), ms, false, []);
    return signal;
  }
  static any(signals) {
    const signal = new AbortSignal();
    for (const s of signals) {
      if (s.aborted) AbortSignal.#abort(signal, s.reason);
      else s.addEventListener("abort", () => AbortSignal.#abort(signal, s.reason));
    }
    return signal;
  }
  static controlled() {
    const signal = new AbortSignal();
    return [signal, (reason) => AbortSignal.#abort(signal, reason)];
  }
}
const { controlled } = AbortSignal;
delete AbortSignal.controlled;

define({
  AbortSignal,
  AbortController: class AbortController {
    #abort;
    constructor() { [this.signal, this.#abort] = controlled(); }
    abort(reason) { this.#abort(reason); }
  },
  structuredClone(value) {
    const seen = new Map();
    const clone = (x) => {
      if (typeof x === "function" || typeof x === "symbol") throw new DOMException(`${String(x)} can't be cloned`, "DataCloneError");
      if (typeof x !== "object" || x === null) return x;
      if (seen.has(x)) return seen.get(x);
      const keep = (copy) => (seen.set(x, copy), copy);
      if (x instanceof Date) return keep(new Date(x.getTime()));
      if (x instanceof RegExp) return keep(new RegExp(x.source, x.flags));
      if (x instanceof Boolean || x instanceof Number || x instanceof String || x instanceof BigInt) return keep(Object(x.valueOf()));
      if (x instanceof ArrayBuffer) return keep(x.slice(0));
      if (x instanceof DataView) return keep(new DataView(clone(x.buffer), x.byteOffset, x.byteLength));
      if (ArrayBuffer.isView(x)) return keep(new x.constructor(clone(x.buffer), x.byteOffset, x.length));
      if (x instanceof Map) {
        const copy = keep(new Map());
        for (const [k, v] of x) copy.set(clone(k), clone(v));
        return copy;
      }
      if (x instanceof Set) {
        const copy = keep(new Set());
        for (const v of x) copy.add(clone(v));
        return copy;
      }
      if (x instanceof Promise || x instanceof WeakMap || x instanceof WeakSet || x instanceof WeakRef) throw new DOMException(`${x} can't be cloned`, "DataCloneError");
      if (x instanceof Error) {
        const copy = keep(Object.create(Object.getPrototypeOf(x)));
        for (const name of ["name", "message", "stack", "cause"]) if (Object.hasOwn(x, name)) Object.defineProperty(copy, name, { value: clone(x[name]), writable: true, configurable: true });
        return copy;
      }
      const copy = keep(Array.isArray(x) ? new Array(x.length) : {});
      for (const k of Object.keys(x)) copy[k] = clone(x[k]);
      return copy;
    };
    return clone(value);
  },
});

// Form encoding, as URLs have it in their query.
const formDecode = (text) => new TextDecoder().decode(Uint8Array.from(unescaped(text.replaceAll("+", " "))));
function* unescaped(text) {
  const b = new TextEncoder().encode(text);
  for (let i = 0; i < b.length; i++) {
    const hex = b[i] === 37 && i + 2 < b.length ? Number.parseInt(String.fromCharCode(b[i + 1], b[i + 2]), 16) : NaN;
    if (hex >= 0 && /^[0-9a-f]{2}$/i.test(String.fromCharCode(b[i + 1], b[i + 2]))) { yield hex; i += 2; } else yield b[i];
  }
}
const formEncode = (text) => encodeURIComponent(text.toWellFormed()).replace(/[!'()~]/g, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase()).replaceAll("%20", "+");

class URLSearchParams {
  #pairs = [];
  #changed = () => {};
  constructor(init = "") {
    if (typeof init === "object" && init !== null) {
      const pairs = typeof init[Symbol.iterator] === "function" ? init : Object.entries(init);
      for (const [k, v] of pairs) this.#pairs.push([`${k}`, `${v}`]);
    } else this.#read(`${init}`);
  }
  #read(text) {
    this.#pairs = text.replace(/^\?/, "").split("&").filter((p) => p !== "").map((p) => {
      const [k, ...v] = p.split("=");
      return [formDecode(k), formDecode(v.join("="))];
    });
  }
  static linked(changed) {
    const p = new URLSearchParams();
    p.#changed = changed;
    return [p, (text) => p.#read(text)];
  }
  append(k, v) { this.#pairs.push([`${k}`, `${v}`]); this.#changed(); }
  delete(k, v) { this.#pairs = this.#pairs.filter((p) => p[0] !== `${k}` || (v !== undefined && p[1] !== `${v}`)); this.#changed(); }
  get(k) { return this.#pairs.find((p) => p[0] === `${k}`)?.[1] ?? null; }
  getAll(k) { return this.#pairs.filter((p) => p[0] === `${k}`).map((p) => p[1]); }
  has(k, v) { return this.#pairs.some((p) => p[0] === `${k}` && (v === undefined || p[1] === `${v}`)); }
  set(k, v) {
    const at = this.#pairs.findIndex((p) => p[0] === `${k}`);
    if (at < 0) return this.append(k, v);
    this.#pairs = this.#pairs.filter((p, i) => p[0] !== `${k}` || i === at);
    this.#pairs[at] = [`${k}`, `${v}`];
    this.#changed();
  }
  sort() { this.#pairs.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0)); this.#changed(); }
  forEach(f, self) { for (const [k, v] of this.#pairs) f.call(self, v, k, this); }
  keys() { return this.#pairs.map((p) => p[0]).values(); }
  values() { return this.#pairs.map((p) => p[1]).values(); }
  entries() { return this.#pairs.map((p) => [...p]).values(); }
  [Symbol.iterator]() { return this.entries(); }
  get size() { return this.#pairs.length; }
  toString() { return this.#pairs.map(([k, v]) => `${formEncode(k)}=${formEncode(v)}`).join("&"); }
}
const { linked } = URLSearchParams;
delete URLSearchParams.linked;

// A URL keeps its parts as the host parsed them.
class URL {
  #parts;
  #search;
  constructor(url, base) {
    this.#take(parseURL(`${url}`, base === undefined ? "" : `${base}`), url);
  }
  static canParse(url, base) { return parseURL(`${url}`, base === undefined ? "" : `${base}`) !== ""; }
  static parse(url, base) { return URL.canParse(url, base) ? new URL(url, base) : null; }
  #take(parts, url) {
    if (parts === "") throw new TypeError(`Invalid URL: ${url}`);
    this.#parts = JSON.parse(parts);
    this.#search?.[1](this.#parts.search);
  }
  static change(u, name, value) { u.#take(changeURL(u.#parts.href, name, `${value}`), value); }
  static part(u, name) { return u.#parts[name]; }
  get searchParams() {
    if (!this.#search) {
      this.#search = linked(() => {
        const text = this.#search[0].toString();
        this.#parts = JSON.parse(changeURL(this.#parts.href, "search", text));
      });
      this.#search[1](this.#parts.search);
    }
    return this.#search[0];
  }
  toString() { return this.href; }
  toJSON() { return this.href; }
}
const { change, part } = URL;
delete URL.change;
delete URL.part;
for (const name of ["href", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"]) {
  Object.defineProperty(URL.prototype, name, { get() { return part(this, name); }, set(v) { change(this, name, v); }, enumerable: true, configurable: true });
}
Object.defineProperty(URL.prototype, "origin", { get() { return part(this, "origin"); }, enumerable: true, configurable: true });

class Headers {
  #values = new Map();
  constructor(init) {
    if (!init) return;
    for (const [k, v] of typeof init[Symbol.iterator] === "function" ? init : Object.entries(init)) {
      for (const one of Array.isArray(v) ? v : [v]) this.append(k, one);
    }
  }
  append(k, v) { this.#values.set(`${k}`.toLowerCase(), this.has(k) ? `${this.get(k)}, ${v}` : `${v}`.trim()); }
  delete(k) { this.#values.delete(`${k}`.toLowerCase()); }
  get(k) { return this.#values.get(`${k}`.toLowerCase()) ?? null; }
  has(k) { return this.#values.has(`${k}`.toLowerCase()); }
  set(k, v) { this.#values.set(`${k}`.toLowerCase(), `${v}`.trim()); }
  forEach(f, self) { for (const [k, v] of this) f.call(self, v, k, this); }
  entries() { return [...this.#values].sort((a, b) => (a[0] < b[0] ? -1 : 1)).values(); }
  keys() { return [...this.entries()].map((e) => e[0]).values(); }
  values() { return [...this.entries()].map((e) => e[1]).values(); }
  [Symbol.iterator]() { return this.entries(); }
}

// readBlob reads what a reply refers to, part by part.
async function readBlob(ref) {
  const parts = [];
  for (let offset = 0; offset !== undefined; ) {
    const p = await kernosCall("Blob.Read", { ref, offset });
    parts.push(p.text !== undefined ? new TextEncoder().encode(p.text) : Uint8Array.from(atob(p.base64), (c) => c.charCodeAt(0)));
    offset = p.next;
  }
  const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    all.set(p, at);
    at += p.length;
  }
  return all;
}

class Response {
  #body;
  constructor(body, { status = 200, headers, url = "", ref } = {}) {
    this.status = status;
    this.ok = status >= 200 && status < 300;
    this.headers = new Headers(headers);
    this.url = url;
    this.#body = { text: body ?? "", ref };
  }
  async text() { return this.#body.ref ? new TextDecoder().decode(await this.bytes()) : this.#body.text; }
  async json() { return JSON.parse(await this.text()); }
  async bytes() { return this.#body.ref ? readBlob(this.#body.ref) : new TextEncoder().encode(this.#body.text); }
  async arrayBuffer() { return (await this.bytes()).buffer; }
}

define({
  URL, URLSearchParams, Headers, Response,
  async fetch(url, { method = "GET", headers, body, signal, timeout } = {}) {
    const sent = Object.fromEntries(new Headers(headers));
    if (body instanceof URLSearchParams) sent["content-type"] ??= "application/x-www-form-urlencoded;charset=UTF-8";
    if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) body = new TextDecoder("utf-8", { fatal: true }).decode(body);
    const reply = await kernosCall("Http.Fetch", { url: `${url}`, method: `${method}`.toUpperCase(), headers: sent, body: body == null ? undefined : `${body}`, timeout }, { signal });
    return new Response(reply.body, { status: reply.status, headers: reply.headers, url: `${url}`, ref: reply.bodyRef });
  },
});
