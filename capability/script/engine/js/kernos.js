// What a handler has. This runs once, before the memory is kept that each call begins with.
// host holds the functions of host.go; they check what they get, since code can find them.
const { call, cancel, done, emit, fail, log, progress, random, randomBytes, digest, encode, decode, parseURL, changeURL } = host;

function define(values) {
  for (const name in values) Object.defineProperty(globalThis, name, { value: values[name], writable: true, configurable: true });
}

// Calls of syscalls. The host runs at most maxCalls of them at once; further ones wait here.
const maxCalls = 16;
const waiting = [], running = new Map();
let lastCall = 0;

class KernosError extends Error {
  constructor(code, message, options) {
    super(message, options);
    this.code = code;
  }
}
Object.defineProperty(KernosError.prototype, "name", { value: "KernosError", configurable: true, writable: true });

function begin() {
  while (waiting.length > 0 && running.size < maxCalls) {
    const c = waiting.shift();
    if (c.settled) continue;
    running.set(c.id, c);
    call(c.id, c.type, c.data);
  }
}

function kernosCall(type, data, options) {
  const text = JSON.stringify(data === undefined ? {} : data);
  const signal = options?.signal;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const c = { id: ++lastCall, type: `${type}`, data: text, resolve, reject, settled: false };
    signal?.addEventListener("abort", () => {
      if (c.settled) return;
      c.settled = true;
      if (running.delete(c.id)) cancel(c.id);
      reject(signal.reason);
      begin();
    });
    waiting.push(c);
    begin();
  });
}

// settle is called by the host with the outcome of a call.
function settle(id, code, text) {
  const c = running.get(id);
  if (!c) return;
  running.delete(id);
  c.settled = true;
  if (code === 0) c.resolve(JSON.parse(text));
  else c.reject(errorOf(JSON.parse(text)));
  begin();
}

function errorOf(e) {
  return new KernosError(e.code, e.message, e.cause ? { cause: errorOf(e.cause) } : undefined);
}

define({
  kernos: {
    call: kernosCall,
    emit: (type, data) => emit(`${type}`, JSON.stringify(data === undefined ? {} : data)),
    progress: (note, fraction) => progress(`${note}`, fraction === undefined ? -1 : +fraction),
    Error: KernosError,
  },
});

// Timers. The host asks with tick how long it may wait.
const timers = new Map();
let lastTimer = 0;

function setTimer(f, delay, repeat, args) {
  if (typeof f !== "function") throw new TypeError("a timer needs a function");
  const ms = Math.max(1, Math.min(+delay || 0, 2 ** 31));
  timers.set(++lastTimer, { f, args, due: Date.now() + ms, repeat: repeat ? ms : 0 });
  return lastTimer;
}
const clearTimer = (id) => void timers.delete(id);
define({
  setTimeout: (f, delay, ...args) => setTimer(f, delay, false, args),
  setInterval: (f, delay, ...args) => setTimer(f, delay, true, args),
  clearTimeout: clearTimer,
  clearInterval: clearTimer,
});

// tick runs one timer that is due, and returns after how many milliseconds the next one is, or -1.
function tick() {
  let first, id;
  for (const [i, t] of timers) if (!first || t.due < first.due) [id, first] = [i, t];
  if (!first) return -1;
  const wait = first.due - Date.now();
  if (wait > 0) return wait;
  if (first.repeat) first.due = Date.now() + first.repeat;
  else timers.delete(id);
  first.f(...first.args);
  return 0;
}

// console
const show = (x) => {
  if (typeof x === "string") return x;
  if (x instanceof Error) return x.stack ? `${x}\n${x.stack}`.trimEnd() : `${x}`;
  if (typeof x === "object" && x !== null) {
    try { return JSON.stringify(x); } catch { return `${x}`; }
  }
  return typeof x === "bigint" ? `${x}n` : String(x);
};
const print = (level) => (...args) => log(level, args.map(show).join(" "));
const clocks = new Map(), counts = new Map();
const elapsed = (label = "default") => print("info")(`${label}: ${Date.now() - (clocks.get(label) ?? Date.now())} ms`);
define({
  console: {
    debug: print("debug"), trace: print("debug"), log: print("info"), info: print("info"), dir: print("info"), table: print("info"),
    warn: print("warn"), error: print("error"), group: print("info"), groupEnd() {},
    assert: (ok, ...args) => { if (!ok) print("error")("Assertion failed:", ...args); },
    count: (label = "default") => { counts.set(label, (counts.get(label) ?? 0) + 1); print("info")(`${label}: ${counts.get(label)}`); },
    time: (label = "default") => void clocks.set(label, Date.now()), timeLog: elapsed, timeEnd: elapsed,
  },
});

Math.random = () => random();

// The handler.
let handler;

const word = (x) => (typeof x === "string" ? x : undefined);

function load(loading) {
  loading.then((module) => {
    handler = module.handler;
    const tag = handler?.constructor?.name;
    finish({
      handler: typeof handler === "function",
      stream: tag === "AsyncGeneratorFunction" || tag === "GeneratorFunction",
      input: module.InputSchema, output: module.OutputSchema, presentation: module.presentation,
      kind: word(module.kind), description: word(module.description), version: word(module.version),
    });
  }).catch(failed);
}

const finish = (out) => done(JSON.stringify(out) ?? "null");
const failed = (e) => fail(explain(e));

async function drain(items) {
  for (;;) {
    const { done: last, value } = await items.next();
    if (last) return value;
    emit("", JSON.stringify(value) ?? "null");
  }
}

function run(text) {
  try {
    if (typeof handler !== "function") throw new TypeError("the code exports no function with the name handler");
    const out = handler(JSON.parse(text));
    if (typeof out === "object" && out !== null) {
      if (typeof out.then === "function") return void Promise.resolve(out).then(finish).catch(failed);
      if (typeof out.next === "function" && (out[Symbol.asyncIterator] || out[Symbol.iterator])) return void drain(out).then(finish).catch(failed);
    }
    finish(out);
  } catch (e) {
    failed(e);
  }
}

// explain describes what was thrown.
function explain(e) {
  const described = (e, depth) => {
    if (typeof e !== "object" || e === null) return { message: show(e) };
    return {
      name: `${e.name ?? ""}`, message: `${e.message ?? show(e)}`, stack: `${e.stack ?? ""}`,
      code: typeof e.code === "number" ? e.code : undefined,
      cause: e.cause != null && depth > 0 ? described(e.cause, depth - 1) : undefined,
    };
  };
  return JSON.stringify(described(e, 3));
}

