// The connection to the kernel: JSON-RPC over a WebSocket, in which every call is a stream of
// items. The connection is made again when it is lost, and open streams go on where they were.
import { batch, effect, signal } from "@preact/signals";
import { enter, insecure, leave, look, proof, Refused, refused } from "./door";
import { parse } from "./json";
import { whole } from "./reference";

/** An item of a stream, as the protocol has it. */
export interface Item {
  type: "progress" | "data" | "error" | "done" | "guidance";
  service_hash: string;
  provenance: string[];
  seq?: number;
  [field: string]: any;
}

/** What a caller hears of its stream. `lost` says that items are missing: the stream has ended. */
export interface Listener {
  item?(item: Item): void;
  end?(): void;
  lost?(reason: string): void;
}

/** How the connection is doing. */
export type Status = "connecting" | "online" | "lost" | "signed-out";

export const status = signal<Status>("connecting");
/** When the connection was lost, in milliseconds since 1970. */
export const lostAt = signal(0);
/** How long the last question took, in milliseconds. */
export const roundTrip = signal(0);
/** The hash of what can be called; "" before it is known. */
export const serviceHash = signal("");

/** A call that was sent, and the stream that answers it. */
export class Stream {
  id = ""; // of the subscription, once it is acknowledged
  after = 0; // the number of the last item that came
  over = false;
  constructor(readonly method: string, readonly params: unknown[], readonly listener: Listener, readonly request?: string) {}

  /** Ends the stream: the kernel cancels the call. */
  cancel() {
    if (this.over) return;
    this.over = true;
    streams.delete(this.id);
    if (this.id) send("service_unsubscribe", [this.id]);
  }
}

interface Question { take(answer: { result?: any; error?: { code: number; message: string } }): void; lost(): void }

let socket: WebSocket | undefined;
let lastId = 0;
let attempts = 0;
const questions = new Map<number, Question>();
const streams = new Map<string, Stream>(); // that are open, by subscription
const waiting = new Set<Stream>(); // that are not acknowledged yet

function send(method: string, params: unknown[], question?: Question, metadata?: { id: string }) {
  if (socket?.readyState !== WebSocket.OPEN) { question?.lost(); return; }
  const id = ++lastId;
  if (question) questions.set(id, question);
  socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params, metadata }));
}

/** Asks what is answered without a stream, and changes nothing: it is asked again if the connection is lost before the answer has come. */
export async function question<T = any>(method: string, params: unknown[] = []): Promise<T> {
  for (;;) {
    await new Promise<void>((online) => {
      const stop = effect(() => { if (status.value === "online") queueMicrotask(() => { stop(); online(); }); });
    });
    try {
      return await new Promise<T>((resolve, reject) => send(method, params, {
        take(answer) { answer.error ? reject(new CallError(answer.error.message, answer.error.code)) : resolve(answer.result); },
        lost() { reject(new Lost("The connection was lost before the answer came.")); },
      }));
    } catch (failure) {
      if (!(failure instanceof Lost)) throw failure;
    }
  }
}

/** Opens a stream. It is sent when there is a connection. The journal has the message of the call under the id of the request, if one is given. */
export function open(method: string, params: unknown[], listener: Listener, request?: string): Stream {
  const stream = new Stream(method, params, listener, request);
  if (status.peek() === "online") start(stream);
  else waiting.add(stream);
  return stream;
}

function start(stream: Stream) {
  if (stream.over) return;
  waiting.add(stream);
  send(stream.method, stream.params, {
    take(answer) {
      waiting.delete(stream);
      if (answer.error) {
        stream.over = true;
        stream.listener.item?.({ type: "error", service_hash: "", provenance: [], error: answer.error.message, code: answer.error.code, recoverable: false });
        stream.listener.end?.();
        return;
      }
      stream.id = answer.result;
      if (stream.over) { send("service_unsubscribe", [stream.id]); return; } // it was cancelled meanwhile
      streams.set(stream.id, stream);
    },
    lost() { // it isn't known whether the kernel has got it: repeating it could repeat an effect
      waiting.delete(stream);
      stream.over = true;
      stream.listener.lost?.("The connection was lost before the call was acknowledged.");
      stream.listener.end?.();
    },
  }, stream.request === undefined ? undefined : { id: stream.request });
}

function resume(stream: Stream) {
  send("service_resume", [stream.id, stream.after], {
    take(answer) {
      if (!answer.error) return;
      streams.delete(stream.id);
      stream.over = true;
      stream.listener.lost?.(answer.error.message);
      stream.listener.end?.();
    },
    lost() {}, // the next connection tries again
  });
}

/** Calls a command, which answers with one data item. It is sent once: if the connection is lost, it isn't known whether it ran. The signal cancels it. */
export function command<T = any>(method: string, params: unknown[] = [], signal?: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    let answer: any, failure: Error | undefined;
    const stream = open(method, params, {
      item(item) {
        if (item.type === "data") answer = item.data;
        else if (item.type === "error") failure = new CallError(item.error, item.code);
      },
      lost(reason) { failure = new Lost(reason); },
      end() { failure ? reject(failure) : resolve(whole(answer)); },
    });
    signal?.addEventListener("abort", () => { stream.cancel(); reject(new CallError("The call was canceled.")); });
  });
}

/** Asks a query, which changes nothing: it is asked again if the connection is lost before the answer has come. */
export async function ask<T = any>(method: string, params: unknown[] = [], signal?: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await command<T>(method, params, signal);
    } catch (failure) {
      if (!(failure instanceof Lost) || signal?.aborted) throw failure;
      await new Promise((done) => setTimeout(done, 100)); // a connection that is closing is noticed meanwhile
    }
  }
}

export class CallError extends Error {
  constructor(message: string, readonly code?: number) { super(message); }
}

class Lost extends CallError {}

function receive(frame: any) {
  if (frame.method === "service_subscription") {
    const stream = streams.get(frame.params.subscription);
    const item = frame.params.result as Item;
    if (item.service_hash && item.service_hash !== serviceHash.peek()) serviceHash.value = item.service_hash;
    if (!stream || (item.seq !== undefined && item.seq <= stream.after)) return;
    if (item.seq !== undefined) stream.after = item.seq;
    if (item.type !== "done") { stream.listener.item?.(item); return; }
    streams.delete(stream.id);
    stream.over = true;
    stream.listener.end?.();
    return;
  }
  const question = questions.get(frame.id);
  questions.delete(frame.id);
  question?.take(frame);
}

/** Lets this browser in, if a link has opened the page, connects, and stays connected. */
export async function connect() {
  await enter();
  addEventListener("hashchange", async () => { // a link may be opened in a page that is open already
    if (!location.hash.startsWith("#enter=")) return;
    await enter();
    if (refused.peek()) return;
    if (status.peek() === "signed-out") { status.value = "connecting"; void again(); }
    else socket?.close(); // the next connection has what the link gives
  });
  await again();
}

/** Makes a connection, with a proof that this browser holds its key. */
function attach(proved?: string) {
  const address = new URL("ws", location.href.split("#")[0]);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  const next = new WebSocket(address, proved ? ["kernos.batch", `kernos.key.${proved}`] : ["kernos.batch"]);
  socket = next;
  next.onopen = () => {
    attempts = 0;
    batch(() => { status.value = "online"; lostAt.value = 0; });
    for (const stream of streams.values()) resume(stream);
    const unsent = [...waiting];
    waiting.clear();
    unsent.forEach(start);
    beat();
  };
  next.onmessage = (event) => parse(event.data).forEach(receive);
  next.onclose = () => {
    if (socket !== next) return;
    socket = undefined;
    batch(() => { // before anything is told: what is asked now waits for the next connection
      if (status.peek() === "signed-out") return;
      if (status.peek() !== "lost") lostAt.value = Date.now();
      status.value = "lost";
    });
    const open = [...questions.values()];
    questions.clear();
    open.forEach((question) => question.lost());
    if (status.peek() !== "signed-out") void again(Math.min(2000, 250 * 2 ** attempts++));
  };
}

/** Connects after a while, unless the kernel does not let this browser in: then it reports why. */
async function again(wait = 0): Promise<void> {
  await new Promise((done) => setTimeout(done, wait));
  try {
    await look();
    attach(await proof("GET /ws"));
  } catch (failure) {
    if (failure instanceof Refused && (failure.status === 401 || failure.status === 403)) {
      batch(() => {
        status.value = "signed-out";
        refused.value ||= failure.kind !== "token_required" ? failure.message : isSecureContext ? "This browser isn't signed in" : insecure;
      });
      return;
    }
    batch(() => {
      if (status.peek() !== "lost") lostAt.value = Date.now();
      status.value = "lost";
    });
    return again(Math.min(2000, 250 * 2 ** attempts++)); // the server isn't there
  }
}

let beating = 0;

/** Asks for the hash now and then: it shows that the connection lives, and what has changed. */
function beat() {
  clearTimeout(beating);
  const began = performance.now();
  open("service_hash", [], {
    end() {
      roundTrip.value = performance.now() - began;
      beating = window.setTimeout(beat, 15_000);
    },
  });
}

/** Signs this browser out. */
export async function signOut() {
  try { await leave(); } catch (failure) { if (!(failure instanceof Refused)) throw failure; }
  batch(() => { status.value = "signed-out"; serviceHash.value = ""; refused.value = "This browser has signed out"; }); // what was shown leaves too
  socket?.close();
}
