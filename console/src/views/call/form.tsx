// A form made of a schema. It edits one value; what is not set is not sent, and members that the
// schema does not know are kept.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { exact, parse } from "../../core/json";
import { isSecret, itemOf, resolve, type Schema } from "../../core/schema";
import { roving } from "../../parts/roving";
import { blank, chooseVariant, nullable, type Path, pointer, put, typeOf, variantName, variantsOf } from "./value";

export interface FormState {
  root: Schema; // has the definitions
  value: any;
  errors: Record<string, string>; // by pointers
  hidden?: boolean; // whether all that is shown is part of a secret
  change(value: any): void;
}

interface FieldProps { form: FormState; schema: Schema; path: Path; name: string; required: boolean; optionalItem?: boolean }

const at = (form: FormState, path: Path) => path.reduce((value: any, step) => value?.[step], form.value);

/** The fields of the object at the top. */
export function Form({ form, schema }: { form: FormState; schema: Schema }) {
  const s = resolve(schema, form.root);
  const fields = propertiesOf(s, form, []);
  if (!fields.length && !s.additionalProperties) return <p class="quiet">It takes nothing.</p>;
  return <div class="form">{fields}<MapRows form={form} schema={s} path={[]} /></div>;
}

function propertiesOf(s: Schema, form: FormState, path: Path) {
  const required = s.required ?? [];
  const names = Object.keys(s.properties ?? {}).filter((name) => resolve(s.properties![name], form.root).const === undefined);
  const first: string[] = s["x-presentation"]?.arguments ?? []; // people give them first
  const rank = (name: string) => first.includes(name) ? first.indexOf(name) : first.length + Number(!required.includes(name));
  names.sort((a, b) => rank(a) - rank(b));
  return names.map((name) => (
    <Field key={name} form={form} schema={s.properties![name]} path={[...path, name]} name={name} required={required.includes(name)} />
  ));
}

function Field({ form: whole, schema, path, name, required, optionalItem }: FieldProps) {
  const s = resolve(schema, whole.root), form = isSecret(s) ? { ...whole, hidden: true } : whole;
  const value = at(form, path), where = pointer(path);
  const id = "field" + where, error = form.errors[where];
  const set = (next: unknown) => form.change(put(form.value, path, next));
  const variants = variantsOf(s), type = typeOf(s);
  const nested = variants || type === "object" || type === "array";
  const unset = value === undefined, choice = s.enum || type === "boolean"; // which says itself that it isn't sent
  const clear = !unset && !required && !optionalItem && (
    <button class="plain small" title="Don't send this field" aria-label={`Don't send ${name}`} onClick={() => set(undefined)}>×</button>
  );
  let input: ComponentChildren;
  if (nested && unset && !required) {
    input = <button id={id} onClick={() => set(blank(s, form.root) ?? (type === "array" ? [] : {}))}>Add</button>;
  } else if (value === null && nullable(s)) {
    input = <code class="faint">null</code>;
  } else if (variants) {
    input = <Variants form={form} variants={variants} path={path} name={name} />;
  } else if (type === "object") {
    input = <div class="inset">{propertiesOf(s, form, path)}<MapRows form={form} schema={s} path={path} /></div>;
  } else if (type === "array") {
    input = <List form={form} schema={s} path={path} name={name} />;
  } else {
    input = <Plain id={id} s={s} type={type} value={value} name={name} required={required} hidden={form.hidden} error={error} set={set} />;
  }
  return (
    <div class="field" data-field={where}>
      <label for={nested ? undefined : id} title={s.description}>
        {name}{required && <span class="faint" title="required"> *</span>}
        {unset && !required && !choice && <span class="chip">not sent</span>}
      </label>
      <div class="control">
        <div class="row">
          {input}
          {nullable(s) && (
            <label class="null"><input type="checkbox" checked={value === null} onChange={(event) => set(event.currentTarget.checked ? null : undefined)} />null</label>
          )}
          {clear}
        </div>
        {error && <p class="problem" id={id + "-error"} role="alert">{error}</p>}
        {s.description && <p class="help" id={id + "-help"} title={s.description}>{s.description}</p>}
      </div>
    </div>
  );
}

interface PlainProps { id: string; s: Schema; type: string; value: any; name: string; required: boolean; hidden?: boolean; error?: string; set(value: unknown): void }

function Plain({ id, s, type, value, name, required, hidden, error, set }: PlainProps) {
  const [typed, setTyped] = useState<string | undefined>(); // what can't be a value yet
  const unfit = typed !== undefined && exact(typed) === undefined;
  const about = { id, "aria-label": name, "aria-invalid": !!(error || unfit), "aria-describedby": `${id}-help ${id}-error`, "data-testid": "input" };
  if (s.enum) {
    const index = s.enum.findIndex((known) => known === value);
    return (
      <select {...about} value={String(index)} onChange={(event) => set(s.enum![Number(event.currentTarget.value)])}>
        <option value="-1">{required ? "choose" : "not sent"}</option>
        {s.enum.map((known, i) => <option key={i} value={String(i)}>{String(known)}</option>)}
      </select>
    );
  }
  if (type === "boolean") {
    return (
      <select {...about} value={String(value)} onChange={(event) => set({ true: true, false: false }[event.currentTarget.value])}>
        <option value="undefined">{required ? "choose" : "not sent"}</option><option value="true">true</option><option value="false">false</option>
      </select>
    );
  }
  if (hidden) return <input {...about} type="password" autocomplete="off" value={shown(value)} onInput={(event) => set(type === "string" ? event.currentTarget.value : unseen(event.currentTarget.value))} />;
  if (type === "integer" || type === "number") {
    return (
      <input {...about} inputMode={type === "integer" ? "numeric" : "decimal"} value={typed ?? shown(value)} placeholder={s.default === undefined ? "" : String(s.default)}
        onInput={(event) => {
          const text = event.currentTarget.value.trim(), number = exact(text);
          setTyped(text === "" || shown(number) === text ? undefined : text); // "0." is on its way to 0.5
          set(text === "" ? undefined : number ?? text);
        }} />
    );
  }
  if (type === "string") {
    const text = value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
    if (s.format === "uuid") {
      return <><input {...about} class="mono" value={text} onInput={(event) => set(event.currentTarget.value)} /><button onClick={() => set(crypto.randomUUID())}>New</button></>;
    }
    if (s.format === "date-time") {
      const local = text && !Number.isNaN(Date.parse(text)) ? new Date(Date.parse(text) - new Date(text).getTimezoneOffset() * 60_000).toISOString().slice(0, 19) : "";
      return (
        <>
          <input {...about} type="datetime-local" step="1" value={local} onInput={(event) => set(event.currentTarget.value ? new Date(event.currentTarget.value).toISOString() : undefined)} />
          <code class="faint">{text || "your time zone"}</code>
        </>
      );
    }
    return (
      <textarea {...about} class="text" rows={1} value={text} placeholder={typeof s.examples?.[0] === "string" ? s.examples[0] : ""}
        onInput={(event) => set(event.currentTarget.value)} />
    );
  }
  const broken = typed !== undefined && typed !== value && "This is not JSON yet.";
  return (
    <>
      <textarea {...about} class="text mono" aria-invalid={!!(error || broken)} rows={1} placeholder="a text, or JSON" value={typed ?? (value === undefined ? "" : JSON.stringify(value))} ref={(element) => element?.setCustomValidity(broken || "")}
        onInput={(event) => {
          const text = event.currentTarget.value;
          if (!text.trim()) { setTyped(undefined); set(undefined); return; }
          try { set(parse(text)); setTyped(undefined); } catch {
            setTyped(text);
            if (!/^\s*[[{"\d-]/.test(text)) set(text); // words are a text; what begins like JSON is on its way to it
          }
        }} />
      {broken && <p class="problem">{broken}</p>}
    </>
  );
}

/** A number as it is typed. What isn't one is shown too, so that it can be mended. */
const shown = (value: unknown) => (value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value));

/** The value of what is typed unseen where a text or JSON may stand: JSON only if it is shown again as it was typed. */
function unseen(text: string): unknown {
  try { return JSON.stringify(parse(text)) === text ? parse(text) : text; } catch { return text || undefined; }
}

function Variants({ form, variants, path, name }: { form: FormState; variants: Schema[]; path: Path; name: string }) {
  const value = at(form, path);
  const [picked, pick] = useState<number | undefined>();
  const index = picked !== undefined && value === undefined ? picked : chooseVariant(variants, form.root, value);
  const names = variants.map((variant, i) => variantName(variant, form.root, i));
  const choose = (i: number) => { pick(i); form.change(put(form.value, path, blank(variants[i], form.root))); };
  const chosen = resolve(variants[index], form.root);
  return (
    <div class="inset">
      {variants.length <= 4 ? (
        <div class="segments" role="radiogroup" aria-label={`Kind of ${name}`} ref={roving}>
          {names.map((label, i) => <button key={i} role="radio" aria-checked={i === index} onClick={() => choose(i)}>{label}</button>)}
        </div>
      ) : (
        <select aria-label={`Kind of ${name}`} value={String(index)} onChange={(event) => choose(Number(event.currentTarget.value))}>
          {names.map((label, i) => <option key={i} value={String(i)}>{label}</option>)}
        </select>
      )}
      {chosen.const === undefined && (typeOf(chosen) === "object"
        ? <>{propertiesOf(chosen, form, path)}<MapRows form={form} schema={chosen} path={path} /></>
        : <Field form={form} schema={chosen} path={path} name={name} required optionalItem />)}
    </div>
  );
}

function List({ form, schema, path, name }: { form: FormState; schema: Schema; path: Path; name: string }) {
  const items = at(form, path), list: unknown[] = Array.isArray(items) ? items : [];
  const next = itemOf(schema, list.length, form.root);
  const add = () => form.change(put(form.value, [...path, list.length], blank(next, form.root) ?? (typeOf(next) === "string" ? "" : null)));
  return (
    <div class="inset">
      {list.map((_, i) => (
        <div class="item" key={i}>
          <Field form={form} schema={itemOf(schema, i, form.root)} path={[...path, i]} name={String(i + 1)} required optionalItem />
          <button class="plain small" aria-label={`Remove ${name} ${i + 1}`} onClick={() => form.change(put(form.value, [...path, i], undefined))}>×</button>
        </div>
      ))}
      <button data-testid="add" onClick={add}>Add {name}</button>
    </div>
  );
}

/** The members of an object that have no schema of their own. */
function MapRows({ form, schema, path }: { form: FormState; schema: Schema; path: Path }) {
  const [name, setName] = useState("");
  const open = schema.additionalProperties ?? !schema.properties; // an object of which the schema says nothing has any members
  const value = at(form, path);
  const known = schema.properties ?? {};
  const extra = value && typeof value === "object" ? Object.keys(value).filter((key) => !(key in known)) : [];
  if (!open && !extra.length) return null;
  const inner = open && open !== true ? open : {};
  const add = () => { if (name) { form.change(put(form.value, [...path, name], blank(inner, form.root) ?? (typeOf(resolve(inner, form.root)) === "string" ? "" : null))); setName(""); } };
  return (
    <>
      {extra.map((key) => <Field key={key} form={form} schema={inner} path={[...path, key]} name={key} required={false} />)}
      {open && (
        <div class="row">
          <input aria-label="Name of a member" placeholder="name" value={name} onInput={(event) => setName(event.currentTarget.value)} onKeyDown={(event) => { if (event.key === "Enter") add(); }} />
          <button disabled={!name} onClick={add}>Add member</button>
        </div>
      )}
    </>
  );
}
