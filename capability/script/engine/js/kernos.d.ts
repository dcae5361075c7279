// What a handler has. Use it with "lib": ["es2023"] and without "dom".

/** The syscalls, by name. `kernos types` adds those of a kernel. */
interface Syscalls {}

type JSONValue = null | boolean | number | string | JSONValue[] | { [name: string]: JSONValue };

declare namespace kernos {
  /** Calls a syscall. The call ends when signal aborts, and with the handler. */
  function call<T extends keyof Syscalls>(type: T, data: Syscalls[T] extends { input: infer I } ? I : never, options?: { signal?: AbortSignal }): Promise<Syscalls[T] extends { output: infer O } ? O : never>;
  function call(type: string, data?: unknown, options?: { signal?: AbortSignal }): Promise<any>;
  /** Emits an event. */
  function emit(type: string, data?: unknown): void;
  /** Reports how far the handler is, from 0 to 1. */
  function progress(note: string, fraction?: number): void;
  /** What a failed call throws. A handler that throws one answers with its code, from 400 to 599. */
  class Error extends globalThis.Error {
    constructor(code: number, message: string, options?: { cause?: unknown });
    readonly code: number;
  }
}

declare const console: Record<"debug" | "trace" | "log" | "info" | "dir" | "table" | "warn" | "error" | "group" | "count" | "time" | "timeLog" | "timeEnd", (...values: unknown[]) => void> & { groupEnd(): void; assert(ok: unknown, ...values: unknown[]): void };

declare function setTimeout<A extends unknown[]>(f: (...args: A) => void, ms?: number, ...args: A): number;
declare function setInterval<A extends unknown[]>(f: (...args: A) => void, ms?: number, ...args: A): number;
declare function clearTimeout(id?: number): void;
declare function clearInterval(id?: number): void;
declare function queueMicrotask(f: () => void): void;
declare function structuredClone<T>(value: T): T;
declare function atob(text: string): string;
declare function btoa(text: string): string;

declare const performance: { now(): number };
declare const crypto: {
  randomUUID(): string;
  getRandomValues<T extends ArrayBufferView>(array: T): T;
  subtle: { digest(algorithm: "SHA-1" | "SHA-256" | "SHA-384" | "SHA-512" | { name: string }, data: ArrayBuffer | ArrayBufferView): Promise<ArrayBuffer> };
};

declare class TextEncoder {
  readonly encoding: "utf-8";
  encode(text?: string): Uint8Array;
  encodeInto(text: string, into: Uint8Array): { read: number; written: number };
}
declare class TextDecoder {
  constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
  readonly encoding: string;
  decode(data?: ArrayBuffer | ArrayBufferView, options?: { stream?: boolean }): string;
}

declare class DOMException extends Error {
  constructor(message?: string, name?: string);
}
declare class AbortSignal {
  static abort(reason?: unknown): AbortSignal;
  static timeout(ms: number): AbortSignal;
  static any(signals: Iterable<AbortSignal>): AbortSignal;
  readonly aborted: boolean;
  readonly reason: any;
  onabort: ((event: { type: "abort"; target: AbortSignal }) => void) | null;
  addEventListener(type: "abort", f: (event: { type: "abort"; target: AbortSignal }) => void): void;
  removeEventListener(type: "abort", f: (event: any) => void): void;
  throwIfAborted(): void;
}
declare class AbortController {
  readonly signal: AbortSignal;
  abort(reason?: unknown): void;
}

declare class URLSearchParams implements Iterable<[string, string]> {
  constructor(init?: string | Iterable<readonly [string, string]> | Record<string, unknown>);
  readonly size: number;
  append(name: string, value: unknown): void;
  delete(name: string, value?: string): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string, value?: string): boolean;
  set(name: string, value: unknown): void;
  sort(): void;
  forEach(f: (value: string, name: string, params: URLSearchParams) => void): void;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  entries(): IterableIterator<[string, string]>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
  toString(): string;
}
declare class URL {
  constructor(url: string | URL, base?: string | URL);
  static canParse(url: string, base?: string): boolean;
  static parse(url: string, base?: string): URL | null;
  href: string; protocol: string; username: string; password: string; host: string; hostname: string; port: string; pathname: string; search: string; hash: string;
  readonly origin: string;
  readonly searchParams: URLSearchParams;
  toString(): string;
  toJSON(): string;
}

declare class Headers implements Iterable<[string, string]> {
  constructor(init?: Iterable<readonly [string, string]> | Record<string, string | string[]>);
  append(name: string, value: string): void;
  delete(name: string): void;
  get(name: string): string | null;
  has(name: string): boolean;
  set(name: string, value: string): void;
  forEach(f: (value: string, name: string, headers: Headers) => void): void;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  entries(): IterableIterator<[string, string]>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
}
declare class Response {
  constructor(body?: string, init?: { status?: number; headers?: Headers | Record<string, string> });
  readonly status: number;
  readonly ok: boolean;
  readonly headers: Headers;
  readonly url: string;
  text(): Promise<string>;
  json(): Promise<any>;
  bytes(): Promise<Uint8Array>;
  arrayBuffer(): Promise<ArrayBuffer>;
}
/** Fetches through Http.Fetch, with its rules for hosts and its sealed headers. timeout is in milliseconds. */
declare function fetch(url: string | URL, init?: { method?: string; headers?: Headers | Record<string, string>; body?: string | URLSearchParams | ArrayBuffer | ArrayBufferView; signal?: AbortSignal; timeout?: number }): Promise<Response>;

/** JSON Schemas, written short. */
declare module "kernos:schema" {
  export interface Schema<T> {
    readonly type?: T;
    optional(): Optional<T>;
    default(value: T): Optional<T>;
    nullable(): Schema<T | null>;
    describe(text: string): this;
    min(n: number): this;
    max(n: number): this;
    length(n: number): this;
    int(): this;
    positive(): this;
    nonnegative(): this;
    multipleOf(n: number): this;
    regex(pattern: RegExp | string): this;
    format(name: string): this;
    email(): this;
    url(): this;
    uuid(): this;
    datetime(): this;
    strict(): this;
    /** Marks a secret: it reaches no journal, log or error text. */
    sensitive(): this;
    toJSON(): object;
  }
  export interface Optional<T> extends Schema<T> { readonly isOptional: true }
  type Shape = Record<string, Schema<any>>;
  type Object<S extends Shape> =
    { [K in keyof S as S[K] extends Optional<any> ? never : K]: z.infer<S[K]> } &
    { [K in keyof S as S[K] extends Optional<any> ? K : never]?: z.infer<S[K]> };
  export namespace z {
    export type infer<S> = S extends Schema<infer T> ? T : never;
    export function string(): Schema<string>;
    export function number(): Schema<number>;
    export function integer(): Schema<number>;
    export function boolean(): Schema<boolean>;
    export function any(): Schema<any>;
    export function unknown(): Schema<unknown>;
    export function literal<const T>(value: T): Schema<T>;
    export function array<T>(items: Schema<T>): Schema<T[]>;
    export function tuple<T extends Schema<any>[]>(items: [...T]): Schema<{ [I in keyof T]: z.infer<T[I]> }>;
    export function record<T>(values: Schema<T>): Schema<Record<string, T>>;
    export function union<T extends Schema<any>[]>(of: [...T]): Schema<z.infer<T[number]>>;
    export function object<S extends Shape>(properties: S): Schema<Object<S>>;
    export function schema<T = unknown>(schema: object): Schema<T>;
    function enum_<const T>(values: readonly T[]): Schema<T>;
    export { enum_ as enum };
    const null_: () => Schema<null>;
    export { null_ as null };
  }
}
