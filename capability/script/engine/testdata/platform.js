// Each line of tests is a name, what was computed, and what it should be.
const failures = [];
let count = 0;
function same(name, got, want) {
  count++;
  const a = JSON.stringify(got), b = JSON.stringify(want);
  if (a !== b) failures.push(`${name}: got ${a}, want ${b}`);
}
const thrown = (f) => { try { f(); return "nothing"; } catch (e) { return e.name; } };
const hex = (b) => [...new Uint8Array(b)].map((x) => x.toString(16).padStart(2, "0")).join("");

export async function handler() {
  same("TextEncoder", [...new TextEncoder().encode("aé€😀")], [97, 195, 169, 226, 130, 172, 240, 159, 152, 128]);
  same("TextEncoder of halves", [...new TextEncoder().encode("\ud800\udbff")], [239, 191, 189, 239, 191, 189]);
  same("TextEncoder.encodeInto", new TextEncoder().encodeInto("a€b", new Uint8Array(4)), { read: 2, written: 4 });
  same("TextDecoder", new TextDecoder().decode(new Uint8Array([97, 195, 169, 226, 130, 172, 240, 159, 152, 128])), "aé€😀");
  same("TextDecoder with a mark", new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 97])), "a");
  same("TextDecoder that keeps it", new TextDecoder("utf-8", { ignoreBOM: true }).decode(new Uint8Array([0xef, 0xbb, 0xbf, 97])), "\ufeffa");
  same("TextDecoder of no UTF-8", new TextDecoder().decode(new Uint8Array([97, 0xff, 98])), "a\ufffdb");
  same("TextDecoder that is strict", thrown(() => new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array([0xff]))), "TypeError");
  same("TextDecoder of UTF-16", new TextDecoder("utf-16le").decode(new Uint8Array([97, 0, 0xac, 0x20])), "a€");
  same("TextDecoder of latin1", new TextDecoder("latin1").decode(new Uint8Array([0xe9, 0x80])), "é€");
  same("TextDecoder of a part", new TextDecoder().decode(new Uint8Array([1, 97, 98, 1]).subarray(1, 3)), "ab");
  same("TextDecoder of an unknown label", thrown(() => new TextDecoder("klingon")), "RangeError");
  const d = new TextDecoder();
  same("TextDecoder in parts", d.decode(new Uint8Array([0xe2, 0x82]), { stream: true }) + d.decode(new Uint8Array([0xac, 0xf0]), { stream: true }) + d.decode(new Uint8Array([0x9f, 0x98, 0x80])), "€😀");

  same("atob", atob("aGk="), "hi");
  same("btoa", btoa("hi"), "aGk=");
  same("randomUUID", /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID()), true);
  same("getRandomValues", crypto.getRandomValues(new Uint8Array(32)).some((x) => x !== 0), true);
  same("digest", hex(await crypto.subtle.digest("SHA-256", new TextEncoder().encode("abc"))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  same("digest of a part", hex(await crypto.subtle.digest({ name: "sha-1" }, new TextEncoder().encode("xabcx").subarray(1, 4))), "a9993e364706816aba3e25717850c26c9cd0d89d");
  same("digest of another kind", await crypto.subtle.digest("MD5", new Uint8Array(1)).catch((e) => e.name), "NotSupportedError");
  same("Math.random", Math.random() !== Math.random(), true);

  const u = new URL("../b?x=1&x=2#h", "https://user:pw@Example.com:443/a/c/d");
  same("URL", [u.href, u.origin, u.protocol, u.username, u.password, u.host, u.port, u.pathname, u.search, u.hash], ["https://user:pw@example.com/a/b?x=1&x=2#h", "https://example.com", "https:", "user", "pw", "example.com", "", "/a/b", "?x=1&x=2", "#h"]);
  same("URL.searchParams", u.searchParams.getAll("x"), ["1", "2"]);
  u.searchParams.set("x", "a b&c");
  same("URL after a change of its parameters", u.href, "https://user:pw@example.com/a/b?x=a+b%26c#h");
  u.search = "?y=%C3%A9+1";
  same("parameters after a change of the URL", [...u.searchParams], [["y", "é 1"]]);
  u.port = "8080"; u.hash = ""; u.pathname = "/ä";
  same("URL after changes", `${u}`, "https://user:pw@example.com:8080/%C3%A4?y=%C3%A9+1");
  same("URL that isn't one", thrown(() => new URL("nothing")), "TypeError");
  same("URL.canParse", [URL.canParse("a:b"), URL.canParse("b")], [true, false]);
  same("URLSearchParams", new URLSearchParams({ a: 1, b: "x y" }).toString(), "a=1&b=x+y");

  const original = { d: new Date(5), m: new Map([[1, { a: [1, , 3] }]]), s: new Set([1]), b: new Uint8Array([1, 2]), r: /a/g, e: new TypeError("x"), n: null };
  original.self = original;
  const copy = structuredClone(original);
  same("structuredClone", [copy !== original, copy.self === copy, copy.d.getTime(), copy.m.get(1).a.length, copy.s.has(1), [...copy.b], copy.b.buffer !== original.b.buffer, `${copy.r}`, copy.e instanceof TypeError, copy.e.message], [true, true, 5, 3, true, [1, 2], true, "/a/g", true, "x"]);
  same("structuredClone of a function", thrown(() => structuredClone(() => 1)), "DataCloneError");

  const c = new AbortController();
  let aborted = 0;
  c.signal.addEventListener("abort", () => aborted++);
  c.abort(); c.abort();
  same("AbortController", [aborted, c.signal.aborted, c.signal.reason.name, thrown(() => c.signal.throwIfAborted())], [1, true, "AbortError", "AbortError"]);
  same("AbortSignal.timeout", await new Promise((r) => { AbortSignal.any([AbortSignal.timeout(1)]).onabort = (e) => r(e.target.reason.name); }), "TimeoutError");

  const order = [];
  await new Promise((r) => {
    setTimeout(() => order.push("late"), 30);
    const id = setInterval(() => { if (order.push("tick") === 3) { clearInterval(id); setTimeout(r, 40); } }, 1);
    clearTimeout(setTimeout(() => order.push("never"), 2));
    queueMicrotask(() => order.push("first"));
  });
  same("timers", order, ["first", "tick", "tick", "late"]);

  const h = new Headers({ "Content-Type": "a", x: ["1", "2"] });
  same("Headers", [h.get("content-type"), h.get("X"), [...h.keys()]], ["a", "1, 2", ["content-type", "x"]]);
  return { count, failures };
}
