// The graph: causes left, effects right. Only what is in sight is in the page.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { roving } from "../../parts/roving";
import type { Node, Spot } from "./graph";
import { Words } from "./words";

const width = 112, height = 30, across = 152, down = 40, margin = 12, beyond = 200;

const x = (spot: Spot) => margin + spot.depth * across;
const y = (spot: Spot) => margin + spot.row * down;

export interface DrawingProps {
  spots: Spot[];
  chosen?: Node;
  lit?: Set<Node>; // the rest is faint
  address(node: Node): string;
  press(spot: Spot): void;
}

export function Canvas({ spots, chosen, lit, address, press }: DrawingProps) {
  const box = useRef<HTMLDivElement>(null);
  const [sight, look] = useState({ left: 0, top: 0, width: 1200, height: 800 });
  const see = () => { const element = box.current; if (element) look({ left: element.scrollLeft, top: element.scrollTop, width: element.clientWidth, height: element.clientHeight }); };
  useEffect(() => {
    const observer = new ResizeObserver(see);
    observer.observe(box.current!);
    roving(box.current);
    return () => observer.disconnect();
  }, []);
  const at = chosen && spots.find((spot) => spot.node === chosen);
  useLayoutEffect(() => { // the chosen message is kept in sight
    const element = box.current!;
    if (!at) return;
    const [left, top] = [x(at), y(at)];
    if (left < element.scrollLeft || left + width > element.scrollLeft + element.clientWidth) element.scrollLeft = left - margin;
    if (top < element.scrollTop || top + height > element.scrollTop + element.clientHeight) element.scrollTop = top - element.clientHeight / 2;
  }, [at?.node, at?.row]);
  let wide = 0, high = 0;
  for (const spot of spots) { wide = Math.max(wide, x(spot)); high = Math.max(high, y(spot)); }
  const left = sight.left - beyond, right = sight.left + sight.width + beyond, top = sight.top - beyond, bottom = sight.top + sight.height + beyond;
  const near = spots.filter((spot) => y(spot) + height > top && y(spot) < bottom && x(spot) + width > left && x(spot) < right);
  const lines = { lit: "", rest: "" };
  for (const spot of spots) {
    const from = spot.parent;
    if (!from || y(spot) < top || y(from) > bottom || x(spot) < left || x(from) > right) continue;
    const middle = x(spot) - (across - width) / 2, [start, end] = [y(from) + height / 2, y(spot) + height / 2];
    lines[lit && !(lit.has(spot.node) && lit.has(from.node)) ? "rest" : "lit"] += `M${x(from) + width} ${start}H${middle}V${end}H${x(spot)}`;
  }
  const size = { width: wide + width + margin, height: high + height + margin };
  return (
    <div class="canvas" ref={box} role="group" aria-label="Graph of the workflow" data-testid="graph" onScroll={see}>
      <div style={{ position: "relative", ...pixels(size) }}>
        <svg width={size.width} height={size.height} aria-hidden="true"><path class="dim" d={lines.rest} /><path d={lines.lit} /></svg>
        {near.map((spot) => (
          <a key={spot.node.seq || spot.node.id} class={`node ${spot.node.kind}${lit && !lit.has(spot.node) ? " dim" : ""}${spot.folded ? " folded" : ""}`} href={address(spot.node)} data-testid="node" data-failed={spot.node.failed}
            aria-current={spot.node === chosen ? "true" : undefined} style={{ left: `${x(spot)}px`, top: `${y(spot)}px` }}
            title={spot.node.type} onClick={(event) => { event.preventDefault(); press(spot); }}>
            <Words spot={spot} />
          </a>
        ))}
      </div>
    </div>
  );
}

const pixels = (size: { width: number; height: number }) => ({ width: `${size.width}px`, height: `${size.height}px` });
