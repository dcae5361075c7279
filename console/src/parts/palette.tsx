// The palette reaches every method, action and place by its name. Views add what they have.
import { signal } from "@preact/signals";
import { isCalled, learnNames, mayMean, modules, titleOf, typeName, typeOf } from "../core/catalog";
import { browser, remedy } from "../core/door";
import { recent } from "../core/recent";
import { go, link } from "../core/route";
import { useModal } from "./modal";

export interface Entry { name: string; hint: string; mark?: string; recent?: boolean; called?: boolean; run(): void }

/** Finds entries for what was typed. Views register one, and may ask the kernel. */
export type Finder = (text: string) => Entry[] | Promise<Entry[]>;

const finders = new Map<Finder, string>(); // each with the sign that asks it alone

export function addFinder(finder: Finder, sign = ""): () => void {
  finders.set(finder, sign);
  return () => { finders.delete(finder); };
}

const shown = signal(false), text = signal(""), entries = signal<Entry[]>([]), at = signal(0);
const most = 50;
let finding = Promise.resolve(); // what was typed last; Enter waits for it, so that it chooses none of what was found before

export function openPalette() {
  text.value = "";
  shown.value = true;
  finding = find();
  void learnNames().then(() => { if (text.peek()) finding = find(); }, () => {});
}

addFinder((typed) => {
  const last = recent();
  return modules.peek().flatMap((module) => module.methods
    .filter((method) => mayMean(module.namespace, method, typed))
    .map((method) => ({ name: `${module.namespace}.${method}`, type: typeName(module.namespace, method), title: titleOf(module.namespace, method), called: isCalled(module.namespace, method, typed) }))
    .map(({ name, type, title, called }): Entry => ({ name: type, hint: title ?? module.description, mark: "call", recent: last.has(name), called, run: () => go(link("call", name.split("."))) })));
});

addFinder((typed) => (typed ? browser.peek()?.hidden ?? [] : []).filter(({ method }) => `${method} ${typeOf(method)}`.toLowerCase().includes(typed.toLowerCase()))
  .map(({ method }): Entry => ({ name: typeOf(method), hint: remedy, mark: "hidden", run: () => go(link("call", method.split("."))) })));

async function find() {
  const asked = text.peek(), sign = [...finders.values()].find((one) => one && asked.startsWith(one)), typed = sign ? asked.slice(sign.length) : asked;
  const found = await Promise.all([...finders].map(async ([finder, own]) => { try { return sign && sign !== own ? [] : await finder(typed); } catch { return []; } }));
  if (asked !== text.peek()) return; // more was typed meanwhile
  const wanted = typed.toLowerCase();
  const rank = ({ name, recent, called }: Entry) => { const at = name.toLowerCase().indexOf(wanted); return name.toLowerCase() === wanted ? 0 : recent ? 1 : at === 0 ? 2 : at > 0 ? 3 : called ? 4 : 5; };
  entries.value = found.flat().sort((a, b) => rank(a) - rank(b)).slice(0, most);
  at.value = 0;
}

function choose(entry?: Entry) {
  shown.value = false;
  // Not back to the button that opens the palette: an Enter that is held down would press it again.
  document.querySelector<HTMLDialogElement>("dialog.palette")?.close();
  document.querySelector("main")?.focus();
  entry?.run();
}

export function Palette() {
  const dialog = useModal(shown.value);
  const move = (by: number) => { at.value = Math.max(0, Math.min(entries.peek().length - 1, at.peek() + by)); };
  return (
    <dialog class="palette" ref={dialog} aria-label="Go to" data-testid="palette" hidden={!shown.value} onClose={() => { shown.value = dialog.current!.open; /* it may have been opened again meanwhile */ }}>
      <input role="combobox" aria-label="Go to a method, key, message or action" aria-expanded="true" aria-controls="palette-list"
        aria-activedescendant={entries.value.length ? `palette-${at.value}` : undefined}
        placeholder="Method, :key, #message id or >action" value={text.value}
        onInput={(event) => { text.value = event.currentTarget.value; finding = find(); }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") move(1);
          else if (event.key === "ArrowUp") move(-1);
          else if (event.key === "Enter") void finding.then(() => choose(entries.peek()[at.peek()]));
          else return;
          event.preventDefault();
        }} />
      <ul id="palette-list" role="listbox" aria-label="Found">
        {entries.value.map((entry, i) => (
          <li key={entry.name + i} id={`palette-${i}`} role="option" aria-selected={i === at.value} onClick={() => choose(entry)}>
            <span class="mono">{entry.name}</span><span class="faint spread">{entry.hint}</span><span class="faint">{entry.mark}</span>
          </li>
        ))}
      </ul>
    </dialog>
  );
}
