// A list is one stop for the Tab key. Arrows, Home and End go through it, and Enter opens what has the focus.

const chosen = "[aria-current], [aria-selected=true], [aria-checked=true]";
const step: Record<string, number> = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };

const inside = (list: Element) => [...list.querySelectorAll<HTMLElement>("a[href], button:enabled")];

/** Makes such a list of an element, whose links and buttons may change: it is for `ref`. */
export function roving(list: HTMLElement | null) {
  if (!list) return;
  let last: HTMLElement | undefined; // had the focus last
  const settle = () => {
    const all = inside(list), top = list.getBoundingClientRect().top;
    const stop = all.find((one) => one === document.activeElement) ?? all.find((one) => one.matches(chosen)) ?? all.find((one) => one === last) ?? all.find((one) => one.getBoundingClientRect().top >= top) ?? all[0];
    for (const one of all) one.tabIndex = one === stop ? 0 : -1;
  };
  list.addEventListener("focusin", (event) => { last = event.target as HTMLElement; settle(); });
  list.addEventListener("keydown", (event) => {
    const all = inside(list), at = all.indexOf(document.activeElement as HTMLElement), by = step[event.key], end = event.key === "End";
    if (at < 0 || !(by || end || event.key === "Home") || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (by) { all[at + by]?.focus(); return; }
    list.scrollTop = end ? list.scrollHeight : 0;
    requestAnimationFrame(() => inside(list).at(end ? -1 : 0)?.focus()); // a long list has only those in sight in the page
  });
  new MutationObserver(settle).observe(list, { subtree: true, childList: true, attributeFilter: ["aria-current", "aria-selected", "aria-checked", "disabled"] });
  settle();
}
