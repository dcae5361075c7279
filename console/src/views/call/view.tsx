// The call view: methods, a form of the chosen one's schema, and the answers as they come.
import { effect, signal, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { about as describe, type About, has, learnNames, mayMean, methodSchema, modules, titleOf, typeName, typeOf, wireName } from "../../core/catalog";
import { browser } from "../../core/door";
import { brief, parse } from "../../core/json";
import { bind } from "../../core/keys";
import { recorded } from "../../core/message";
import { go, link, note, place } from "../../core/route";
import { open, serviceHash, status, type Stream } from "../../core/rpc";
import type { Schema } from "../../core/schema";
import { clock } from "../../core/time";
import { prepare, problems } from "../../core/validate";
import { openPalette } from "../../parts/palette";
import { roving } from "../../parts/roving";
import { Adoption } from "./adoption";
import { Answer } from "./answer";
import { withoutSecrets, writings } from "./copy";
import { Form } from "./form";
import { pin, pinned, remember, type Run, runs } from "./runs";
import { blank } from "./value";

const filter = signal("");

/** What was typed for a method, so that going elsewhere loses nothing. It may have secrets: it is only here. */
const drafts = new Map<string, any>();

export default function Call() {
  const [module, method] = place.value.view === "call" ? place.value.rest : []; // the view of the address may be one that the kernel doesn't have
  return (
    <div class={module && method ? "panes three chosen" : "panes three"} data-testid="call">
      <Methods current={module && method ? `${module}.${method}` : ""} />
      {module && method ? <Ask key={`${module}.${method}`} module={module} method={method} /> : <Start />}
    </div>
  );
}

function Start() {
  return (
    <div class="ask">
      <div class="empty"><p>Choose a method: its form will be here.</p><button onClick={openPalette}>Find one by its name</button></div>
      <History all />
    </div>
  );
}

function Methods({ current }: { current: string }) {
  const typed = filter.value.toLowerCase();
  const all = modules.value.map((m) => ({ ...m, methods: m.methods.filter((name) => mayMean(m.namespace, name, typed)) })).filter((m) => m.methods.length);
  const hidden = (browser.value?.hidden ?? []).filter(({ method }) => method.includes(typed));
  const recent = [...new Set(runs.value.filter((run) => has(wireName(run.module, run.method))).map((run) => `${run.module}.${run.method}`))].slice(0, 5);
  const line = (name: string) => (
    <li key={name}><a href={link("call", name.split("."))} aria-current={name === current ? "page" : undefined}>{typeOf(name)}</a></li>
  );
  return (
    <div class="methods">
      <h2 class="unseen">Methods</h2>
      <div class="bar"><input class="spread" type="search" aria-label="Filter methods" placeholder="Filter methods" data-testid="filter" value={filter.value} onFocus={() => void learnNames().catch(() => {})} onInput={(event) => { filter.value = event.currentTarget.value; }} /></div>
      <div ref={roving}>
      {typed && !all.length && !hidden.length && <div class="empty"><p>No method matches.</p><button onClick={() => { filter.value = ""; }}>Clear the filter</button></div>}
      {!typed && pinned.value.length > 0 && <section><h3>Pinned</h3><ul>{pinned.value.map(line)}</ul></section>}
      {!typed && recent.length > 0 && <section><h3>Recent</h3><ul>{recent.map(line)}</ul></section>}
      {all.map((m) => (
        <section key={m.namespace}>
          <h3 title={m.description}>{(m.methods.map((name) => typeName(m.namespace, name)).find((type) => type.includes(".")) ?? "Kernel.").split(".")[0]} <span class="faint">{m.methods.length}</span></h3>
          <ul>{m.methods.map((name) => (
            <li key={name}><a href={link("call", [m.namespace, name])} title={titleOf(m.namespace, name)} aria-current={`${m.namespace}.${name}` === current ? "page" : undefined}>{typeName(m.namespace, name)}</a></li>
          ))}</ul>
        </section>
      ))}
      {hidden.length > 0 && (
        <section data-testid="hidden">
          <h3>Hidden</h3>
          <p class="quiet">This browser may not call these. For the owner's rights, type <code>kernos console --owner</code> in a terminal.</p>
          <ul>{hidden.map(({ method, why }) => (
            <li key={method}><a class="faint" href={link("call", method.split("."))} title={why} aria-current={method === current ? "page" : undefined}>{typeOf(method)}</a></li>
          ))}</ul>
        </section>
      )}
      </div>
    </div>
  );
}

function initial(module: string, method: string): any {
  const given = place.peek().query.get("data");
  if (given) { try { return parse(given); } catch { /* the link is damaged; the form begins empty */ } }
  return drafts.get(`${module}.${method}`);
}

function Ask({ module, method }: { module: string; method: string }) {
  const name = `${module}.${method}`, type = typeName(module, method), here = link("call", [module, method]);
  const facts = useSignal<About>({});
  const schema = useSignal<Schema | undefined>(undefined), missing = useSignal("");
  const value = useSignal<any>(initial(module, method));
  const raw = useSignal<string | undefined>(undefined); // the JSON as typed, while that is shown
  const errors = useSignal<Record<string, string>>({}), asked = useSignal(false);
  const running = useSignal<{ run: Run; stream: Stream; show(next: Partial<Run>): void } | undefined>(undefined);
  const asking = useSignal<Held | undefined>(undefined); // a dangerous command that waits for a second press
  const unsent = useSignal<Held | undefined>(undefined); // a call that was run without a connection
  const ready = useSignal(false); // whether it is known what the method takes, and whether it asks first

  const withoutSchema = (why: string) => {
    missing.value = why;
    raw.value ??= JSON.stringify(value.peek() ?? {}, null, 2);
  };
  useEffect(prepare, []);
  useEffect(() => effect(() => { // the schema again when the service has changed; what was typed stays
    void serviceHash.value;
    void modules.value;
    void browser.value;
    const described = describe(module, method).catch((): About => ({ asks: true })) // what isn't known may be dangerous
      .then((found) => { facts.value = found; });
    const formed = methodSchema(module, method).then((found) => {
      schema.value = found && withoutMethod(found);
      missing.value = "";
      const hidden = browser.value?.hidden.find((one) => one.method === name);
      if (!found && hidden) withoutSchema(`This browser may not call ${type}: ${hidden.why}. To let it act for the owner for an hour, type kernos console --owner in a terminal.`);
      else if (!found && modules.peek().length) withoutSchema(`The kernel doesn't have ${type} now.`);
      if (value.peek() === undefined && schema.peek()) value.value = blank(schema.peek()!, schema.peek()!) ?? {};
    }, (failure) => withoutSchema(`The schema can't be had: ${failure.message}`));
    if (modules.value.length) void Promise.all([described, formed]).then(() => { ready.value = true; });
  }), []);

  const change = (next: any) => {
    value.value = next;
    drafts.set(name, next);
    asking.value = unsent.value = undefined; // what was asked about is another call
    if (location.hash !== here) note(here); // its data is no longer that of the form
    if (asked.peek() && schema.peek()) void problems(schema.peek()!, next).then((found) => { errors.value = found; });
  };

  const run = async () => {
    if (!ready.peek() || running.peek()?.run.state === "running") return;
    asked.value = true;
    const broken = document.querySelector<HTMLElement>(".form :invalid"); // what was typed there isn't the value that would be sent
    if (broken) { broken.focus(); return; }
    if (raw.peek() !== undefined) {
      try {
        const typed = parse(raw.peek()!);
        if (JSON.stringify(typed) !== JSON.stringify(value.peek())) change(typed);
      } catch (failure) { errors.value = { "": `This is not JSON: ${(failure as Error).message}` }; return; }
    }
    if (schema.peek()) {
      errors.value = await problems(schema.peek()!, value.peek());
      const first = Object.keys(errors.peek())[0];
      if (first !== undefined) { focus(first); return; }
    }
    if (facts.peek().asks && !asking.peek()) { asking.value = { data: value.peek(), sends: false }; return; }
    asking.value = undefined;
    if (status.peek() !== "online") { unsent.value = { data: value.peek(), sends: false }; return; }
    start(value.peek());
    if (innerWidth <= 720) document.querySelector(".answers")?.scrollIntoView(); // there it stands below the form
  };

  const send = (held: Held) => {
    unsent.value = status.peek() === "online" ? undefined : { ...held, sends: true };
    if (!unsent.peek()) start(held.data);
  };
  useEffect(() => effect(() => { if (status.value === "online" && unsent.peek()?.sends) send(unsent.peek()!); }), []);

  const start = (sent: any) => {
    const began = performance.now(), id = crypto.getRandomValues(new Uint32Array(4)).join("-");
    let now: Run = { id, module, method, at: Date.now(), state: "running", items: [] };
    const show = (next: Partial<Run>) => {
      now = { ...now, ...next };
      if ((running.peek()?.run.at ?? 0) <= now.at) running.value = { run: now, stream, show }; // a later run stays
      remember(now);
    };
    let failed = false, lost = false;
    const stream = open(wireName(module, method), [sent ?? {}], {
      item(item) {
        if (item.type === "error") { failed = true; landOnField(item.error); }
        show({ items: [...now.items, item] });
      },
      lost(reason) { lost = true; show({ items: [...now.items, { type: "error", service_hash: "", provenance: [], error: reason }] }); },
      end() { show({ state: lost ? "lost" : failed ? "failed" : "done", took: performance.now() - began }); void check(now).then((mismatch) => mismatch && show({ mismatch })); },
    }, id);
    show({});
    void recorded(id).then((data) => {
      if (data === undefined) return;
      show({ data });
      if (value.peek() === sent && location.hash === here) note(filled(now)); // nothing was typed meanwhile
    });
  };

  /** An error of the server goes to the field that it names. */
  const landOnField = (text: string) => {
    const told = /^Schema validation failed: (.*)$/s.exec(text)?.[1].split("; ") ?? [];
    const found: Record<string, string> = {};
    for (const problem of told) {
      const [, missing, unknown, other, why] = /^(?:missing required field: (.+)|unknown field: (\S+).*|([^\s:]+): (.*))$/s.exec(problem) ?? [];
      const path = missing ?? unknown ?? other;
      if (path) found["/" + path.replace(/\[(\d+)\]/g, ".$1").split(".").join("/")] ??= missing ? "This is required." : unknown ? "The method doesn't have this field." : why;
    }
    errors.value = { ...errors.peek(), ...found };
    const [first] = Object.keys(found);
    if (first) focus(first);
  };

  const cancel = () => {
    const now = running.peek();
    if (now?.run.state !== "running") return;
    now.stream.cancel();
    now.show({ state: "canceled", took: Date.now() - now.run.at });
  };

  useEffect(() => bind(
    { keys: "Ctrl Enter", does: "run the call", run: () => void run() },
    { keys: "Escape", does: "cancel the call", run: cancel },
    { keys: "/", does: "filter the methods", run: () => document.querySelector<HTMLElement>("[data-testid=filter]")?.focus() },
    { keys: "y", does: "copy the call as a command", run: () => void navigator.clipboard?.writeText(copies()[0].text) },
  ), []);

  const mend = (suggested: string, params?: unknown) => {
    const target = suggested.includes(".") ? suggested.split(".", 2) : [module, suggested];
    if (target.join(".") === name) { if (params !== undefined) change(params); document.querySelector<HTMLElement>("[data-testid=run]")?.focus(); return; }
    const typed = value.peek() && Object.keys(value.peek()).length > 0; // an example is for a form that is empty
    drafts.set(target.join("."), typed ? value.peek() : params ?? {}); // which may have secrets: it is not put into the address
    go(link("call", target));
  };

  const about = schema.value;
  const shareable = (data: any) => (schema.peek() && withoutSecrets(data ?? {}, schema.peek()!, schema.peek()!)) ?? data ?? {};
  const shownOf = (data: any) => brief(shareable(data), 200);
  const copies = () => writings(module, method, shareable(value.peek()), facts.peek());
  const form = useMemo(() => about && { root: about, value: value.value, errors: errors.value, change }, [about, value.value, errors.value]);
  return (
    <>
      <div class="ask">
        <div class="bar">
          <a class="button back" href={link("call")}>Methods</a>
          <h2 class="mono">{type}</h2>
          {facts.value.kind && <span class={`kind ${facts.value.kind}`}>{facts.value.kind}</span>}
          <span class="row choices">
            <button class="plain" data-testid="pin" aria-pressed={pinned.value.includes(name)} onClick={() => pin(name)}>{pinned.value.includes(name) ? "Unpin" : "Pin"}</button>
            <div class="segments" role="tablist" aria-label="Form or JSON" ref={roving}>
              <button role="tab" aria-selected={raw.value === undefined} disabled={!about} onClick={() => toForm()}>Form</button>
              <button role="tab" aria-selected={raw.value !== undefined} data-testid="json-tab" onClick={() => { raw.value = JSON.stringify(value.peek() ?? {}, null, 2); }}>JSON</button>
            </div>
          </span>
        </div>
        <div class="body">
          {about?.description && <p class="quiet summary">{about.description}</p>}
          {facts.value.type && <Adoption key={facts.value.type} type={facts.value.type} />}
          {missing.value && <p class="error summary" role="alert">{missing.value}</p>}
          {raw.value !== undefined ? (
            <textarea class="whole" rows={14} aria-label="Parameters as JSON" aria-invalid={!!errors.value[""]} data-testid="json" spellcheck={false} value={raw.value}
              onInput={(event) => { raw.value = event.currentTarget.value; try { change(parse(raw.peek()!)); errors.value = {}; } catch { /* it is being typed */ } }} />
          ) : form && about && <Form form={form} schema={about} />}
          {errors.value[""] && <p class="problem" role="alert">{errors.value[""]}</p>}
          <div class="row actions">
            <button class="primary" data-testid="run" title="Run (Ctrl Enter)" disabled={!ready.value || running.value?.run.state === "running"} onClick={() => void run()}>Run</button>
            {asking.value && <span class="guidance" role="alert" data-testid="confirm"><code>{type} {shownOf(asking.value.data)}</code> changes something that can't be taken back. <span class="row"><button onClick={() => void run()} data-testid="confirmed">Run it</button><button onClick={() => { asking.value = undefined; }}>Don't</button></span></span>}
            {unsent.value && <span class="guidance" role="alert" data-testid="unsent">{status.value === "online" ? "The connection is back." : unsent.value.sends ? "It is sent when the connection is back." : "There is no connection to the kernel: nothing was sent, and what you typed is kept."}
              <span class="row">{!unsent.value.sends && <button data-testid="send-later" onClick={() => send(unsent.peek()!)}>{status.value === "online" ? "Send it" : "Send it when the connection is back"}</button>}<button onClick={() => { unsent.value = undefined; }}>Don't</button></span></span>}
            <CopyAs writings={copies} />
          </div>
        </div>
        <History module={module} method={method} fill={fill} />
      </div>
      <div class="answers">
        {running.value ? <Answer run={running.value.run} cancel={cancel} mend={mend} /> : <div class="empty"><p>The answer will be here.</p><button disabled={!ready.value} onClick={() => void run()}>Run</button></div>}
      </div>
    </>
  );

  function fill(data: any) {
    change(data);
    if (raw.peek() !== undefined) raw.value = JSON.stringify(data, null, 2);
  }

  function toForm() {
    if (raw.peek() === undefined) return;
    try { change(parse(raw.peek()!)); raw.value = undefined; errors.value = {}; } catch (failure) { errors.value = { "": `This is not JSON: ${(failure as Error).message}` }; }
  }

  async function check(run: Run): Promise<string | undefined> {
    const { output } = await describe(module, method);
    const answer = run.items.findLast((item) => item.type === "data" && item.content_type === `${module}.${method}`);
    if (!output || !answer) return undefined;
    const found = await problems(output, answer.data);
    return Object.entries(found).map(([at, text]) => `${at}: ${text}`)[0];
  }
}

/** A call that isn't sent yet: exactly this one was asked about. It may wait for the connection. */
interface Held { data: any; sends: boolean }

function withoutMethod(schema: Schema): Schema {
  const { method: _, ...properties } = schema.properties ?? {};
  return { ...schema, properties, required: schema.required?.filter((name) => name !== "method") };
}

function focus(at: string) {
  requestAnimationFrame(() => document.querySelector<HTMLElement>(`[data-field="${CSS.escape(at)}"] [data-testid=input], [data-field="${CSS.escape(at)}"] button`)?.focus());
}

function CopyAs({ writings }: { writings(): { name: string; text: string }[] }) {
  const done = useSignal("");
  return (
    <select aria-label="Copy as" data-testid="copy" value="" onChange={async (event) => {
      const chosen = writings().find((way) => way.name === event.currentTarget.value);
      event.currentTarget.value = "";
      if (!chosen) return;
      try {
        await navigator.clipboard.writeText(chosen.text);
        done.value = `Copied as ${chosen.name}`;
      } catch { done.value = "This browser doesn't let the page copy"; } // it does under https, and on this machine
    }}>
      <option value="">{done.value || "Copy as…"}</option>
      {writings().map((way) => <option key={way.name}>{way.name}</option>)}
    </select>
  );
}

/** The address of a form that is filled with a call. */
const filled = ({ module, method, data }: Run) => link("call", [module, method], { data: data && Object.keys(data).length ? JSON.stringify(data) : undefined });

/** Earlier calls: of one method, whose form is filled with the call that is chosen, or of all. */
function History({ module, method, all, fill }: { module?: string; method?: string; all?: boolean; fill?(data: any): void }) {
  const shown = runs.value.filter((run) => all || (run.module === module && run.method === method));
  if (!shown.length) return null;
  return (
    <section class="history" data-testid="history">
      <h3>Earlier calls</h3>
      <ul ref={roving}>
        {shown.slice(0, 20).map((run) => (
          <li key={run.id}><a href={filled(run)} onClick={() => run.data && fill?.(run.data)}>
            <span class="faint mono">{clock(run.at)}</span> {all && <code>{typeName(run.module, run.method)} </code>}
            <code class="clip">{JSON.stringify(run.data)}</code> <span class={run.state === "failed" ? "error" : "faint"}>{run.state}</span>
          </a></li>
        ))}
      </ul>
    </section>
  );
}
