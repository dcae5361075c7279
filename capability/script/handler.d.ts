// What the code of a syscall has beside JavaScript itself. Nothing else of the machine is there.

/** The syscalls of the kernel: kernos types writes them. */
interface KernosSyscalls {}

/** The name of one of them; a name that is made at run time may be another. */
type KernosName<T extends string> = string extends T ? T : T extends keyof KernosSyscalls ? T : keyof KernosSyscalls;
type KernosInput<T extends string> = T extends keyof KernosSyscalls ? KernosSyscalls[T] extends { input: infer I } ? I : unknown : unknown;
type KernosOutput<T extends string> = T extends keyof KernosSyscalls ? KernosSyscalls[T] extends { output: infer O } ? O : any : any;

declare const kernos: {
  /** Call a syscall, with the rights of the caller and of the author of this code. */
  call<T extends string>(type: KernosName<T>, data?: KernosInput<T>, options?: { signal?: AbortSignal }): Promise<KernosOutput<T>>;
  /** Emit an event before the reply. Its type must not be one of the kernel. */
  emit(type: string, data?: unknown): void;
  /** Report how far the call is, from 0 to 1. */
  progress(note: string, fraction?: number): void;
  /** An error with a code of HTTP: it becomes the outcome of the call. Failed calls throw it. */
  Error: { new (code: number, message: string, options?: { cause?: unknown }): Error & { code: number } };
};

/** Lines of the console are recorded in the journal. */
declare const console: Record<"debug" | "trace" | "log" | "info" | "dir" | "warn" | "error" | "count" | "time" | "timeLog" | "timeEnd", (...values: unknown[]) => void> & {
  assert(condition: unknown, ...values: unknown[]): void;
};

/** Fetch a URL with Http.Fetch, whose rules apply: sealed strings in headers are opened, private addresses are refused. */
declare function fetch(url: string | URL, init?: { method?: string; headers?: Record<string, string> | Headers; body?: string | URLSearchParams | ArrayBuffer | ArrayBufferView; signal?: AbortSignal; timeout?: number }): Promise<Response>;

declare class Headers {
  constructor(init?: Record<string, string> | Headers | Iterable<[string, string]>);
  get(name: string): string | null;
  has(name: string): boolean;
  set(name: string, value: string): void;
  append(name: string, value: string): void;
  delete(name: string): void;
  [Symbol.iterator](): IterableIterator<[string, string]>;
}

declare class Response {
  constructor(body?: string, init?: { status?: number; headers?: Record<string, string> });
  readonly status: number;
  readonly ok: boolean;
  readonly headers: Headers;
  readonly url: string;
  text(): Promise<string>;
  json(): Promise<any>;
  bytes(): Promise<Uint8Array>;
  arrayBuffer(): Promise<ArrayBuffer>;
}

declare class URLSearchParams {
  constructor(init?: string | Record<string, string> | Iterable<[string, string]>);
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string): boolean;
  set(name: string, value: string): void;
  append(name: string, value: string): void;
  delete(name: string): void;
  toString(): string;
  [Symbol.iterator](): IterableIterator<[string, string]>;
}

declare class URL {
  constructor(url: string | URL, base?: string | URL);
  href: string;
  protocol: string;
  username: string;
  password: string;
  host: string;
  hostname: string;
  port: string;
  pathname: string;
  search: string;
  hash: string;
  readonly origin: string;
  readonly searchParams: URLSearchParams;
  toString(): string;
  toJSON(): string;
}

declare class AbortSignal {
  readonly aborted: boolean;
  readonly reason: any;
  throwIfAborted(): void;
  addEventListener(type: "abort", listener: () => void): void;
  removeEventListener(type: "abort", listener: () => void): void;
  static abort(reason?: unknown): AbortSignal;
  static timeout(ms: number): AbortSignal;
}

declare class AbortController {
  readonly signal: AbortSignal;
  abort(reason?: unknown): void;
}

declare class TextEncoder {
  encode(text?: string): Uint8Array;
}

declare class TextDecoder {
  constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
  decode(data?: ArrayBuffer | ArrayBufferView): string;
}

declare const crypto: {
  randomUUID(): string;
  getRandomValues<T extends ArrayBufferView>(array: T): T;
  subtle: { digest(algorithm: "SHA-1" | "SHA-256" | "SHA-384" | "SHA-512", data: ArrayBuffer | ArrayBufferView): Promise<ArrayBuffer> };
};

declare function setTimeout(f: (...args: any[]) => void, ms?: number, ...args: any[]): number;
declare function setInterval(f: (...args: any[]) => void, ms?: number, ...args: any[]): number;
declare function clearTimeout(id?: number): void;
declare function clearInterval(id?: number): void;
declare function structuredClone<T>(value: T): T;
declare function atob(text: string): string;
declare function btoa(text: string): string;
declare function queueMicrotask(f: () => void): void;

/** JSON Schemas, written short: export const InputSchema = z.object({ city: z.string() }). */
declare module "kernos:schema" {
  export const z: any;
}
