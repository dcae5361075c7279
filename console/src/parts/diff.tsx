// Two texts and how they differ, with a mark before each line that does.
import { diff } from "../core/diff";

const around = 3; // lines of both texts that are shown beside a difference

export function Diff({ before, after, label }: { before: string; after: string; label: string }) {
  const lines = diff(before, after);
  const near = new Set<number>();
  lines.forEach((line, i) => { if (line.mark !== " ") for (let at = i - around; at <= i + around; at++) near.add(at); });
  if (!near.size) return <p class="quiet">Nothing differs.</p>;
  return (
    <pre class="json diff" tabIndex={0} role="region" aria-label={label} data-testid="diff">
      {lines.map((line, i) => (near.has(i) ? <div key={i} class={line.mark === "-" ? "error" : line.mark === "+" ? "reply" : "quiet"}>{line.mark} {line.text}</div> : near.has(i - 1) && <div key={i} class="faint">…</div>))}
    </pre>
  );
}
