// A list of rows of one height, of which only those in sight are in the page.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { roving } from "./roving";

export const rowHeight = 24;

export interface RowsProps<T> {
  rows: T[];
  row(item: T, index: number): ComponentChildren;
  selected?: number; // its index; -1 if it isn't among the rows
  selection?: unknown; // what is selected: its row is brought into sight when this changes, and stays when rows come before it
  label: string;
  follow?: boolean; // stay at the end when rows are added
  onTop?(): void; // the first row is in sight: earlier ones may be wanted
  onScroll?(atEnd: boolean): void;
}

export function Rows<T>({ rows, row, selected = -1, selection, label, follow, onTop, onScroll }: RowsProps<T>) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0), [height, setHeight] = useState(600);
  useEffect(() => {
    const observer = new ResizeObserver(() => setHeight(box.current?.clientHeight ?? 600));
    observer.observe(box.current!);
    roving(box.current);
    return () => observer.disconnect();
  }, []);
  const before = useRef(rows);
  useLayoutEffect(() => {
    const was = before.current;
    before.current = rows;
    if (follow) box.current!.scrollTop = rows.length * rowHeight;
    else if (was[0] !== rows[0]) { // what comes or leaves before the rows in sight doesn't move them
      const came = rows.indexOf(was[0]), left = was.indexOf(rows[0]);
      if (came > 0 || left > 0) box.current!.scrollTop += (came > 0 ? came : -left) * rowHeight;
    }
  }, [follow, rows]);
  useLayoutEffect(() => {
    const element = box.current;
    if (selected < 0 || !element) return;
    const at = selected * rowHeight;
    if (at < element.scrollTop) element.scrollTop = at;
    else if (at + rowHeight > element.scrollTop + element.clientHeight) element.scrollTop = at + rowHeight - element.clientHeight;
  }, [selection, selected < 0]);
  useLayoutEffect(() => { // rows that don't fill the box can't be scrolled: a page of large messages has few
    const element = box.current!;
    if (rows.length && element.scrollHeight <= element.clientHeight) onTop?.();
  }, [rows, height]);
  // A row that leaves gives its element to one that comes: the page makes none while it scrolls.
  const kept = Math.ceil(height / rowHeight) + 21;
  const first = Math.max(0, Math.floor(top / rowHeight) - 10), last = Math.min(rows.length, Math.ceil((top + height) / rowHeight) + 10);
  return (
    <div class="rows" ref={box} role="grid" aria-label={label} aria-rowcount={rows.length} data-testid="rows"
      onScroll={(event) => {
        const element = event.currentTarget;
        setTop(element.scrollTop);
        onScroll?.(element.scrollTop + element.clientHeight >= element.scrollHeight - rowHeight);
        if (element.scrollTop < rowHeight) onTop?.();
      }}>
      <div style={{ height: `${rows.length * rowHeight}px`, position: "relative" }}>
        {rows.slice(first, last).map((item, i) => (
          <div key={(first + i) % kept} class="line" role="row" aria-rowindex={first + i + 1} aria-selected={first + i === selected} style={{ top: `${(first + i) * rowHeight}px` }}><div role="gridcell">{row(item, first + i)}</div></div>
        ))}
      </div>
    </div>
  );
}
