// A workflow: what each of its messages caused, as a graph, a tree or along a time.
import { computed, effect, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { bind } from "../../core/keys";
import { link, note, place } from "../../core/route";
import { Inspector } from "../../parts/inspector";
import { Waiting } from "../../parts/waiting";
import { Canvas } from "./canvas";
import { type Node, type Spot, spots, why } from "./graph";
import { Lines } from "./lines";
import { Recent } from "./recent";
import { missing, problem, show, shown, stop } from "./store";

const correlation = computed(() => (place.value.view === "workflows" ? place.value.rest[0] ?? "" : "")); // another view may be on its way in
const forms = ["graph", "tree", "timeline"] as const;

/** The address of this view with some of it changed. */
function address(change: Record<string, string | undefined>): string {
  const { query } = place.peek();
  const kept = Object.fromEntries(["as", "at", "why"].map((name) => [name, query.get(name) ?? undefined]));
  return link("workflows", [correlation.peek()], { ...kept, ...change });
}

export default function Workflows() {
  useEffect(() => {
    const end = effect(() => { void show(correlation.value); });
    return () => { end(); stop(); };
  }, []);
  if (!correlation.value) return <div class="single" data-testid="workflows"><Recent /></div>;
  return <Workflow key={correlation.value} />;
}

function Workflow() {
  const open = useSignal(new Set<string>()); // groups of siblings that the reader has unfolded
  const { query } = place.value, all = shown.value;
  const form = forms.find((name) => name === query.get("as")) ?? "graph";
  const chosen = all?.byId.get(query.get("at") ?? ""), asked = all?.byId.get(query.get("why") ?? "");
  const lit = useMemo(() => asked && why(asked), [all, asked]);
  const drawn = useMemo(() => {
    const kept = new Set(lit);
    for (let node = chosen; node && !kept.has(node); node = node.parent) kept.add(node);
    return all ? spots(all, open.value, kept) : [];
  }, [all, open.value, lit, chosen]);
  const choose = (node?: Node) => { if (node) note(address({ at: node.id })); };
  const fold = (key: string) => {
    const next = new Set(open.peek());
    if (!next.delete(key)) next.add(key);
    open.value = next;
  };
  const press = (spot: Spot) => { if (spot.folded) fold(spot.key); else choose(spot.node); };
  const current = drawn.find((spot) => spot.node === chosen);
  const move = (by: number) => choose(drawn[Math.max(0, Math.min(drawn.length - 1, drawn.indexOf(current!) + by))]?.node);
  const ask = () => note(address({ why: asked ? undefined : (chosen?.failed ? chosen : all?.nodes.findLast((node) => node.failed))?.id }));
  useEffect(() => bind(
    { keys: "j", does: "the next message", run: () => move(1) },
    { keys: "k", does: "the message before", run: () => move(-1) },
    { keys: "o", does: "fold or unfold the messages of this type", run: () => { if (current) fold(current.key); } },
    { keys: "w", does: "why did it fail", run: ask },
  ));
  const drawing = { spots: drawn, chosen, lit, press, address: (node: Node) => address({ at: node.id }) };
  return (
    <div class="panes wide" data-testid="workflows" data-messages={all?.nodes.length}>
      <div class="column">
        <div class="bar">
          <a class="button" href={link("workflows")}>Workflows</a>
          <h2 class="mono clip">{correlation.value}</h2>
          {(asked || all?.nodes.some((node) => node.failed)) && <button data-testid="why" aria-pressed={!!asked} title="Why did it fail? (w)" onClick={ask}>Why?</button>}
          <div class="segments" role="group" aria-label="Form of the drawing">
            {forms.map((name) => <button key={name} aria-pressed={name === form} data-testid={`as-${name}`} onClick={() => note(address({ as: name }))}>{name[0].toUpperCase() + name.slice(1)}</button>)}
          </div>
        </div>
        {problem.value && <div class="empty"><p class="problem" role="alert" data-testid="problem">{problem.value}</p><a class="button" href={link("workflows")}>Choose another workflow</a></div>}
        {!all && !problem.value && <Waiting />}
        {all && (form === "graph" ? <Canvas {...drawing} /> : <Lines {...drawing} timeline={form === "timeline"} />)}
        {all && <div class="foot faint" role="status">{all.nodes.length.toLocaleString()} messages{drawn.length < all.nodes.length && `, ${drawn.length.toLocaleString()} drawn`}{missing.value && `. ${missing.value}`}</div>}
      </div>
      <div>{chosen?.kind ? <Inspector id={chosen.id} /> : <div class="empty"><p>{chosen ? "The journal doesn't have this message." : "Choose a message to see all of it."}</p></div>}</div>
    </div>
  );
}
