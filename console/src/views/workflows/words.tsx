// What a drawing says of a message: its type, how often it repeats, its kind and how it went.
import { span } from "../../core/time";
import { ended, type Node, type Spot } from "./graph";

export function Words({ spot }: { spot: Spot }) {
  const { node, same, folded } = spot;
  return (
    <>
      <span class="type">{node.kind ? node.type : "not in the journal"}</span>
      <span class="word">{node.kind || "missing"}{folded && ` ×${same.length}`}{outcome(spot)}</span>
    </>
  );
}

export function outcome({ node, same, folded }: Spot): string {
  const failures = folded ? same.filter((one) => one.failed).length : 0;
  if (failures) return ` ${failures} failed`;
  if (node.failed && node.kind !== "error") return " failed";
  if (node.code) return ` · ${node.code}`;
  if (node.claim) return " · claim";
  return node.kind === "reply" && node.parent ? ` · ${span(node.at - node.parent.at)}` : "";
}

export const took = (node: Node) => ended(node) - node.at;
