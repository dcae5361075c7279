// The messages of a workflow as a forest: what caused what, which repeat, and why one failed.
import type { Entry } from "../../core/message";

export interface Node {
  id: string;
  seq: number;
  kind: string; // "" for a message that the journal doesn't have
  type: string;
  at: number;
  failed?: boolean;
  code?: number;
  claim?: boolean;
  parent?: Node;
  children: Node[];
}

export interface Forest { nodes: Node[]; roots: Node[]; byId: Map<string, Node>; bySeq: Map<number, Node> }

/** The forest of an answer of message_graph. A cycle is cut at its oldest message. */
export function forest(graph: any): Forest {
  const byId = new Map<string, Node>(), bySeq = new Map<number, Node>();
  const nodes = (graph.nodes as any[]).map((n): Node => {
    const node: Node = { id: n.id, seq: n.seq ?? 0, kind: n.kind ?? "", type: n.type ?? "", at: n.at ?? 0, failed: n.failed, code: n.code, claim: n.claim, children: [] };
    byId.set(node.id, node);
    if (node.seq) bySeq.set(node.seq, node);
    return node;
  });
  const cut = new Set<string>((graph.cycles ?? []).map((cycle: string[]) => cycle[0]));
  for (const edge of graph.edges ?? []) {
    const from = bySeq.get(edge.fromSeq) ?? byId.get(edge.from), to = bySeq.get(edge.toSeq) ?? byId.get(edge.to);
    if (from && to && from !== to && !cut.has(to.id)) tie(from, to);
  }
  for (const node of nodes) if (!node.kind) node.at = node.children[0]?.at ?? 0; // it stands where its first effect does
  return { nodes, roots: nodes.filter((node) => !node.parent), byId, bySeq };
}

function tie(from: Node, to: Node) {
  to.parent = from;
  from.children.push(to);
}

/** Adds a message that was recorded just now. What is drawn already keeps its order. */
export function add(all: Forest, entry: Entry) {
  const { message, seq, at, claim } = entry, { id, causation } = message.metadata;
  if (all.bySeq.has(seq)) return;
  const node: Node = { id, seq, kind: message.kind, type: message.type, at, claim, children: [] };
  const from = causation === undefined ? undefined : all.byId.get(causation);
  const failed = message.kind === "error" && !claim;
  if (failed) Object.assign(node, { failed, code: message.data?.code });
  if (from) tie(from, node);
  else all.roots.push(node);
  if (from && failed) Object.assign(from, { failed, code: from.code ?? node.code });
  all.nodes.push(node);
  all.byId.set(id, node);
  all.bySeq.set(seq, node);
}

/** What is drawn in one place: a message, or several siblings that say the same. */
export interface Spot { node: Node; parent?: Spot; depth: number; row: number; same: Node[]; key: string; folded: boolean }

const fewest = 3; // siblings of one type that fold

/** The spots of a forest, in the order in which they are read. Groups in `open`, and those that have a message of `kept`, are not folded. */
export function spots(all: Forest, open: Set<string>, kept: Set<Node>): Spot[] {
  const found: Spot[] = [], seen = new Set<Node>();
  let row = 0;
  const stack: Spot[] = [];
  const push = (siblings: Node[], parent?: Spot) => {
    const groups = new Map<string, Node[]>();
    for (const node of siblings) {
      const name = `${node.kind} ${node.type}`, group = groups.get(name);
      if (group) group.push(node); else groups.set(name, [node]);
    }
    const next: Spot[] = [];
    for (const node of siblings) {
      const name = `${node.kind} ${node.type}`, same = groups.get(name)!, key = `${parent?.node.seq ?? ""} ${name}`;
      const folded = same.length >= fewest && !open.has(key) && !(kept.size && same.some((one) => kept.has(one)));
      if (!folded || same[0] === node) next.push({ node, parent, depth: parent ? parent.depth + 1 : 0, row: 0, same, key, folded });
    }
    for (const spot of next.reverse()) stack.push(spot);
  };
  push(all.roots);
  for (let spot = stack.pop(); spot; spot = stack.pop()) {
    if (seen.has(spot.node)) continue;
    seen.add(spot.node);
    // The first effect stands beside its cause, and each other one below what came before it: so a new message moves only what is under it.
    const first = spot.parent && found.at(-1) === spot.parent;
    spot.row = first ? spot.parent!.row : row++;
    found.push(spot);
    if (!spot.folded) push(spot.node.children, spot);
  }
  return found;
}

/** The messages that say why one failed: from the root to it, and down to the failure that began it. */
export function why(node: Node): Set<Node> {
  const chain = new Set<Node>();
  for (let at: Node | undefined = node; at && !chain.has(at); at = at.parent) chain.add(at);
  const asked = node.kind === "error" && node.parent ? node.parent : node;
  for (let at: Node | undefined = asked; at; ) {
    const failure: Node | undefined = at.children.find((child) => child.failed && child.kind === "error");
    if (failure) chain.add(failure);
    const inner: Node | undefined = at.children.findLast((child) => child.failed && child.kind !== "error" && !chain.has(child));
    if (inner) chain.add(inner);
    at = inner;
  }
  return chain;
}

/** When a message was answered; for others, when the last of what it caused was sent. */
export function ended(node: Node): number {
  let last = node.at;
  for (const child of node.children) if (child.at > last) last = child.at;
  return last;
}
