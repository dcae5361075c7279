// A workflow as lines: a tree, or bars along a time.
import { date, span } from "../../core/time";
import { Rows } from "../../parts/rows";
import type { DrawingProps } from "./canvas";
import { ended, type Spot } from "./graph";
import { outcome, took } from "./words";

export function Lines({ spots, chosen, lit, address, press, timeline }: DrawingProps & { timeline?: boolean }) {
  let from = Infinity, to = -Infinity;
  if (timeline) for (const { node } of spots) if (node.kind) { from = Math.min(from, node.at); to = Math.max(to, ended(node)); }
  const whole = Math.max(1, to - from);
  const row = (spot: Spot) => {
    const { node } = spot;
    return (
      <a class={`branch${lit && !lit.has(node) ? " dim" : ""}${timeline ? " timed" : ""}`} href={address(node)} data-testid="node" data-failed={node.failed}
        aria-current={node === chosen ? "true" : undefined} onClick={(event) => { event.preventDefault(); press(spot); }}>
        <span class="row" style={{ paddingLeft: `${Math.min(spot.depth, 20) * 16}px` }}>
          <span class={`kind ${node.kind}`}>{node.kind || "missing"}</span>
          <span class="mono clip">{node.type}{spot.folded && ` ×${spot.same.length}`}<span class="faint">{outcome(spot)}</span></span>
        </span>
        {timeline && <span class="track"><span class={`stretch ${node.kind}`} style={{ left: `min(${((node.at - from) / whole) * 100}%, 100% - 2px)`, width: `${(took(node) / whole) * 100}%` }} /></span>}
        {timeline && <span class="faint">{span(took(node))}</span>}
      </a>
    );
  };
  return (
    <>
      <Rows rows={spots} label={timeline ? "Timeline of the workflow" : "Tree of the workflow"} selection={chosen?.id} selected={chosen ? spots.findIndex((spot) => spot.node === chosen) : -1} row={row} />
      {timeline && <div class="foot faint">{date(from)}<span class="spread" />{span(whole)}</div>}
    </>
  );
}
