// Memory: the tree of keys, and the one that is looked at.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { has } from "../../core/catalog";
import { isSealed } from "../../core/json";
import { bind } from "../../core/keys";
import { go, link, place } from "../../core/route";
import { CallError } from "../../core/rpc";
import { date } from "../../core/time";
import { Json } from "../../parts/json";
import { roving } from "../../parts/roving";
import { Waiting } from "../../parts/waiting";
import { Editor } from "./editor";
import { keyLink, read, remove, type Value } from "./store";
import { Folder } from "./tree";
import { Versions } from "./versions";

export default function Memory() {
  const key = place.value.rest.join("/"), fresh = place.value.query.get("new");
  const create = link("memory", [], { new: key.includes("/") ? key.slice(0, key.lastIndexOf("/") + 1) : "/" });
  useEffect(() => bind({ keys: "n", does: "a new key", run: () => go(create) }), [create]);
  return (
    <div class="panes keyed" data-testid="memory">
      <div class="methods tree">
        <div class="bar"><h2 class="spread">Keys</h2>{has("memory_set") && <a class="button" href={create} title="New key (n)" data-testid="new-key">New key</a>}</div>
        <div ref={roving}><Folder prefix="" chosen={key} empty={() => <div class="empty"><p>What is remembered will be here.</p></div>} /></div>
      </div>
      <div>{fresh !== null ? <NewKey begin={fresh === "/" ? "" : fresh} /> : key ? <Key key={key} name={key} /> : (
        <div class="empty"><p>Choose a key to see its value.</p>{has("memory_set") && <a class="button" href={create}>Create a key</a>}</div>
      )}</div>
    </div>
  );
}

function NewKey({ begin }: { begin: string }) {
  const name = useSignal(begin);
  return (
    <>
      <div class="bar"><label for="new-key">Key</label><input id="new-key" class="spread mono" placeholder="notes/1" ref={(element) => { if (element && document.activeElement?.matches("body, main")) element.focus(); }} data-testid="name" spellcheck={false} value={name.value} onInput={(event) => { name.value = event.currentTarget.value; }} /></div>
      <Editor name={name.value.replace(/^\/+/, "")} ready={() => (/[^/]$/.test(name.peek()) ? "" : "The key needs a name.")} done={() => go(keyLink(name.peek().replace(/^\/+/, "")))} cancel={() => go(link("memory"))} />
    </>
  );
}

function Key({ name }: { name: string }) {
  const found = useSignal<Value | undefined>(undefined), failure = useSignal<CallError | undefined>(undefined);
  const editing = useSignal<{ draft?: unknown } | undefined>(undefined), asking = useSignal(false), plain = useSignal(true);
  const load = () => read(name).then((value) => { found.value = value; failure.value = undefined; }, (error) => { found.value = undefined; failure.value = error; });
  useEffect(() => { void load(); }, [name]);
  const done = () => { editing.value = undefined; void load(); };
  const drop = async () => {
    asking.value = false;
    try { await remove(name, found.peek()!.revision); } catch (error) { await load(); failure.value = error as CallError; return; }
    await load();
  };
  const now = found.value, shut = isSealed(now?.value), writable = !!now?.revision && has("memory_set");
  const edit = (draft?: unknown) => { editing.value = { draft }; };
  return (
    <section data-testid="entry" data-key={name} data-revision={now?.revision}>
      <div class="bar">
        <h2 class="mono clip">{name}</h2>
        {now && typeof now.value === "string" && !shut && !editing.value && (
          <div class="segments" role="group" aria-label="Text or JSON"><button aria-pressed={plain.value} onClick={() => { plain.value = true; }}>Text</button><button aria-pressed={!plain.value} onClick={() => { plain.value = false; }}>JSON</button></div>
        )}
        {writable && !shut && !editing.value && <button data-testid="edit" onClick={() => edit()}>Edit</button>}
        {writable && has("memory_delete") && !editing.value && <button data-testid="delete" onClick={() => { asking.value = true; }}>Delete</button>}
      </div>
      {asking.value && <div class="guidance" role="alert" data-testid="confirm">Delete {name}? Its versions are kept for a while. <button data-testid="confirmed" onClick={() => void drop()}>Delete it</button> <button class="plain" onClick={() => { asking.value = false; }}>Don't</button></div>}
      {failure.value && (failure.value.code === 404
        ? <div class="empty"><p>{name} doesn't exist now.</p>{has("memory_set") && <a class="button" href={link("memory", [], { new: name })}>Create it</a>}</div>
        : <p class="problem body" role="alert" data-testid="problem">{failure.value.message}</p>)}
      {!now && !failure.value && !editing.value && <Waiting />}
      {editing.value ? <Editor key={`${now?.revision}`} name={name} stored={now} draft={editing.value.draft} done={done} cancel={() => { editing.value = undefined; }} /> : now && (
        <div class="body">
          <dl class="facts">
            {now.revision > 0 && <><dt>revision</dt><dd>{now.revision}</dd></>}
            {now.updated > 0 && <><dt>written</dt><dd>{date(now.updated)}</dd></>}
            {now.expires && <><dt>expires</dt><dd data-testid="expires">{date(now.expires)}</dd></>}
            {!now.revision && <><dt>value</dt><dd>computed when it is read</dd></>}
          </dl>
          {shut ? <p data-testid="sealed">This value is sealed: only a program that has its passphrase can read it. It has {(now.value as string).length} characters.</p>
            : typeof now.value === "string" && plain.value ? <pre class="json" tabIndex={0} role="region" aria-label="Text" data-testid="shown">{now.value}</pre>
            : <div data-testid="shown"><Json value={now.value} /></div>}
        </div>
      )}
      {!editing.value && has("memory_history") && (now?.revision || failure.value?.code === 404) && <Versions name={name} now={now} restore={edit} />}
    </section>
  );
}
